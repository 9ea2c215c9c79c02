"""Dense vectors on Ray: the same index bytes, and the same hits, as in one process."""

import shutil
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from pipeline.env import SearchRequest
from pipeline.errors import UnfinishedError
from pipeline.plaid.index import LocalSearcher
from pipeline.plaid.manifest import read_manifest
from pipeline.profile import ModelSpec, Profile
from pipeline.storage import Home, open_home
from ray_cluster.build import build
from ray_cluster.pools import Makers, RayEnv
from tests.pipeline.dense.shards import WordEmbedder
from tests.pipeline.plaid.small_index import (
    MINILM,
    SPEC,
    StubEncoder,
    build_index,
    dense_plan,
    documents_of,
    hashes,
    write_corpus,
)
from tests.ray_cluster.stubs import Recorder

pytestmark = pytest.mark.usefixtures("ray_session")
MAKER = "tests.ray_cluster.test_dense:make_stub"
BAD = "unembeddable"  # in a text: the embedder raises


class Embedder(WordEmbedder):
    def embed(self, texts: Sequence[str]) -> np.ndarray:
        if any(BAD in text for text in texts):
            raise ValueError("this text explodes")
        return super().embed(texts)


def make_stub(spec: ModelSpec) -> StubEncoder | Embedder:
    return StubEncoder() if spec.engine == "late-interaction" else Embedder()


def forget(home: Home, step: str) -> None:
    """A build that has done everything but this step and publishing."""
    for name in home.done(step):
        home.forget(f"{step}/{name}")
    for entry in home.entries("manifests"):
        home.remove(f"manifests/{entry}")
    home.remove("MANIFEST.json")


def test_builds_and_hits_equal_those_of_one_process(tmp_path: Path) -> None:
    plan = dense_plan(write_corpus(tmp_path / "corpus", documents_of()))
    here, there = tmp_path / "here", tmp_path / "there"
    build_index(plan, here)
    shutil.copytree(here, there)
    home, watch = open_home(there), Recorder()
    forget(home, "vectors")
    manifest = build(plan, plan.names(), home, SPEC, Path(), watch, dense=MINILM, maker=MAKER)
    assert hashes(there) == hashes(here)
    total = manifest["passages"]
    assert ("vectors", 0, total) in watch.began
    assert home.json("report.json")["steps"]["embed"]["passages"] == total

    request = SearchRequest(["word3x1 word3x2", "word7x5 word1x1"], 4, method="dense")
    local = LocalSearcher(here, None, ["dense"], WordEmbedder()).search(request)
    assert [len(hits) for hits in local] == [4, 4]
    env = RayEnv.start(
        Profile(models={"m": MINILM}, roles={"dense_retriever": "m"}),
        [],
        {"chunks": read_manifest(there)},
        methods={"chunks": ["dense"]},
        makers=Makers(model=MAKER),
        say=lambda text: None,
        timeout_s=60,
    )
    try:
        assert env.searcher("chunks").search(request) == local
        with pytest.raises(ValueError, match="was not opened for plaid"):
            env.searcher("chunks").search(SearchRequest(["a"], 1))
    finally:
        env.stop()


def test_a_shard_that_cannot_be_embedded_is_named_or_left_out(tmp_path: Path) -> None:
    documents = documents_of()
    documents[5]["text"] += f" {BAD}"
    plan = dense_plan(write_corpus(tmp_path / "corpus", documents), "lexical.bm25=false")
    build_index(plan, tmp_path / "index")
    home = open_home(tmp_path / "index")
    forget(home, "vectors")
    with pytest.raises(UnfinishedError, match=r"step vectors: 1 of 3 shards failed: shard 00001: .*this text explodes"):
        build(plan, plan.names(), home, SPEC, Path(), Recorder(), dense=MINILM, maker=MAKER)
    options = {"dense": MINILM, "maker": MAKER, "allow_missing": True}
    manifest = build(plan, plan.names(), home, SPEC, Path(), Recorder(), **options)  # type: ignore[arg-type]
    assert [entry["shard"] for entry in manifest["missing"]] == ["00001"]
    assert read_manifest(home).shard_names() == ["00000", "00002"]
    assert build_index(plan, home)["missing"] == []  # with an embedder that can
