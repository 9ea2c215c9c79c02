"""S3 alone: refusals, faults of the server (a proxy in front of the real one), large files, the node's copy."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from pipeline.errors import InputError, UnfinishedError
from pipeline.storage import Home, open_home
from pipeline.storage.s3 import PART_MIB, _client_of
from tests.fault_proxy import FaultProxy, fault_proxy
from tests.pipeline.storage.test_home import commit
from tests.seaweedfs import S3Server


@pytest.fixture
def proxy(s3_endpoint: S3Server, s3: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[FaultProxy]:
    with fault_proxy(s3_endpoint.endpoint) as running:
        monkeypatch.setenv("AWS_ENDPOINT_URL", running.endpoint)
        _client_of.cache_clear()
        yield running
    _client_of.cache_clear()


def large(home: Home, name: str = "shards/00000") -> tuple[dict, bytes]:
    contents = os.urandom((2 * PART_MIB << 20) + 17)
    return commit(home, name, contents), contents


def test_a_large_file_goes_up_in_parts_and_comes_back(s3: str, s3_endpoint: S3Server) -> None:
    home = open_home(s3)
    record, contents = large(home)
    assert home.damage(record) == []
    key = f"{s3.removeprefix('s3://tartan/')}/{record['folder']}/data"
    assert s3_endpoint.client().head_object(Bucket="tartan", Key=key)["ETag"].strip('"').endswith("-3")  # three parts
    assert (home.folder("shards/00000") / "data").read_bytes() == contents


@pytest.mark.parametrize("fault", ["503", "500", "close"])
@pytest.mark.parametrize("nth", [1, 2])
def test_a_failing_request_is_repeated(proxy: FaultProxy, s3: str, fault: str, nth: int) -> None:
    """The first or second read, write and list each fail once."""
    home = open_home(s3)
    for method in ("GET", "PUT", "HEAD"):
        proxy.fail(method, nth, fault)
    record = commit(home, "shards/00000", b"abc")
    assert home.committed("shards/00000") == record
    assert home.entries("commit/shards") == ["00000.json"]
    assert (home.folder("shards/00000") / "data").read_bytes() == b"abc"
    assert proxy.failed == 3


def test_a_fault_in_the_middle_of_a_multipart_upload(proxy: FaultProxy, s3: str) -> None:
    home = open_home(s3)
    proxy.fail("PUT", 2, "close", containing="partNumber")
    record, contents = large(home)
    assert proxy.failed == 1
    assert home.damage(record) == []
    assert (home.folder("shards/00000") / "data").read_bytes() == contents


def test_a_create_whose_answer_is_lost_is_still_ours(proxy: FaultProxy, s3: str) -> None:
    home = open_home(s3)
    proxy.fail("PUT", 1, "lose", containing="plan.json")
    assert home.create("plan.json", b"{}")
    assert proxy.failed == 1
    assert not home.create("plan.json", b"[]")


def test_a_download_that_arrives_damaged_is_repeated(proxy: FaultProxy, s3: str) -> None:
    home = open_home(s3)
    commit(home, "shards/00000", b"abc" * 100)
    proxy.fail("GET", 1, "garble", containing="/data")
    assert (home.folder("shards/00000") / "data").read_bytes() == b"abc" * 100
    assert proxy.failed == 1


def test_a_server_that_always_fails_is_named_with_the_key(
    proxy: FaultProxy, s3: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pipeline.storage.s3.ATTEMPTS", 2)
    _client_of.cache_clear()
    for nth in (1, 2):
        proxy.fail("GET", nth, "500")
    with pytest.raises(UnfinishedError, match=rf"{s3}/plan.json: S3 failed 2 times .*run the command again"):
        open_home(s3).read("plan.json")


def test_what_is_refused_fails_at_once(s3_endpoint: S3Server, s3: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match=r"s3://no-such-bucket/a/plan.json: S3 refuses \(NoSuchBucket\)"):
        open_home("s3://no-such-bucket/a").read("plan.json")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wrong")
    _client_of.cache_clear()
    with pytest.raises(InputError, match=rf"{s3}/plan.json: S3 refuses \((SignatureDoesNotMatch|AccessDenied)\)"):
        open_home(s3).read("plan.json")


def test_without_credentials(s3: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("HOME", str(tmp_path))
    _client_of.cache_clear()
    with pytest.raises(InputError, match="no S3 credentials found"):
        open_home(s3).read("plan.json")


def test_a_node_downloads_a_folder_once(proxy: FaultProxy, s3: str) -> None:
    home = open_home(s3)
    commit(home, "shards/00000", b"abc")
    first = home.folder("shards/00000")
    before = proxy.seen("GET", "/data")
    assert home.folder("shards/00000") == first
    assert proxy.seen("GET", "/data") == before == 1
    (first / "data").write_bytes(b"")  # a disk that lost it
    assert (home.folder("shards/00000") / "data").read_bytes() == b"abc"
