"""The steps of a build: resumable, same bytes, ids and offsets right. Real splitting, codec and shards; the encoder is
a stub whose vectors depend on the text alone (the real one is tested in test_encoder.py and end to end)."""

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest

from pipeline.env import SearchRequest
from pipeline.errors import InputError, UnfinishedError
from pipeline.models.resolve import resolve_model
from pipeline.plaid import build
from pipeline.plaid.index import LocalSearcher, check_index
from pipeline.plaid.manifest import read_manifest
from pipeline.plaid.plan import freeze_plan
from pipeline.plaid.publish import publish_step
from pipeline.profile import ModelSpec
from pipeline.storage import open_home, read_json
from tests.pipeline.plaid.small_index import (
    SPEC,
    StubEncoder,
    build_index,
    documents_of,
    hashes,
    plan_of,
    write_corpus,
)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("built")
    corpus = write_corpus(folder / "corpus", documents_of())
    build_index(plan_of(corpus), folder / "index")
    return corpus, folder / "index"


def test_passages_are_exact_substrings_with_offsets(built: tuple[Path, Path]) -> None:
    _, out = built
    texts = {document["id"]: document["text"] for document in documents_of()}
    manifest = read_manifest(out)
    seen = 0
    for shard in manifest.shards:
        store = build.open_passages(open_home(out), shard["shard"])
        rows = store.rows(range(len(store)))
        assert len(rows) == shard["passages"]
        for row in rows:
            assert texts[row["doc_id"]][row["start"] : row["start"] + len(row["text"])] == row["text"]
        assert [text for number in range(store.pieces) for text in store.piece(number)] == [row["text"] for row in rows]
        assert shard["pid_offset"] == seen
        seen += len(rows)
    assert seen == manifest.passages
    assert manifest.documents == 12
    assert {row["url"] for row in rows} == {f"https://example.org/{n}" for n in (8, 9, 10, 11)}


def test_every_document_finds_itself_over_all_shards(built: tuple[Path, Path]) -> None:
    _, out = built
    searcher = LocalSearcher(out, StubEncoder())
    queries = [f"word{n}x1 word{n}x2 word{n}x3" for n in range(12)]
    found = searcher.search(SearchRequest(queries, 3, {"exhaustive": True}))
    assert [hits[0]["doc_id"] for hits in found] == [f"d{n}" for n in range(12)]
    everything = searcher.search(SearchRequest(queries[:1], 10_000))[0]
    assert sorted(hit["pid"] for hit in everything) == list(range(read_manifest(out).passages))
    assert [hit["rank"] for hit in everything] == list(range(len(everything)))


def test_two_builds_have_the_same_bytes(built: tuple[Path, Path], tmp_path: Path) -> None:
    corpus, out = built
    build_index(plan_of(corpus), tmp_path / "again")
    assert hashes(tmp_path / "again") == hashes(out)


@pytest.mark.parametrize("killed_after", ["plan", "passages", "codec", "one shard", "everything"])
def test_a_build_continued_anywhere_has_the_same_bytes(
    built: tuple[Path, Path], tmp_path: Path, killed_after: str
) -> None:
    corpus, whole = built
    out = tmp_path / "index"
    plan = plan_of(corpus)
    home = open_home(out)
    freeze_plan(plan, home)
    (out / "attempts" / "leftover").mkdir(parents=True)
    if killed_after != "plan":
        for shard in plan.shards:
            build.passages_step(plan, shard.shard, home, resolve_model(SPEC.source))
    if killed_after not in ("plan", "passages"):
        build.codec_step(plan, home, StubEncoder())
        if killed_after != "codec":
            shards = plan.shards[:1] if killed_after == "one shard" else plan.shards
            for shard in shards:
                build.encode_step(plan, shard.shard, home, StubEncoder(), *build.open_codec(home, StubEncoder()))
    build_index(plan, out)
    assert hashes(out) == hashes(whole)


