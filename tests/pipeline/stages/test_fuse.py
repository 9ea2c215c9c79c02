"""fuse: eq. (1) by hand, every variant of its terms, and the laws of ranking."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from pipeline.schema import PASSAGE
from pipeline.stages.fuse import Fuse
from tests.stubs import StubEmbedder, StubEnv, hit, notes, questions, ready

Hits = list[dict[str, Any]]
LIST = pa.list_(PASSAGE)
GOV = {"kind": "allow_list", "file": "trusted.txt"}


def chunk(pid: int, score: float, doc: str, host: str | None = "x.org") -> dict[str, Any]:
    return hit(pid, score=score, doc_id=doc, url=host and f"https://{host}/{doc}")


def fuse(*rows: tuple[Hits, Hits], model: StubEmbedder | None = None, **config: Any) -> pa.Table:
    table = questions(
        *(f"q{n}?" for n in range(len(rows))), dense=([r[0] for r in rows], LIST), lexical=([r[1] for r in rows], LIST)
    )
    stage = Fuse.model_validate({"dense": "dense", "lexical": "lexical", "into": "passages", **config})
    return ready(stage, StubEnv(embedder=model))(table)


def scores(table: pa.Table, row: int = 0) -> list[tuple[int, float]]:
    return [(p["pid"], p["score"]) for p in table["passages"].to_pylist()[row]]


# Documents a (chunks 1, 2), b (3), c (4), d (5). BM25's best is 20.
DENSE = [chunk(1, 0.8, "a"), chunk(3, 0.7, "b", "www.cia.gov"), chunk(2, 0.5, "a"), chunk(4, 0.4, "c")]
LEXICAL = [chunk(2, 20.0, "a"), chunk(5, 16.0, "d"), chunk(1, 5.0, "a"), chunk(4, 10.0, "c")]


def test_eq_1_by_hand() -> None:
    after = fuse((DENSE, LEXICAL), host=GOV, documents=4)
    # a: max(.8 + .3 x 5/20, .5 + .3 x 20/20) = max(.875, .8); b: .7 + 0 + .1 x 1; c: .4 + .3 x .5; d: 0 + .3 x .8
    assert scores(after) == [(1, pytest.approx(0.875)), (3, pytest.approx(0.8)), (4, pytest.approx(0.55)),
                             (5, pytest.approx(0.24))]  # fmt: skip
    parts = [(p["cosine"], p["bm25_raw"], p["bm25"], p["host"]) for p in after["passages"].to_pylist()[0]]
    assert parts == [
        (pytest.approx(0.8), 5, 0.25, 0),
        (pytest.approx(0.7), None, 0, 1),
        (pytest.approx(0.4), 10, 0.5, 0),
        (None, 16, pytest.approx(0.8), 0),
    ]
    assert [(p["rank"], p["query"]) for p in after["passages"].to_pylist()[0]] == [(n, "q0?") for n in range(4)]
    assert notes(after) == [["cosine: not in the dense pool, counted as 0"]]


def test_the_top_three_documents_and_as_many_chunks_of_each() -> None:
    assert [pid for pid, _ in scores(fuse((DENSE, LEXICAL)))] == [1, 3, 4]
    two = fuse((DENSE, LEXICAL), chunks=2, documents=2)
    assert scores(two) == [(1, pytest.approx(0.875)), (2, pytest.approx(0.875)), (3, pytest.approx(0.7))]
    assert [p["rank"] for p in two["passages"].to_pylist()[0]] == [0, 1, 2]
    assert two["trace"].to_pylist()[0][-1]["kept"] == 3


@pytest.mark.parametrize(
    ("config", "best"),
    [
        ({"aggregation": "max"}, [("a", 0.875), ("b", 0.7), ("c", 0.55)]),
        ({"aggregation": "mean_top_k", "top_k": 2}, [("a", 0.8375), ("b", 0.7), ("c", 0.55)]),
        ({"aggregation": "sum"}, [("a", 1.675), ("b", 0.7), ("c", 0.55)]),
        ({"aggregation": "sum", "host": GOV}, [("a", 1.675), ("b", 0.8), ("c", 0.55)]),  # the host once a document
        ({"bm25": "raw"}, [("a", 6.5), ("d", 4.8), ("c", 3.4)]),  # why it is not the default: words decide alone
        ({"bm25": "min_max"}, [("a", 0.8), ("b", 0.7), ("c", 0.5)]),
        ({"bm25_boost": 0.0}, [("a", 0.8), ("b", 0.7), ("c", 0.4)]),
        ({"bm25_boost": 0.0, "host_boost": 0.5, "host": GOV}, [("b", 1.2), ("a", 0.8), ("c", 0.4)]),
        ({"lexical": None}, [("a", 0.8), ("b", 0.7), ("c", 0.4)]),
        ({"dense": None}, [("a", 0.3), ("d", 0.24), ("c", 0.15)]),
    ],
)
def test_variants_by_hand(config: dict[str, Any], best: list[tuple[str, float]]) -> None:
    found = [(p["doc_id"], p["score"]) for p in fuse((DENSE, LEXICAL), **config)["passages"].to_pylist()[0]]
    assert found == [(doc, pytest.approx(score)) for doc, score in best]


def test_the_embedder_computes_what_the_dense_search_lacks() -> None:
    embedder = StubEmbedder({"passage 5": 0.6})
    after = fuse((DENSE, LEXICAL), ([], []), ([], LEXICAL[1:2]), model=embedder, embedder="dense_retriever")
    assert (5, pytest.approx(0.84)) in scores(after)
    assert embedder.batches == [["q0?", "passage 5", "q2?"]]
    assert [trace[-1]["calls"] for trace in after["trace"].to_pylist()] == [2, 0, 2]
    assert notes(after) == [[], [], []]


def test_urls_that_say_no_host_score_0_and_are_noted_by_document() -> None:
    dense = [chunk(1, 0.5, "a", None), chunk(2, 0.4, "a", None), chunk(3, 0.3, "b", "not a host"), chunk(4, 0.2, "c")]
    after = fuse((dense, []), host=GOV)
    assert [score for _, score in scores(after)] == pytest.approx([0.5, 0.3, 0.2])
    assert notes(after) == [["url: missing, host score 0", "url: malformed, host score 0"]]
    assert notes(fuse((dense, []))) == [[]]  # without host scores nobody asks


def test_nothing_found_is_an_empty_list() -> None:
    after = fuse(([], []))
    assert after["passages"].to_pylist() == [[]]
    assert after["error"].to_pylist() == [None]


def test_it_needs_a_source_and_known_words(tmp_path: Path) -> None:
    with pytest.raises(ValidationError, match="one of dense and lexical is needed"):
        Fuse.model_validate({"into": "x"})
    with pytest.raises(ValidationError, match="'max', 'min_max' or 'raw'"):
        Fuse.model_validate({"into": "x", "dense": "d", "bm25": "log"})


CHUNKS = st.lists(
    st.tuples(st.integers(0, 30), st.floats(-1, 1, width=32)), max_size=12, unique_by=lambda chunk: chunk[0]
)


def _hits(found: list[tuple[int, float]], times: float = 1.0) -> Hits:
    """Passage n belongs to document n // 3; odd documents are of a trusted host."""
    return [
        chunk(pid, abs(score) * times if times != 1 else score, f"d{pid // 3}", "a.gov" if pid // 3 % 2 else "a.org")
        for pid, score in found
    ]


def by_document(table: pa.Table) -> dict[str, tuple[float, int, str]]:
    """Document -> its score, how many documents score higher, its URL. (Sums round, so that a boost may make a tie.)"""
    passages = table["passages"].to_pylist()[0]
    return {p["doc_id"]: (p["score"], sum(o["score"] > p["score"] for o in passages), p["url"]) for p in passages}


@settings(max_examples=40, deadline=None)
@given(rows=st.lists(st.tuples(CHUNKS, CHUNKS), min_size=1, max_size=4))
def test_a_row_alone_and_in_any_batch_and_order_comes_out_the_same(rows: list[Any]) -> None:
    inputs = [(_hits(dense), _hits(lexical, 20.0)) for dense, lexical in rows]
    together = [scores(fuse(*inputs, host=GOV), n) for n in range(len(inputs))]
    assert [scores(fuse(one, host=GOV)) for one in inputs] == together
    backwards = fuse(*inputs[::-1], host=GOV)
    assert [scores(backwards, n) for n in range(len(inputs))] == together[::-1]
    shuffled = [(dense[::-1], lexical[::-1]) for dense, lexical in inputs]  # hits of a pool in another order
    assert [scores(fuse(*shuffled, host=GOV), n) for n in range(len(inputs))] == together


@settings(max_examples=60, deadline=None)
@given(dense=CHUNKS, lexical=CHUNKS, boost=st.floats(0, 2), aggregation=st.sampled_from(["max", "mean_top_k", "sum"]))
def test_a_trusted_host_never_lowers_a_document(dense: Any, lexical: Any, boost: float, aggregation: str) -> None:
    rows = (_hits(dense), _hits(lexical, 20.0))
    config = {"documents": 99, "aggregation": aggregation}
    without = by_document(fuse(rows, **config))
    boosted = by_document(fuse(rows, host=GOV, host_boost=boost, **config))
    for doc, (score, _, url) in boosted.items():
        trusted = "gov" in url
        assert score == pytest.approx(without[doc][0] + boost * trusted, abs=1e-5)
        if trusted:
            assert boosted[doc][1] <= without[doc][1]


@settings(max_examples=60, deadline=None)
@given(dense=CHUNKS, lexical=CHUNKS.filter(len), more=st.floats(0, 30, width=32), data=st.data())
def test_more_bm25_never_lowers_a_document(dense: Any, lexical: Any, more: float, data: st.DataObject) -> None:
    """Raw, in every aggregation over the same chunks. (Scaled by the best, a chunk that rises takes others down.)"""
    chosen = data.draw(st.integers(0, len(lexical) - 1))
    before, after = _hits(lexical, 20.0), _hits(lexical, 20.0)
    after[chosen]["score"] += more
    for aggregation in ("max", "mean_top_k", "sum"):
        config = {"documents": 99, "bm25": "raw", "aggregation": aggregation}
        doc = before[chosen]["doc_id"]
        low, high = (by_document(fuse((_hits(dense), hits), **config))[doc] for hits in (before, after))
        assert high[0] >= low[0]
        assert high[1] <= low[1]
