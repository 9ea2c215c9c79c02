"""search: order, duplicates, one call, settings for this call only."""

from typing import Any

import pyarrow as pa
import pytest
from pydantic import ValidationError

from pipeline.schema import STRINGS
from pipeline.stages.search import Search
from tests.stubs import StubEnv, StubSearcher, hit, notes, questions, ready

HITS = {"a": [hit(1), hit(2), hit(3)], "b": [hit(3), hit(4), hit(1)], "c": [hit(5)]}


def run(table: pa.Table, searcher: StubSearcher, **settings: Any) -> pa.Table:
    config = {"index": "plaid", "k": 3, "queries": "question", "into": "found", **settings}
    return ready(Search.model_validate(config), StubEnv(searcher))(table)


def found(table: pa.Table) -> list[list[tuple]]:
    return [[(p["pid"], p["rank"], p["query"]) for p in row] for row in table["found"].to_pylist()]


def test_queries_in_order_and_a_passage_stays_where_it_came_first() -> None:
    table = questions("a", queries=([["b", "c"]], STRINGS))
    after = run(table, StubSearcher(HITS), queries=["question", "queries"])
    assert found(after) == [[(1, 0, "a"), (2, 1, "a"), (3, 2, "a"), (4, 1, "b"), (5, 0, "c")]]
    (trace,) = after["trace"].to_pylist()
    assert (trace[-1]["kept"], trace[-1]["calls"]) == (5, 3)


def test_columns_are_searched_in_the_order_given() -> None:
    table = questions("a", queries=([["b"]], STRINGS))
    after = run(table, StubSearcher(HITS), queries=["queries", "question"], k=2)
    assert found(after) == [[(3, 0, "b"), (4, 1, "b"), (1, 0, "a"), (2, 1, "a")]]


def test_one_call_for_a_batch_with_each_query_once() -> None:
    searcher = StubSearcher(HITS)
    after = run(questions("a", "c", "a"), searcher, k=1)
    assert [request.queries for request in searcher.requests] == [["a", "c"]]
    assert found(after) == [[(1, 0, "a")], [(5, 0, "c")], [(1, 0, "a")]]


def test_only_settings_that_are_set_are_sent() -> None:
    searcher = StubSearcher(HITS)
    run(questions("a"), searcher)
    run(questions("a"), searcher, ncells=4, centroid_score_threshold=0.4, ndocs=512, exhaustive=False)
    assert searcher.requests[0].settings == {}
    expected = {"ncells": 4, "centroid_score_threshold": 0.4, "ndocs": 512, "exhaustive": False}
    assert searcher.requests[1].settings == expected
    assert searcher.requests[1].k == 3


def test_the_method_is_sent_and_told_to_the_environment() -> None:
    searcher = StubSearcher(HITS)
    run(questions("a"), searcher, method="bm25")
    run(questions("a"), searcher)
    assert [request.method for request in searcher.requests] == ["bm25", "plaid"]
    stage = Search.model_validate({"index": "i", "k": 1, "queries": "question", "into": "found", "method": "bm25"})
    assert stage.methods() == {"i": {"bm25"}}


def test_a_setting_of_another_method_is_refused() -> None:
    settings = {"index": "i", "k": 1, "queries": "question", "into": "found"}
    for name, value, method in (("ncells", 2, "dense"), ("exhaustive", True, "bm25"), ("nprobe", 2, "plaid")):
        with pytest.raises(ValidationError, match=f"{name} is a setting of method .*, and the method here is {method}"):
            Search.model_validate({**settings, name: value, "method": method})
    searcher = StubSearcher(HITS)
    run(questions("a"), searcher, method="dense", nprobe=4)
    assert (searcher.requests[0].settings, searcher.requests[0].method) == ({"nprobe": 4}, "dense")


def test_blank_queries_are_skipped_and_noted() -> None:
    searcher = StubSearcher(HITS)
    table = questions("  ", "a", queries=([["", None, "c"], None], STRINGS))
    after = run(table, searcher, queries=["question", "queries"])
    assert searcher.requests[0].queries == ["c", "a"]
    assert found(after)[0] == [(5, 0, "c")]
    assert notes(after) == [["query: blank, skipped"] * 3, []]


def test_no_query_at_all_makes_no_call() -> None:
    searcher = StubSearcher(HITS)
    assert found(run(questions(" "), searcher)) == [[]]
    assert searcher.requests == []


def test_no_hits_is_an_empty_list() -> None:
    assert found(run(questions("unknown"), StubSearcher(HITS))) == [[]]


@pytest.mark.parametrize(
    ("written", "depth", "said"),
    [
        (["b", "c"], 2, []),
        (["b"], 4, ["query: 1 missing, the first one searched deeper"]),
        ([], 6, ["query: 2 missing, the first one searched deeper"]),
        (["a", ""], 6, ["query: blank, skipped", "query: 2 missing, the first one searched deeper"]),
    ],
)
def test_a_missing_query_leaves_its_passages_to_the_first(written: list[str], depth: int, said: list[str]) -> None:
    many = {query: [hit(100 * n + m) for m in range(9)] for n, query in enumerate("abc")}
    searcher = StubSearcher(many)
    table = questions("a", queries=([written], STRINGS))
    after = run(table, searcher, k=2, queries=["question", "queries"], planned=3)
    assert {query: request.k for request in searcher.requests for query in request.queries}["a"] == depth
    assert len(after["found"][0]) == 6
    assert notes(after)[0] == said
