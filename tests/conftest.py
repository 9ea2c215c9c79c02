"""Fixtures that tests of several folders share."""

import os
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.seaweedfs import S3Server, s3_server

# Read by Ray when it is imported or started.
os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
os.environ["RAY_DATA_DISABLE_PROGRESS_BARS"] = "1"


@pytest.fixture(scope="session")
def ray_session() -> Iterator[None]:
    """One local Ray with 8 logical CPUs for every test that asks for it."""
    import ray

    ray.init(
        "local",
        num_cpus=8,
        num_gpus=0,
        include_dashboard=False,
        object_store_memory=200 * 2**20,
        logging_level="warning",
    )
    yield
    ray.shutdown()


@pytest.fixture(scope="session")
def s3_endpoint(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    with s3_server(tmp_path_factory.mktemp("s3")) as running:
        running.client().create_bucket(Bucket="tartan")
        yield running


@pytest.fixture
def s3(s3_endpoint: S3Server, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> str:
    """An unused s3:// address, reachable from this process; the node's cache is this test's own."""
    from pipeline.storage.s3 import _client_of

    for name, value in {**s3_endpoint.environment(), "TARTAN_CACHE": str(tmp_path / "cache")}.items():
        monkeypatch.setenv(name, value)
    _client_of.cache_clear()
    return f"s3://tartan/{uuid.uuid4().hex}"
