"""Homes of both kinds: a folder, and a prefix on a real S3 server."""

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from pipeline.storage import Home, open_home
from tests.seaweedfs import S3Server, s3_server


@pytest.fixture(scope="package")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    with s3_server(tmp_path_factory.mktemp("s3")) as running:
        running.client().create_bucket(Bucket="tartan")
        yield running


@pytest.fixture
def s3(server: S3Server, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> str:
    """An unused s3:// address, reachable from this process; the node's cache is this test's own."""
    from pipeline.storage.s3 import _client_of

    for name, value in {**server.environment(), "TARTAN_CACHE": str(tmp_path / "cache")}.items():
        monkeypatch.setenv(name, value)
    _client_of.cache_clear()
    return f"s3://tartan/{uuid.uuid4().hex}"


@pytest.fixture(params=["local", "s3"])
def home(request: pytest.FixtureRequest, tmp_path: Path) -> Home:
    return open_home(tmp_path / "home" if request.param == "local" else request.getfixturevalue("s3"))
