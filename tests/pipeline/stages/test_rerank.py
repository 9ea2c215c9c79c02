"""rerank: the share of Yes, the floor, and what stays below it."""

from typing import Any

import pyarrow as pa
import pytest
from pydantic import ValidationError

from pipeline.schema import PASSAGE
from pipeline.stages.rerank import Rerank
from tests.stubs import POISON, StubEnv, StubScorer, hit, notes, questions, ready

ODDS = {"alpha": 1.0, "beta": 3.0, "gamma": 0.25, "delta": 0.0}  # of Yes to No


def odds(prompt: str) -> float:
    return next(value for text, value in ODDS.items() if text in prompt)


def run(*lists: list[str] | None, scorer: StubScorer | None = None, **settings: Any) -> pa.Table:
    items = [None if texts is None else [hit(n, text) for n, text in enumerate(texts)] for texts in lists]
    table = questions(*(f"what {n} ?" for n in range(len(lists))), passages=(items, pa.list_(PASSAGE)))
    config = {"scorer": "s", "prompt": "useful_passage", "into": "best", **settings}
    with_scorer = StubEnv(scorer=scorer or StubScorer(yes=odds))
    return ready(Rerank.model_validate(config), with_scorer)(table)


def seen(table: pa.Table, row: int = 0) -> list[tuple[str, float, int]]:
    return [(p["text"], round(p["score"], 6), p["rank"]) for p in table["best"].to_pylist()[row]]


def test_the_share_of_yes_orders_and_the_floor_drops() -> None:
    after = run(["alpha", "beta", "gamma"])
    assert seen(after) == [("beta", 0.75, 0), ("alpha", 0.5, 1)]  # a score on the floor stays
    assert notes(after) == [["passages: 1 of 3 below the floor"]]
    assert after["trace"].to_pylist()[0][-1]["calls"] == 3
    assert len(after["passages"].to_pylist()[0]) == 3


def test_no_floor_keeps_all_even_the_impossible() -> None:
    assert seen(run(["delta", "gamma"], floor=None)) == [("gamma", 0.2, 0), ("delta", 0.0, 1)]


def test_at_least_overrules_the_floor_and_says_so() -> None:
    after = run(["delta", "gamma"], at_least=1)
    assert seen(after) == [("gamma", 0.2, 0)]
    assert notes(after) == [["passages: 2 of 2 below the floor", "passages: the floor gave way to at_least"]]
    assert seen(run(["delta", "gamma"])) == []
    assert seen(run(["beta", "gamma"], at_least=1)) == [("beta", 0.75, 0)]


def test_k_bounds_what_stays() -> None:
    assert seen(run(["alpha", "beta"], k=1)) == [("beta", 0.75, 0)]
    with pytest.raises(ValidationError, match="at_least 3 must not exceed k 2"):
        run([], k=2, at_least=3)


def test_ties_keep_their_order() -> None:
    assert [text for text, _, _ in seen(run(["beta 2", "beta 1", "beta 3"]))] == ["beta 2", "beta 1", "beta 3"]


def test_one_call_for_the_batch_and_neighbours_change_nothing() -> None:
    scorer = StubScorer(yes=odds)
    after = run(["alpha"], [], None, ["gamma", "beta"], scorer=scorer)
    assert [len(batch) for batch in scorer.batches] == [3]
    assert "what 3 ?" in scorer.batches[0][2]
    assert [len(row) for row in after["best"].to_pylist()] == [1, 0, 0, 1]
    assert seen(run(["gamma", "beta"])) == seen(after, 3)
    poisoned = run([POISON], ["beta"])
    assert [error is None for error in poisoned["error"].to_pylist()] == [False, True]
    assert seen(poisoned, 1) == [("beta", 0.75, 0)]


def test_without_passages_the_model_is_not_called() -> None:
    scorer = StubScorer()
    assert run([], None, scorer=scorer)["best"].to_pylist() == [[], []]
    assert scorer.batches == []
