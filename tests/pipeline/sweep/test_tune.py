"""Tuning: the choice by hand, and the optimism of reporting on tuned questions, measured."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from pipeline.errors import InputError
from pipeline.sweep.tune import TUNED, WARNING, choose, objective_scores, tune


def scores(values: dict[str, list[float]]) -> dict[str, dict[str, float]]:
    return {name: {f"q{n}": value for n, value in enumerate(row)} for name, row in values.items()}


def test_the_choice_by_hand() -> None:
    found = scores({"a": [0, 0, 1, 1], "b": [1, 1, 0, 0], "c": [0.4] * 4})
    assert choose(found, ["q0", "q1"]) == "b"
    assert choose(found, ["q2", "q3"]) == "a"
    assert choose(found, ["q0", "q2"]) == "a"  # equal means: the first


def test_two_folds_by_hand() -> None:
    """Two questions, each won by another variant: what is best on one is worst on the other."""
    found = scores({"a": [0, 1], "b": [1, 0]})
    table = tune(found, "a", "F1", folds=2)
    whole = table.to_pylist()[-1]
    assert (whole["fold"], whole["tuned_mean"], whole["mean"], whole["gap"], whole["n"]) == ("all", 1, 0, 1, 2)
    assert (whole["baseline_mean"], whole["difference"], whole["chosen"]) == (0.5, -0.5, "a")
    assert whole["warning"] is None
    assert "nested cross-validation, 2 folds" in whole["method"]
    assert table.schema.equals(TUNED)


def test_every_question_is_held_out_once() -> None:
    found = scores({"a": [0.5] * 23, "b": [0.25] * 23})
    lines = tune(found, "b", "F1", folds=5).to_pylist()
    assert [line["n"] for line in lines] == [5, 5, 5, 4, 4, 23]
    assert all(line["tuned_n"] + line["n"] == 23 for line in lines[:-1])
    assert lines[-1]["difference"] == 0.25


def test_the_mistake_is_marked_in_every_line() -> None:
    lines = tune(scores({"a": [0, 1], "b": [1, 1]}), "a", "F1", how="tuned").to_pylist()
    assert {line["warning"] for line in lines} == {WARNING}
    assert all(WARNING in line["method"] for line in lines)
    assert lines[-1]["gap"] == 0


def test_held_out_part() -> None:
    line = tune(scores({"a": [0.0] * 10, "b": [1.0] * 10}), "a", "F1", how="held_out", held_out=0.4).to_pylist()[-1]
    assert (line["n"], line["tuned_n"], line["mean"]) == (4, 10, 1)
    for share in (0.0, 1.0):
        with pytest.raises(InputError, match="both parts need one"):
            tune(scores({"a": [0.0] * 10}), "a", "F1", how="held_out", held_out=share)
    with pytest.raises(InputError, match="wants from 2 to 10"):
        tune(scores({"a": [0.0] * 10}), "a", "F1", folds=11)


def test_reporting_on_tuned_questions_is_optimistic_and_nested_folds_are_not() -> None:
    """20 variants that differ by chance alone, true mean .5: the best one's own mean is above it, held out not."""
    random = np.random.default_rng(4)
    mistaken, honest = [], []
    for _ in range(30):
        found = scores({f"v{n}": random.random(40).tolist() for n in range(20)})
        mistaken.append(tune(found, "v0", "F1", how="tuned").to_pylist()[-1]["mean"])
        honest.append(tune(found, "v0", "F1", folds=5).to_pylist()[-1]["mean"])
    assert np.mean(mistaken) > 0.56
    assert abs(np.mean(honest) - 0.5) < 0.02


def test_the_objective_has_to_be_there(tmp_path: Path) -> None:
    table = pa.table({"id": ["a", "b", "c"], "F1": [0.1, None, 0.3]})
    other = pa.table({"id": ["a", "b", "c"], "F1": [0.2, 0.2, 0.2]})
    found, excluded = objective_scores({"x": table, "y": other}, "F1")
    assert (found, excluded) == ({"x": {"a": 0.1, "c": 0.3}, "y": {"a": 0.2, "c": 0.2}}, 1)
    with pytest.raises(InputError, match="variant 'x' has no such metric; it has F1"):
        objective_scores({"x": table}, "RR")
    with pytest.raises(InputError, match="1 of 1 questions"):
        objective_scores({"x": table.slice(0, 1)}, "F1")
