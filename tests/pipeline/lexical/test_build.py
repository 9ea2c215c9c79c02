"""BM25's steps of a build: resumable, same bytes, named in the manifest; searching a built index by either method."""

import json
import shutil
from pathlib import Path

import pytest

from pipeline.env import SearchRequest
from pipeline.errors import InputError, UnfinishedError
from pipeline.lexical import build as lexical
from pipeline.models.resolve import resolve_model
from pipeline.plaid import build
from pipeline.plaid.index import IndexShards, LocalSearcher, check_index
from pipeline.plaid.manifest import read_manifest
from pipeline.plaid.plan import freeze_plan
from pipeline.plaid.publish import publish_step
from pipeline.storage import open_home
from tests.pipeline.plaid.small_index import (
    SPEC,
    StubEncoder,
    build_index,
    documents_of,
    hashes,
    plan_of,
    write_corpus,
)

QUERIES = ["word3x1 word3x2", "word7x5 word1x1", "nowhere", "?"]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    home = tmp_path_factory.mktemp("built")
    corpus = write_corpus(home / "corpus", documents_of())
    build_index(plan_of(corpus), home / "index")
    return corpus, home / "index"


def _hits(out: Path, queries: list[str] = QUERIES, k: int = 5) -> list[list[dict]]:
    return LocalSearcher(out, None, ["bm25"]).search(SearchRequest(queries, k, method="bm25"))


def test_hits_have_passages_scores_and_ranks(built: tuple[Path, Path]) -> None:
    first, second, unknown, blank = _hits(built[1])
    assert {hit["doc_id"] for hit in first} == {"d3"}
    assert {hit["doc_id"] for hit in second} == {"d7", "d1"}
    assert unknown == blank == []
    assert [hit["rank"] for hit in first] == list(range(len(first)))
    assert all("word3x1" in hit["text"] or "word3x2" in hit["text"] for hit in first)
    assert first == sorted(first, key=lambda hit: (-hit["score"], hit["pid"]))


def test_shards_of_any_size_give_the_same_hits(built: tuple[Path, Path], tmp_path: Path) -> None:
    build_index(plan_of(built[0], "shards.documents=100"), tmp_path / "one")
    build_index(plan_of(built[0], "shards.documents=1"), tmp_path / "twelve")
    assert _hits(tmp_path / "one", k=50) == _hits(built[1], k=50) == _hits(tmp_path / "twelve", k=50)


def test_both_methods_over_one_searcher(built: tuple[Path, Path]) -> None:
    searcher = LocalSearcher(built[1], StubEncoder(), ["plaid", "bm25"])
    for method in ("plaid", "bm25"):
        (hits,) = searcher.search(SearchRequest(["word4x1 word4x2 word4x3"], 1, method=method))  # type: ignore[arg-type]
        assert hits[0]["doc_id"] == "d4"


@pytest.mark.parametrize("killed_after", ["one shard's postings", "postings", "statistics", "one shard's weights"])
def test_continued_anywhere_it_has_the_same_bytes(built: tuple[Path, Path], tmp_path: Path, killed_after: str) -> None:
    corpus, whole = built
    plan, out = plan_of(corpus), tmp_path / "index"
    home, names = open_home(out), plan.names()
    freeze_plan(plan, home)
    for name in names:
        build.passages_step(plan, name, home, resolve_model(SPEC.source))
    for name in names[: 1 if killed_after == "one shard's postings" else None]:
        lexical.postings_step(plan, name, home)
    if killed_after in ("statistics", "one shard's weights"):
        lexical.statistics_step(names, home)
    if killed_after == "one shard's weights":
        lexical.weights_step(plan.config.lexical, lexical.collection_key(names), names[1], home)
    build_index(plan, out)
    assert hashes(out) == hashes(whole)


