"""Clusters for drivers that join one; rooms for answering jobs, and what comes of an undisturbed one."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.chaos.room import NewRoom, Result, Room
from tests.pipeline.plaid.small_index import build_index, documents_of, plan_of, write_corpus

TOO_BUSY = "timed out during startup"  # Ray gives a node thirty seconds


@pytest.fixture
def cluster() -> Iterator[Any]:
    """A head that holds no workers; the tests add and kill the others."""
    yield from _started(num_cpus=0)


@pytest.fixture(scope="module")
def standing() -> Iterator[Any]:
    """One node for all drivers of a module."""
    yield from _started(num_cpus=4)


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("index")
    build_index(plan_of(write_corpus(folder / "corpus", documents_of(12)), "split.size=60"), folder / "index")
    return folder / "index"


@pytest.fixture
def room(index: Path, tmp_path: Path) -> NewRoom:
    return lambda **settings: Room(tmp_path / "room", index, **settings)


@pytest.fixture(scope="module")
def undisturbed(index: Path, tmp_path_factory: pytest.TempPathFactory) -> Result:
    """By the local executor: nothing of Ray in it."""
    room = Room(tmp_path_factory.mktemp("undisturbed") / "room", index)
    with room.answer("--executor", "local") as job:
        job.succeed()
    assert set(room.asked().values()) == {1}
    return room.result()


@pytest.fixture
def joined(standing: Any) -> list[str]:
    """Options of a driver that joins the standing cluster."""
    return ["--address", standing.address]


def children() -> set[psutil.Process]:
    return set(psutil.Process().children(recursive=True))


def _started(**head: Any) -> Iterator[Any]:
    from ray.cluster_utils import Cluster

    options = {"include_dashboard": False, **head}
    before = children()
    for last_try in (False, False, True):
        try:
            started = Cluster(initialize_head=True, connect=False, head_node_args=options)
            break
        except Exception as problem:  # Ray raises no class of its own here
            for left in children() - before:
                left.kill()
            if last_try or TOO_BUSY not in str(problem):
                raise
    yield started
    started.shutdown()
