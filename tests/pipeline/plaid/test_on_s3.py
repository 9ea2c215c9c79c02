"""An index on S3, a real server: the bytes of a local build, resumed anywhere, searched, grown, copied."""

from pathlib import Path
from typing import Any

import pytest

from pipeline.env import SearchRequest
from pipeline.errors import InputError
from pipeline.plaid.growth import freeze_addition
from pipeline.plaid.index import LocalSearcher
from pipeline.plaid.manifest import read_manifest
from pipeline.plaid.plan import freeze_plan
from pipeline.storage import Home, open_home
from tests.pipeline.plaid.small_index import (
    SPEC,
    StubEncoder,
    build_index,
    build_shards,
    documents_of,
    plan_of,
    write_corpus,
)
from tests.seaweedfs import S3Server

REQUEST = SearchRequest([f"word{number}x1 word{number}x2" for number in range(12)], 3)


def committed_files(home: Home, folder: str = "commit") -> dict[str, Any]:
    """Every committed file's size and sha256, by commit."""
    found: dict[str, Any] = {}
    for entry in home.entries(folder):
        name = f"{folder}/{entry}"
        if entry.endswith(".json"):
            files = home.json(name)["files"]
            found[name] = {file: (facts["bytes"], facts["sha256"]) for file, facts in files.items()}
        else:
            found |= committed_files(home, name)
    return found


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    return write_corpus(tmp_path / "corpus", documents_of())


def test_a_build_on_s3_has_the_bytes_and_answers_of_a_local_one(corpus: Path, s3: str, tmp_path: Path) -> None:
    manifest = build_index(plan_of(corpus), open_home(s3))
    assert manifest == build_index(plan_of(corpus), tmp_path / "here")
    here, there = open_home(tmp_path / "here"), open_home(s3)
    assert committed_files(there) == committed_files(here)
    for method in ("plaid", "bm25"):
        request = SearchRequest(REQUEST.queries, 3, method=method)  # type: ignore[arg-type]
        searchers = [LocalSearcher(place, StubEncoder(), [method]) for place in (s3, tmp_path / "here")]  # type: ignore[list-item]
        assert searchers[0].search(request) == searchers[1].search(request)
    assert not there.scratch().exists()


def test_centroids_are_stored_once(corpus: Path, s3: str, s3_endpoint: S3Server) -> None:
    build_index(plan_of(corpus), s3)
    pages = s3_endpoint.client().get_paginator("list_objects_v2").paginate(Bucket="tartan", Prefix=s3.split("/")[-1])
    keys = [item["Key"] for page in pages for item in page["Contents"]]
    assert len([key for key in keys if key.endswith("centroids.pt")]) == 1
    assert len([key for key in keys if key.endswith("0.residuals.pt")]) == 3


@pytest.mark.parametrize("lost", ["commit/shards/00001.json", "commit/codec.json", "MANIFEST.json"])
def test_what_is_lost_of_a_build_is_made_again(corpus: Path, s3: str, lost: str) -> None:
    home = open_home(s3)
    manifest = build_index(plan_of(corpus), home)
    before = committed_files(home)
    home.remove(lost)
    assert build_index(plan_of(corpus), home) == manifest
    assert committed_files(home) == before
    assert LocalSearcher(s3, StubEncoder()).search(REQUEST)[3][0]["doc_id"] == "d3"


def test_another_setting_is_refused(corpus: Path, s3: str) -> None:
    freeze_plan(plan_of(corpus), open_home(s3))
    with pytest.raises(InputError, match=rf"{s3} was begun with codec\.nbits = 2, now it is 4"):
        freeze_plan(plan_of(corpus, "codec.nbits=4"), open_home(s3))


def test_it_grows_and_a_copy_elsewhere_answers_the_same(
    corpus: Path, s3: str, s3_endpoint: S3Server, tmp_path: Path
) -> None:
    build_index(plan_of(corpus), s3)
    more = write_corpus(tmp_path / "more", documents_of(20)[12:])
    (more / "part-000.parquet").rename(more / "new-000.parquet")
    (more / "part-005.parquet").rename(more / "new-005.parquet")
    home = open_home(s3)
    plan, names = freeze_addition(home, str(more), SPEC)
    build_shards(plan, names, home)
    request = SearchRequest(["word15x1 word15x2 word15x3"], 1)
    found = LocalSearcher(s3, StubEncoder()).search(request)
    assert found[0][0]["doc_id"] == "d15"
    client, prefix = s3_endpoint.client(), s3.removeprefix("s3://tartan/")
    for page in client.get_paginator("list_objects_v2").paginate(Bucket="tartan", Prefix=f"{prefix}/"):
        for item in page["Contents"]:
            path = tmp_path / "copy" / item["Key"].removeprefix(f"{prefix}/")
            path.parent.mkdir(parents=True, exist_ok=True)
            client.download_file("tartan", item["Key"], str(path))
    assert LocalSearcher(tmp_path / "copy", StubEncoder()).search(request) == found


def test_not_an_index(s3: str) -> None:
    with pytest.raises(InputError, match=rf"{s3}: no such index"):
        read_manifest(s3)