def test_what_is_committed_is_not_redone(built: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    plan, home = plan_of(built[0]), open_home(built[1])
    monkeypatch.setattr(lexical, "open_passages", None)
    monkeypatch.setattr(lexical, "weights", None)
    assert lexical.postings_step(plan, "00000", home)["passages"] > 0
    assert lexical.statistics_step(plan.names(), home)["passages"] == read_manifest(built[1]).passages
    key = lexical.collection_key(plan.names())
    assert lexical.weights_step(plan.config.lexical, key, "00000", home)["pairs"] > 0


def test_the_manifest_names_what_there_is(built: tuple[Path, Path]) -> None:
    manifest = read_manifest(built[1])
    assert manifest.lexical is not None
    assert manifest.lexical["k1"] == 1.2
    assert manifest.lexical["passages"] == manifest.passages
    for name in manifest.shard_names():
        assert (manifest.home.folder(f"lexical/{name}") / "indices.npy").is_file()
        assert (manifest.home.folder(f"weights/{manifest.lexical['collection']}/{name}") / "weights.npy").is_file()


def test_steps_before_their_turn_say_so(built: tuple[Path, Path], tmp_path: Path) -> None:
    plan = plan_of(built[0])
    with pytest.raises(UnfinishedError, match="step passages/00000 is not done"):
        lexical.postings_step(plan, "00000", open_home(tmp_path))
    with pytest.raises(UnfinishedError, match="step lexical/00000 is not done"):
        lexical.statistics_step(plan.names(), open_home(tmp_path))


def test_it_is_not_published_without_its_bm25(built: tuple[Path, Path], tmp_path: Path) -> None:
    shutil.copytree(built[1], tmp_path / "index")
    out, plan = tmp_path / "index", plan_of(built[0])
    (out / "MANIFEST.json").unlink()
    shutil.rmtree(out / "manifests")
    key = lexical.collection_key(plan.names())
    (out / "commit" / "weights" / key / "00001.json").unlink()
    record = open_home(out).committed("lexical/00002")
    assert record is not None
    (out / record["folder"] / "indices.npy").write_bytes(b"")
    with pytest.raises(UnfinishedError) as caught:
        publish_step(plan, plan.names(), open_home(out))
    assert f"shard 00001: its step weights/{key}/00001 is not done" in str(caught.value)
    assert "indices.npy has 0 bytes" in str(caught.value)


def test_an_index_without_bm25(built: tuple[Path, Path], tmp_path: Path) -> None:
    out = tmp_path / "index"
    build_index(plan_of(built[0], "lexical.bm25=false"), out)
    assert not (out / "lexical").exists()
    assert read_manifest(out).lexical is None
    (hits,) = LocalSearcher(out, StubEncoder()).search(SearchRequest(["word3x1 word3x2"], 1))
    assert hits[0]["doc_id"] == "d3"
    check_index(out, SPEC)
    with pytest.raises(InputError, match=r"has no BM25 .*lexical\.bm25=true"):
        check_index(out, SPEC, ["plaid", "bm25"])
    with pytest.raises(InputError, match="has no BM25"):
        IndexShards(read_manifest(out), ["00000"], ["bm25"])
    with pytest.raises(InputError, match=r"lexical\.bm25 = False, now it is True"):
        freeze_plan(plan_of(built[0]), open_home(out))


@pytest.mark.parametrize("change", ["lexical.k1=2.0", "lexical.b=0.5", "lexical.bm25=false"])
def test_another_setting_is_refused_and_named(built: tuple[Path, Path], change: str) -> None:
    with pytest.raises(InputError, match=rf"{change.partition('=')[0]} = .*, now it is"):
        freeze_plan(plan_of(built[0], change), open_home(built[1]))


def test_other_rules_for_terms_are_refused(built: tuple[Path, Path], tmp_path: Path) -> None:
    shutil.copytree(built[1], tmp_path / "index")
    manifest = json.loads((tmp_path / "index" / "MANIFEST.json").read_text())
    manifest["lexical"]["rules"] = 0
    (tmp_path / "index" / "MANIFEST.json").write_text(json.dumps(manifest))
    with pytest.raises(InputError, match="rules 0 for cutting text into terms"):
        check_index(tmp_path / "index", None, ["bm25"])


def test_only_what_was_opened_is_searched(built: tuple[Path, Path]) -> None:
    with pytest.raises(ValueError, match="not opened for plaid"):
        LocalSearcher(built[1], None, ["bm25"]).search(SearchRequest(["a"], 1))
    with pytest.raises(ValueError, match="not opened for bm25"):
        LocalSearcher(built[1], StubEncoder()).search(SearchRequest(["a"], 1, method="bm25"))
