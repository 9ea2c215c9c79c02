"""Builds to a real S3 server, with the driver killed and with requests failing on the way."""

from collections.abc import Callable
from pathlib import Path

import pytest

from pipeline.storage import open_home
from pipeline.storage.s3 import _client_of
from tests.chaos.processes import driver
from tests.fault_proxy import fault_proxy
from tests.pipeline.plaid.small_index import build_index, documents_of, plan_of, write_corpus
from tests.pipeline.plaid.test_on_s3 import committed_files
from tests.seaweedfs import S3Server

BUILD = "tests.chaos.build"
pytestmark = pytest.mark.slow


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    return write_corpus(tmp_path / "corpus", documents_of(12))


def undisturbed(corpus: Path, tmp_path: Path) -> dict:
    build_index(plan_of(corpus, "shards.documents=3", "split.size=60"), tmp_path / "here")
    return committed_files(open_home(tmp_path / "here"))


def holds(place: str, folder: str) -> Callable[[], bool]:
    return lambda: bool(open_home(place).entries(folder))


def test_a_driver_killed_twice_on_s3(corpus: Path, s3: str, tmp_path: Path) -> None:
    kills = 0
    for folder in ("commit/passages", "commit/shards"):
        with driver(BUILD, corpus, s3) as build:
            assert build.wait_for(holds(s3, folder))
            build.kill()
            kills += 1
    with driver(BUILD, corpus, s3) as build:
        build.succeed()
    assert kills == 2
    assert committed_files(open_home(s3)) == undisturbed(corpus, tmp_path)
    assert open_home(s3).exists("MANIFEST.json")


@pytest.mark.parametrize("fault", ["503", "close"])
def test_requests_that_fail_now_and_then(
    corpus: Path, s3: str, s3_endpoint: S3Server, tmp_path: Path, fault: str
) -> None:
    """The first read, the first write, and one of every seven after them."""
    with fault_proxy(s3_endpoint.endpoint) as proxy:
        for method in ("GET", "PUT", "HEAD"):
            for nth in (1, *range(7, 200, 7)):
                proxy.fail(method, nth, fault)
        with driver(BUILD, corpus, s3, env={"AWS_ENDPOINT_URL": proxy.endpoint}) as build:
            build.succeed()
        assert proxy.failed >= 10
    _client_of.cache_clear()
    assert committed_files(open_home(s3)) == undisturbed(corpus, tmp_path)


def test_a_shard_that_s3_never_takes_is_named(corpus: Path, s3: str, s3_endpoint: S3Server) -> None:
    with fault_proxy(s3_endpoint.endpoint) as proxy:
        for nth in range(1, 100):
            proxy.fail("PUT", nth, "500", containing="/shards/00002-")
        with driver(BUILD, corpus, s3, env={"AWS_ENDPOINT_URL": proxy.endpoint}) as build:
            code, said = build.finish()
    assert code == 1
    assert f"shard 00002: UnfinishedError: {s3}/shards/00002-" in said
    assert "S3 failed 8 times" in said
    assert open_home(s3).done("shards") == {"00000", "00001", "00003"}
    assert not open_home(s3).exists("MANIFEST.json")
