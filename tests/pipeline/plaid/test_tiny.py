"""Collections of any small size build, and are searched right."""

from pathlib import Path

import pytest

from pipeline.env import SearchRequest
from pipeline.plaid.index import LocalSearcher
from pipeline.plaid.manifest import read_manifest
from pipeline.storage import open_home
from tests.pipeline.plaid.clusters import max_sim
from tests.pipeline.plaid.small_index import StubEncoder, build_index, plan_of, write_corpus


def build(folder: Path, texts: list[str], *sets: str) -> Path:
    documents = [{"id": f"d{n}", "url": "", "text": text} for n, text in enumerate(texts)]
    corpus = write_corpus(folder / "corpus", documents)
    build_index(plan_of(corpus, "lexical.bm25=false", *sets), folder / "index")
    return folder / "index"


def found(out: Path, query: str, k: int, **settings: object) -> list[str]:
    return [hit["doc_id"] for hit in LocalSearcher(out, StubEncoder()).search(SearchRequest([query], k, settings))[0]]


@pytest.mark.parametrize("nbits", [1, 2, 4])
@pytest.mark.parametrize("recipe", ["lloyd-max", "quantile"])
def test_one_document(tmp_path: Path, nbits: int, recipe: str) -> None:
    out = build(tmp_path, ["one"], f"codec.nbits={nbits}", f"codec.bucket_recipe={recipe}")
    manifest = read_manifest(out)
    assert manifest.passages == 1
    assert open_home(out).need("codec")["centroids"] == 1
    for query in ("one", "another thing"):
        assert found(out, query, 10) == ["d0"]


@pytest.mark.parametrize("nbits", [1, 2, 4])
@pytest.mark.parametrize("assignment", ["exact", "coarse"])
def test_twelve_documents(tmp_path: Path, nbits: int, assignment: str) -> None:
    texts = [f"subject{n} is unlike matter{n} here" for n in range(12)]
    out = build(tmp_path, texts, f"codec.nbits={nbits}", f"codec.assignment={assignment}")
    for n, text in enumerate(texts):
        assert found(out, f"subject{n} matter{n}", 3)[0] == f"d{n}"
        assert found(out, text, 3)[0] == f"d{n}"
    assert sorted(found(out, "subject3", 100)) == sorted(f"d{n}" for n in range(12))


@pytest.mark.parametrize("vectors", [256, 257, 262, 267, 268])
def test_as_many_token_vectors_as_faiss_once_stumbled_over(tmp_path: Path, vectors: int) -> None:
    words = [f"word{n}" for n in range(vectors)]
    texts = [" ".join(words[at : at + 20]) for at in range(0, vectors, 20)]
    out = build(tmp_path, texts)
    assert sum(shard["embeddings"] for shard in read_manifest(out).shards) == vectors
    for n, text in enumerate(texts):
        assert found(out, text, 2)[0] == f"d{n}"
    query = f"{words[0]} {words[1]} {words[45]}"
    exact = max_sim(StubEncoder().encode_queries([query])[0], *StubEncoder().encode_documents(texts))
    assert found(out, query, 1, exhaustive=True) == [f"d{exact.argmax()}"] == ["d0"]


@pytest.mark.parametrize("nbits", [1, 2])
def test_three_hundred_copies_of_one_text(tmp_path: Path, nbits: int) -> None:
    out = build(
        tmp_path, ["the same few words"] * 300 + ["an odd one out"], f"codec.nbits={nbits}", "shards.documents=200"
    )
    hits = found(out, "the same few words", 400)
    assert sorted(hits) == sorted(f"d{n}" for n in range(301))
    assert hits[-1] == "d300"
    assert hits[:3] == ["d0", "d1", "d2"]  # equal scores: by pid
    assert found(out, "an odd one out", 5)[0] == "d300"


def test_the_sample_stays_within_its_memory(tmp_path: Path) -> None:
    texts = [" ".join(f"word{n}x{m}" for m in range(30)) for n in range(40)]
    room = 100  # vectors of 384 float32
    out = build(tmp_path, texts, f"codec.sample_memory_gib={room * 4 * 384 / 2**30}")
    record = open_home(out).need("codec")
    assert record["sample_vectors"] == room
    assert record["estimated_vectors"] == 1200
    assert record["centroids"] <= room // 4
    assert found(out, texts[7], 1) == ["d7"]
