"""Nodes of a cluster that join and die while a build runs: shards in hand are done elsewhere, same bytes."""

from pathlib import Path
from typing import Any

import pytest

from tests.chaos.processes import driver, there
from tests.pipeline.plaid.small_index import documents_of, hashes, write_corpus

BUILD = "tests.chaos.build"


@pytest.mark.slow
def test_every_node_is_replaced_during_the_build(tmp_path: Path, cluster: Any) -> None:
    corpus, out = write_corpus(tmp_path / "corpus", documents_of(24)), tmp_path / "index"
    with driver(BUILD, corpus, tmp_path / "undisturbed") as build:
        build.succeed()
    node, kills = cluster.add_node(num_cpus=1), 0
    with driver(BUILD, corpus, out, "--address", cluster.address) as build:
        for moment in ("commit/passages/*.json", "commit/shards/*.json", "commit/weights/*/*.json"):
            assert build.wait_for(there(out, moment))
            following = cluster.add_node(num_cpus=1)  # joins, and is all there is from now on
            cluster.remove_node(node, allow_graceful=False)
            node, kills = following, kills + 1
        build.succeed()
    assert kills == 3
    assert hashes(out) == hashes(tmp_path / "undisturbed")
