"""Dense vectors in a built index: searched here, named in the manifest, grown, refused where they do not fit."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from pipeline.env import SearchRequest
from pipeline.errors import InputError, UnfinishedError
from pipeline.plaid.growth import freeze_addition
from pipeline.plaid.index import IndexShards, LocalSearcher, check_index
from pipeline.plaid.manifest import read_manifest
from pipeline.plaid.publish import publish_step
from pipeline.profile import ModelSpec, Profile
from pipeline.storage import open_home
from tests.pipeline.dense.shards import WordEmbedder
from tests.pipeline.plaid.small_index import (
    MINILM,
    SPEC,
    build_index,
    build_shards,
    dense_plan,
    documents_of,
    hashes,
    plan_of,
    write_corpus,
)

QUERIES = ["word3x1 word3x2", "word7x5 word1x1", "elsewhere"]
OTHER = ModelSpec(engine="sentence-transformers", source="embedded:minilm-colbert")


def hits(out: Path, k: int = 5, queries: list[str] = QUERIES) -> list[list[dict]]:
    return LocalSearcher(out, None, ["dense"], WordEmbedder()).search(SearchRequest(queries, k, method="dense"))


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("dense")
    corpus = write_corpus(folder / "corpus", documents_of())
    build_index(dense_plan(corpus), folder / "index")
    return corpus, folder / "index"


@pytest.fixture
def copy(built: tuple[Path, Path], tmp_path: Path) -> Path:
    shutil.copytree(built[1], tmp_path / "index")
    return tmp_path / "index"


def test_hits_have_passages_cosines_and_ranks(built: tuple[Path, Path]) -> None:
    first, second, third = hits(built[1])
    assert first[0]["doc_id"] == "d3"
    assert {hit["doc_id"] for hit in second[:2]} & {"d7", "d1"}
    assert len(third) == 5  # whatever is nearest
    for row in (first, second, third):
        assert [hit["rank"] for hit in row] == list(range(5))
        assert row == sorted(row, key=lambda hit: (-hit["score"], hit["pid"]))
        assert all(-1.001 <= hit["score"] <= 1.001 for hit in row)


def test_shards_of_any_size_give_the_same_hits(built: tuple[Path, Path], tmp_path: Path) -> None:
    for documents in (100, 1):
        out = tmp_path / str(documents)
        build_index(dense_plan(built[0], f"shards.documents={documents}"), out)
        assert hits(out, 50) == hits(built[1], 50)


def test_built_again_it_has_the_same_bytes(built: tuple[Path, Path], tmp_path: Path) -> None:
    build_index(dense_plan(built[0]), tmp_path / "index")
    assert hashes(tmp_path / "index") == hashes(built[1])


def test_the_manifest_names_what_there_is(built: tuple[Path, Path]) -> None:
    manifest, home = read_manifest(built[1]), open_home(built[1])
    assert manifest.dense is not None
    found = {key: manifest.dense[key] for key in ("index", "dim", "dtype")}
    assert found == {"index": "exact", "dim": 16, "dtype": "float32"}
    records = [home.need(f"vectors/{shard['shard']}") for shard in manifest.shards]
    assert [record["passages"] for record in records] == [shard["passages"] for shard in manifest.shards]
    for shard, record in zip(manifest.shards, records, strict=True):
        assert shard["bytes"] > record["files"]["vectors.npy"]["bytes"] > 2 * 16 * shard["passages"]


def test_an_index_from_before_dense_vectors_opens(built: tuple[Path, Path], tmp_path: Path) -> None:
    build_index(plan_of(built[0]), tmp_path / "index")
    path = tmp_path / "index" / "MANIFEST.json"
    values = json.loads(path.read_text())
    del values["dense"]
    path.write_text(json.dumps(values))
    assert read_manifest(tmp_path / "index").dense is None


def test_another_embedder_and_no_vectors_are_refused(built: tuple[Path, Path], tmp_path: Path) -> None:
    check_index(built[1], None, ["dense"], MINILM)
    another = r"of another embedder .* than the profile's dense_retriever, embedded:minilm-colbert"
    with pytest.raises(InputError, match=another):
        check_index(built[1], None, ["dense"], OTHER)
    build_index(plan_of(built[0]), tmp_path / "plain")
    refused: list[Callable[[], object]] = [
        lambda: check_index(tmp_path / "plain", None, ["dense"], MINILM),
        lambda: IndexShards(read_manifest(tmp_path / "plain"), ["00000"], ["dense"]),
    ]
    for refuse in refused:
        with pytest.raises(InputError, match=r"has no dense vectors; .*dense\.role=dense_retriever"):
            refuse()


def test_only_what_was_opened_is_searched(built: tuple[Path, Path]) -> None:
    for searcher in (LocalSearcher(built[1], None, ["bm25"]), LocalSearcher(built[1], None, ["bm25"], WordEmbedder())):
        with pytest.raises(ValueError, match="not opened for dense"):
            searcher.search(SearchRequest(["a"], 1, method="dense"))


def test_it_is_not_published_with_vectors_missing_or_damaged(copy: Path, built: tuple[Path, Path]) -> None:
    plan, home = dense_plan(built[0]), open_home(copy)
    with (home.folder("vectors/00002") / "vectors.npy").open("ab") as file:
        file.write(b"more")
    home.remove("commit/vectors/00001.json")
    said = r"shard 00001: its step vectors/00001 is not done; shard 00002: .*vectors\.npy"
    with pytest.raises(UnfinishedError, match=said):
        publish_step(plan, plan.names(), home)


def test_an_index_grows_with_its_vectors(copy: Path, tmp_path: Path) -> None:
    more = write_corpus(tmp_path / "more", documents_of(16)[12:])
    (more / "part-000.parquet").rename(more / "more-000.parquet")
    home = open_home(copy)
    with pytest.raises(InputError, match=r"of another embedder .* than the profile's dense_retriever"):
        freeze_addition(home, str(more), SPEC, OTHER)
    assert home.entries("additions") == []
    plan, names = freeze_addition(home, str(more), SPEC, MINILM)
    build_shards(plan, names, home)
    assert hits(copy, 1, [" ".join(f"word14x{n}" for n in range(25))])[0][0]["doc_id"] == "d14"
    assert hits(copy, 1)[0][0]["doc_id"] == "d3"


def test_a_profile_without_the_role_is_told() -> None:
    models = {"colbert": SPEC, "minilm": MINILM}
    profile = Profile(name="p", models=models, roles={"retriever": "colbert"})
    assert profile.retrievers(["plaid", "bm25"]) == {"retriever": SPEC}
    assert profile.retrievers(["bm25"]) == {}
    with pytest.raises(InputError, match=r"needs role 'dense_retriever' \(embedder\), for which profile p has nothing"):
        profile.retrievers(["dense"])
    wrong = profile.model_copy(update={"roles": {"dense_retriever": "colbert"}})
    with pytest.raises(InputError, match=r"has a model of kind encoder; .*models of kind embedder there: minilm"):
        wrong.retrievers(["dense"])
