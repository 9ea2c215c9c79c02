"""cut: whole items from the head of a list."""

from typing import Any

import pyarrow as pa

from pipeline.schema import PASSAGE, SNIPPET
from pipeline.stages.cut import Cut
from tests.stubs import hit, questions, snippet


def run(items: list[dict] | None, kind: pa.DataType, **settings: Any) -> list[dict]:
    column = pa.list_(kind)
    stage = Cut.model_validate({"from": "items", "into": "head", **settings})
    stage.bind({"items": column})
    after = stage(questions("q", items=([items], column)))
    assert after.schema.field("head").type == column
    return after["head"].to_pylist()[0]


def test_first_k_passages_stay_as_they_are() -> None:
    passages = [hit(n) for n in range(4)]
    assert run(passages, PASSAGE, k=2) == run(passages, PASSAGE, k=4)[:2]
    assert [p["pid"] for p in run(passages, PASSAGE, k=9)] == [0, 1, 2, 3]


def test_words_are_counted_over_whole_items_up_to_the_first_that_is_too_much() -> None:
    passages = [hit(0, "one two"), hit(1, "three four five"), hit(2, "six")]
    assert [p["pid"] for p in run(passages, PASSAGE, max_words=5)] == [0, 1]
    assert [p["pid"] for p in run(passages, PASSAGE, max_words=4)] == [0]
    assert run(passages, PASSAGE, max_words=1) == []


def test_both_limits_hold() -> None:
    passages = [hit(n, "a b") for n in range(4)]
    assert len(run(passages, PASSAGE, k=3, max_words=4)) == 2
    assert len(run(passages, PASSAGE, k=1, max_words=4)) == 1


def test_snippets_beyond_are_marked_and_dropped_ones_take_no_place() -> None:
    snippets = [snippet("a"), snippet("b", kept=False), snippet("c"), snippet("d")]
    found = [(s["text"], s["kept"], s["reason"]) for s in run(snippets, SNIPPET, k=2)]
    assert found == [
        ("a", True, None),
        ("b", False, "cosine 0.1 < 0.35"),
        ("c", True, None),
        ("d", False, "beyond k = 2"),
    ]
    assert run(snippets, SNIPPET, max_words=1)[2]["reason"] == "beyond 1 words"


def test_nothing_in_nothing_out() -> None:
    assert run([], PASSAGE, k=1) == []
    assert run(None, PASSAGE, k=1) == []
