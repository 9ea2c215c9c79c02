"""The retrieval of configs/systems/adobe.yaml over a built index, against eq. (1) computed from scratch."""

from pathlib import Path

import pytest

from pipeline.compose import load_system
from pipeline.env import SearchRequest
from pipeline.execute import run_local
from pipeline.plaid.index import LocalSearcher
from tests.pipeline.dense.shards import WordEmbedder
from tests.pipeline.plaid.small_index import build_index, dense_plan, documents_of, write_corpus
from tests.stubs import StubEnv, questions

ASKED = ["word3x1 word3x2", "word7x5 word1x1 word1x30", "elsewhere"]


@pytest.fixture(scope="module")
def indexes(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The same documents in three shards and in one; two of them from a trusted host, one from nowhere."""
    folder, documents = tmp_path_factory.mktemp("adobe"), documents_of()
    for number, url in ((1, "https://www.cia.gov/1"), (5, "https://x.edu/5"), (7, None)):
        documents[number]["url"] = url
    corpus = write_corpus(folder / "corpus", documents)
    build_index(dense_plan(corpus), folder / "three")
    build_index(dense_plan(corpus, "shards.documents=100"), folder / "one")
    return folder / "three", folder / "one"


def found(index: Path, asked: list[str]) -> list[list[dict]]:
    """`passages` of the system's first three stages."""
    env = StubEnv(LocalSearcher(index, None, ["dense", "bm25"], WordEmbedder()), embedder=WordEmbedder())  # type: ignore[arg-type]
    ((_, table),) = run_local(load_system("adobe").stages[:3], env, [(0, questions(*asked))])
    return table["passages"].to_pylist()


def test_documents_are_ranked_by_eq_1(indexes: tuple[Path, Path]) -> None:
    searcher = LocalSearcher(indexes[0], None, ["dense", "bm25"], WordEmbedder())
    for query, passages in zip(ASKED, found(indexes[0], ASKED), strict=True):
        cosines, words = (searcher.search(SearchRequest([query], 10_000, method=m))[0] for m in ("dense", "bm25"))  # type: ignore[arg-type]
        bm25 = {hit["pid"]: hit["score"] / words[0]["score"] for hit in words}
        documents: dict[str, float] = {}
        for hit in cosines:
            host = 0.1 * (hit["doc_id"] in ("d1", "d5"))
            score = hit["score"] + 0.3 * bm25.get(hit["pid"], 0.0) + host
            documents[hit["doc_id"]] = max(score, documents.get(hit["doc_id"], -9))
        best = sorted(documents.items(), key=lambda item: -item[1])[:3]
        assert [(p["doc_id"], p["score"]) for p in passages] == [(doc, pytest.approx(s, abs=1e-3)) for doc, s in best]


def test_shards_batches_and_their_order_change_nothing(indexes: tuple[Path, Path]) -> None:
    together = found(indexes[0], ASKED)
    assert found(indexes[1], ASKED) == together
    assert found(indexes[0], ASKED[::-1]) == together[::-1]
    assert [found(indexes[0], [query])[0] for query in ASKED] == together
