"""Runs against a baseline: what is compared, what is refused, what a planted difference looks like."""

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from pipeline.errors import InputError
from pipeline.scoring.compare import COMPARISON, compare_runs, comparison_table, same_questions
from pipeline.scoring.table import to_csv


def table(values: dict[str, float | None], abstained: set[str] = frozenset(), **columns: list[Any]) -> pa.Table:  # type: ignore[assignment]
    return pa.table(
        {
            "id": list(values),
            "error": pa.nulls(len(values), pa.string()),
            "abstained": [id in abstained for id in values],
            "F1": pa.array(list(values.values()), pa.float64()),
            **columns,
        }
    )


def test_a_comparison_by_hand() -> None:
    first = table({"a": 0.0, "b": 0.5, "c": 0.5, "d": None})
    second = table({"b": 0.5, "a": 0.5, "c": 1.0, "d": 0.2}, abstained={"b"})
    lines = {line["metric"]: line for line in compare_runs({"one": first, "two": second}, "one").to_pylist()}
    f1 = lines["F1"]
    assert (f1["run"], f1["baseline"], f1["n"], f1["excluded"]) == ("two", "one", 3, 1)
    assert (f1["baseline_mean"], f1["mean"], f1["difference"]) == pytest.approx((1 / 3, 2 / 3, 1 / 3))
    assert (f1["wins"], f1["ties"], f1["losses"]) == (2, 1, 0)
    assert f1["p"] == 0.5  # two differences of one sign: 2 of 4 patterns
    assert f1["p_holm"] == 1.0  # three comparisons: F1, abstained, failed
    assert "Holm over 3 comparisons" in f1["method"]
    assert "paired bootstrap" in f1["method"]
    assert "McNemar" in lines["abstained"]["method"]
    assert lines["failed"]["difference"] == 0


def test_other_question_sets_are_refused_unless_allowed() -> None:
    first, second = table({"a": 0.0, "b": 1.0}), table({"b": 0.0, "c": 1.0})
    with pytest.raises(InputError, match=r"one has 2 questions and two 2, 1 of them in common; allow .*--common"):
        compare_runs({"one": first, "two": second}, "one")
    allowed = compare_runs({"one": first, "two": second}, "one", ["F1"], common=True).to_pylist()
    assert (allowed[0]["n"], allowed[0]["difference"]) == (1, -1)
    with pytest.raises(InputError, match="nothing can be compared"):
        compare_runs({"one": first, "two": table({"z": 0.0})}, "one", common=True)


def test_a_metric_that_a_run_lacks_has_a_line_that_says_so() -> None:
    first = table({"a": 0.0, "b": 1.0}, RR=[1.0, 0.5])
    second = table({"a": 0.0, "b": 1.0})
    line = compare_runs({"one": first, "two": second}, "one", ["RR"]).to_pylist()[0]
    assert (line["n"], line["excluded"], line["p"], line["method"]) == (0, 2, None, "nothing to compare")


def test_one_id_for_two_questions_is_refused() -> None:
    same_questions({"x": [{"id": "1", "question": "Why  me?"}], "y": [{"id": "1", "question": "why me?"}]})
    with pytest.raises(InputError, match="question 1 of y is not that of x"):
        same_questions({"x": [{"id": "1", "question": "Why?"}], "y": [{"id": "1", "question": "How?"}]})


def test_of_many_runs_the_planted_one_survives_holm() -> None:
    random = np.random.default_rng(0)
    base = random.random(150)
    runs = {
        "base": base,
        **{f"null {n}": base + random.normal(0, 0.1, 150) for n in range(6)},
        "better": base + 0.08 + random.normal(0, 0.1, 150),
    }
    tables = {name: table({str(n): float(value) for n, value in enumerate(values)}) for name, values in runs.items()}
    lines = compare_runs(tables, "base", ["F1"], resamples=200)
    significant = {line["run"] for line in lines.to_pylist() if line["p_holm"] < 0.05}
    assert significant == {"better"}
    assert lines.schema.equals(COMPARISON)
    assert to_csv(lines).decode().splitlines()[0].startswith('"run","baseline","metric","n","excluded"')
    assert comparison_table(lines).row_count == 14
