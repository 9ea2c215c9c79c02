"""Corpora as they come, from their files to the answer of a search: real reading, splitting and both searches; the
encoder is a stub."""

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pipeline import storage
from pipeline.corpus import location
from pipeline.env import SearchRequest
from pipeline.plaid.index import LocalSearcher
from pipeline.plaid.plan import Plan
from tests.pipeline.plaid.small_index import StubEncoder, build_index, hashes, plan_of
from tests.seaweedfs import S3Server, s3_server

ROWS: list[dict[str, Any]] = [
    {"id": "long", "text": "Filler words stand here in rows. " * 830 + "The wanted fact is last.", "title": None},
    {"id": "one", "text": "Word", "title": "Reykjavik"},
    {"id": "none", "text": "\u200b", "title": "Nothing"},
    {"id": "zh", "text": "北京是中国的首都。上海是最大的城市。", "title": "北京"},
    {"id": "ar", "text": "مرحبا بالعالم. كيف حالك؟", "title": ""},
    {"id": 7, "text": "seven half \ud83d emoji", "title": "Seven"},
]


def jsonl() -> bytes:
    return "".join(json.dumps(row) + "\n" for row in ROWS).encode()


def top(out: Path, query: str, method: Any = "plaid") -> dict[str, Any]:
    return LocalSearcher(out, StubEncoder(), [method]).search(SearchRequest([query], 1, method=method))[0][0]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    with s3_server(tmp_path_factory.mktemp("s3")) as server:
        yield server


def titled(corpus: Any) -> Plan:
    return plan_of(corpus, "split.unit=sentences", "corpus.title=title", "shards.documents=2")


def test_jsonl_of_every_kind_is_searched(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "a.jsonl.gz").write_bytes(gzip.compress(jsonl()))
    out = tmp_path / "index"
    manifest = build_index(titled(tmp_path / "docs"), out)
    assert manifest["documents"] == len(ROWS)
    for method in ("plaid", "bm25"):
        found = top(out, "wanted fact", method)
        assert (found["doc_id"], found["text"].split()[-1]) == ("long", "last.")
        assert top(out, "Reykjavik", method)["text"] == "Word"  # found by its title, read without it
    assert top(out, "北京是中国的首都", "bm25")["doc_id"] == "zh"
    assert top(out, "مرحبا", "bm25")["doc_id"] == "ar"
    assert top(out, "seven", "bm25")["text"] == "seven half \ufffd emoji"
    problems = storage.read_json(out / "report.json")["problems"]
    assert problems["empty text"] == {"count": 1, "ids": ["none"]}
    assert problems["not Unicode"] == {"count": 1, "ids": ["7"]}


@pytest.mark.slow
def test_a_corpus_on_s3_makes_the_index_of_its_copy(
    tmp_path: Path, server: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in server.environment().items():
        monkeypatch.setenv(name, value)
    location._filesystem.cache_clear()  # an earlier test's endpoint
    client = server.client()
    client.create_bucket(Bucket="corpora")
    client.put_object(Bucket="corpora", Key="docs/a.jsonl", Body=jsonl())
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "a.jsonl").write_bytes(jsonl())
    build_index(titled("s3://corpora/docs"), tmp_path / "there")
    build_index(titled(tmp_path / "docs"), tmp_path / "here")
    here, there = hashes(tmp_path / "here"), hashes(tmp_path / "there")
    assert here.pop("plan.json") != there.pop("plan.json")  # it says where the files lie
    assert here == there
    location._filesystem.cache_clear()