def test_what_is_committed_is_not_redone(built: tuple[Path, Path]) -> None:
    corpus, out = built

    class Broken(StubEncoder):
        def encode_documents(self, texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
            raise AssertionError("encoded again")

    home = open_home(out)
    build.codec_step(plan_of(corpus), home, Broken())
    build.encode_step(plan_of(corpus), "00000", home, Broken(), *build.open_codec(home, Broken()))


def test_machines_of_another_precision_are_refused(built: tuple[Path, Path]) -> None:
    class Bfloat(StubEncoder):
        dtype = "bfloat16"

    with pytest.raises(UnfinishedError, match="trained on float32 vectors and this machine encodes in bfloat16"):
        build.open_codec(open_home(built[1]), Bfloat())


def test_a_small_collection_is_encoded_once(tmp_path: Path) -> None:
    encoded: list[str] = []

    class Counting(StubEncoder):
        def encode_documents(self, texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
            encoded.extend(texts)
            return super().encode_documents(texts)

    plan, out = plan_of(write_corpus(tmp_path / "corpus", documents_of())), tmp_path / "index"
    manifest = build_index(plan, out, Counting())
    assert len(encoded) == manifest["passages"]
    assert not (out / "pieces").exists()


@pytest.mark.parametrize(
    ("change", "key"),
    [("codec.nbits=4", "codec.nbits"), ("split.size=90", "split.size"), ("shards.documents=5", "shards.documents")],
)
def test_another_setting_is_refused_and_named(built: tuple[Path, Path], change: str, key: str) -> None:
    corpus, out = built
    with pytest.raises(InputError, match=rf"{key} = .*, now it is"):
        freeze_plan(plan_of(corpus, change), open_home(out))


def test_another_corpus_is_refused_and_named(built: tuple[Path, Path], tmp_path: Path) -> None:
    _, out = built
    other = write_corpus(tmp_path / "corpus", documents_of(13))
    with pytest.raises(InputError, match=r"part-010\.parquet"):
        freeze_plan(plan_of(other), open_home(out))


def test_passages_done_again_from_changed_documents_are_refused(tmp_path: Path) -> None:
    """The other steps have used what they were: the index would speak of two texts."""
    corpus = write_corpus(tmp_path / "corpus", documents_of())
    plan, home = plan_of(corpus), open_home(tmp_path / "out")
    build_index(plan, home)
    before = home.need("passages/00001")
    home.forget("passages/00001")  # as for a file that has lost bytes
    changed = [{**row, "text": row["text"].replace("word5x1 ", "other5x ")} for row in documents_of()]
    write_corpus(corpus, changed)
    with pytest.raises(InputError, match=r"passages/00001, done again, is not what it was: its documents have changed"):
        build_index(plan, home)
    write_corpus(corpus, documents_of())
    build_index(plan, home)
    assert home.need("passages/00001") == before


def test_a_moved_corpus_is_the_same_corpus(built: tuple[Path, Path], tmp_path: Path) -> None:
    _, out = built
    freeze_plan(plan_of(write_corpus(tmp_path / "elsewhere", documents_of())), open_home(out))


def test_a_moved_index_answers_the_same(built: tuple[Path, Path], tmp_path: Path) -> None:
    import shutil

    _, out = built
    shutil.copytree(out, tmp_path / "moved")
    request = SearchRequest(["word3x1 word3x2"], 5)
    moved = LocalSearcher(tmp_path / "moved", StubEncoder()).search(request)
    assert moved == LocalSearcher(out, StubEncoder()).search(request)
    assert str(out) not in (tmp_path / "moved" / "MANIFEST.json").read_text()


def test_empty_texts_and_odd_ids_are_counted_and_shift_nothing(tmp_path: Path) -> None:
    documents = documents_of(8)
    documents[1]["text"] = "  \n\t "
    documents[2]["text"] = None
    documents[3]["id"] = documents[0]["id"]
    documents[5]["id"] = None
    for document in documents[4:]:
        document["text"] = "" if document["id"] else document["text"]
    out = tmp_path / "index"
    manifest = build_index(plan_of(write_corpus(tmp_path / "corpus", documents)), out)
    report = read_json(out / "report.json")
    assert report["problems"]["empty text"] == {"count": 5, "ids": ["d1", "d2", "d4", "d6", "d7"]}
    assert report["problems"]["duplicate id"] == {"count": 1, "ids": ["d0"]}
    assert report["problems"]["no id"] == {"count": 1, "ids": ["part-005.parquet:0:0"]}
    assert manifest["documents"] == 8
    hits = LocalSearcher(out, StubEncoder()).search(SearchRequest(["word5x1 word5x2 word5x3"], 1))[0]
    assert hits[0]["doc_id"] == "part-005.parquet:0:0"
    assert hits[0]["text"] in documents[5]["text"]


def test_a_shard_of_empty_texts_is_no_obstacle(tmp_path: Path) -> None:
    documents = documents_of(8)
    for document in documents[:4]:
        document["text"] = ""
    out = tmp_path / "index"
    build_index(plan_of(write_corpus(tmp_path / "corpus", documents)), out)
    assert read_manifest(out).shard_names() == ["00001"]
    hits = LocalSearcher(out, StubEncoder()).search(SearchRequest(["word6x1 word6x2 word6x3"], 1))[0]
    assert hits[0]["doc_id"] == "d6"


def test_a_corpus_without_text_says_so(tmp_path: Path) -> None:
    documents = [{**document, "text": " "} for document in documents_of(3)]
    with pytest.raises(InputError, match="no document has text in column 'text'"):
        build_index(plan_of(write_corpus(tmp_path / "corpus", documents)), tmp_path / "index")


@pytest.mark.parametrize("count", [1, 2])
def test_tiny_collections_build_and_search(tmp_path: Path, count: int) -> None:
    out = tmp_path / "index"
    build_index(plan_of(write_corpus(tmp_path / "corpus", documents_of(count))), out)
    hits = LocalSearcher(out, StubEncoder()).search(SearchRequest(["word0x1 word0x2"], 10))[0]
    assert hits[0]["doc_id"] == "d0"


def test_an_unfinished_or_damaged_index_is_not_published(built: tuple[Path, Path], tmp_path: Path) -> None:
    import shutil

    corpus, whole = built
    out = tmp_path / "index"
    shutil.copytree(whole, out)
    (out / "MANIFEST.json").unlink()
    shutil.rmtree(out / "manifests")
    record = open_home(out).committed("shards/00001")
    assert record is not None
    path = out / record["folder"] / "0.residuals.pt"
    path.write_bytes(path.read_bytes()[:-10])
    with pytest.raises(UnfinishedError, match=r"shard 00001: .*0\.residuals\.pt has .* bytes"):
        publish_step(plan_of(corpus), plan_of(corpus).names(), open_home(out))
    assert not (out / "MANIFEST.json").exists()
    with pytest.raises(InputError, match="unfinished index"):
        read_manifest(out)


@pytest.mark.parametrize(
    ("name", "harm"),
    [
        ("MANIFEST.json", lambda path: path.write_text("{")),
        ("passages.arrow", lambda path: path.unlink()),
        ("passages.arrow", lambda path: path.write_bytes(path.read_bytes()[:100])),
        ("passages.arrow", lambda path: path.write_bytes(b"")),
        ("0.residuals.pt", lambda path: path.write_bytes(path.read_bytes().replace(b"torch", b"t@rch"))),
        ("0.codes.pt", lambda path: path.write_bytes(b"")),
        ("centroids.pt", lambda path: path.unlink()),
    ],
)
def test_a_damaged_index_is_named(
    built: tuple[Path, Path], tmp_path: Path, name: str, harm: Callable[[Path], object]
) -> None:
    import shutil

    out = tmp_path / "index"
    shutil.copytree(built[1], out)
    for path in out.rglob(name):
        harm(path)
    with pytest.raises(InputError, match=name):
        LocalSearcher(out, StubEncoder()).search(SearchRequest(["word3x1"], 1))


def test_not_an_index(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such index"):
        read_manifest(tmp_path / "absent")
    (tmp_path / "notes.txt").write_text("hello")
    with pytest.raises(InputError, match=r"is not an index.*notes\.txt"):
        read_manifest(tmp_path)


def test_another_checkpoint_is_refused(built: tuple[Path, Path], tmp_path: Path) -> None:
    assert check_index(built[1], SPEC).passages > 0
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "config.json").write_text("{}")
    with pytest.raises(
        InputError, match=r"was built with the checkpoint embedded:minilm-colbert .* retriever is .*model"
    ):
        check_index(built[1], ModelSpec(engine="late-interaction", source=str(tmp_path / "model")))


def test_an_output_folder_that_holds_something_else(built: tuple[Path, Path], tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("...")
    with pytest.raises(InputError, match=r"holds something else \(thesis\.tex\)"):
        freeze_plan(plan_of(built[0]), open_home(tmp_path))
    with pytest.raises(InputError, match="is a file"):
        freeze_plan(plan_of(built[0]), open_home(tmp_path / "thesis.tex"))


@pytest.mark.parametrize(
    ("sets", "said"),
    [
        (["codec.nbits=3"], "nbits"),
        (["split.size=600"], "reads 509 of a passage"),
    ],
)
def test_settings_that_cannot_work_are_refused_at_once(built: tuple[Path, Path], sets: list[str], said: str) -> None:
    with pytest.raises(InputError, match=said):
        plan_of(built[0], *sets)
