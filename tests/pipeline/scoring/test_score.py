from io import StringIO
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from rich.console import Console

from pipeline.scoring.retrieval import METRICS
from pipeline.scoring.score import ANSWER_METRICS, score_rows
from pipeline.scoring.table import SUMMARY, ScoreTable

FAILURE = {"stage": "answer", "kind": "engine", "message": "out of memory"}


def row(
    id: str, answer: str | None, answers: list[str] | None, documents: list[str] | None, *found: str
) -> dict[str, Any]:
    passages = [{"doc_id": document, "score": 1.0 / place} for place, document in enumerate(found, start=1)]
    return {"id": id, "answer": answer, "answers": answers, "doc_ids": documents, "passages": passages, "error": None}


ROWS = [
    row("right", "The Acropolis", ["Acropolis"], ["d1"], "d1", "d2"),
    row("half", "It is Paris", ["Paris"], ["d1"], "d2", "d1"),
    row("declined", "I don't know.", ["Rome"], ["d1"], "d2"),
    row("failed", None, ["Rome"], ["d1"], "d1") | {"error": FAILURE},
    row("failed early", None, ["Rome"], ["d1"]) | {"error": FAILURE, "passages": None},
    row("no gold", "Oslo", None, None, "d1"),
    row("no documents", "Oslo", ["Oslo"], [], "d1"),
    row("unanswerable, declined", "", [], None, "d1"),
    row("unanswerable, answered", "Made up", [], None, "d1"),
    row("unanswerable, failed", None, [], None) | {"error": FAILURE},
]


def lines(table: ScoreTable) -> dict[str, dict[str, Any]]:
    return {line["metric"]: line for line in table.summary.to_pylist()}


def counts(line: dict[str, Any]) -> tuple[int, int, int, int]:
    return line["n"], line["missing_gold"], line["failed"], line["abstained"]


def test_retrieval_lines() -> None:
    line = lines(score_rows(ROWS))
    assert line["RR"]["mean"] == pytest.approx((1 + 0.5 + 0 + 1 + 0) / 5)
    assert line["R@1"]["mean"] == pytest.approx(2 / 5)
    assert line["R@10"]["mean"] == pytest.approx(3 / 5)
    assert counts(line["nDCG@10"]) == (5, 5, 2, 1)
    assert "bootstrap" in line["RR"]["interval"]
    assert 0 <= line["RR"]["low"] < line["RR"]["mean"] < line["RR"]["high"] <= 1


def test_answer_lines() -> None:
    line = lines(score_rows(ROWS))
    assert line["EM"]["mean"] == pytest.approx((1 + 0 + 0 + 0 + 0 + 1) / 6)
    assert line["F1"]["mean"] == pytest.approx((1 + 0.5 + 0 + 0 + 0 + 1) / 6)
    assert line["containment"]["mean"] == pytest.approx((1 + 1 + 0 + 0 + 0 + 1) / 6)
    assert line["ROUGE-L"]["mean"] == pytest.approx((2 / 3 + 0.5 + 0 + 0 + 0 + 1) / 6)
    assert counts(line["EM"]) == (6, 1, 2, 1)


def test_run_lines() -> None:
    line = lines(score_rows(ROWS))
    assert line["answer words"]["mean"] == pytest.approx((2 + 3 + 3 + 1 + 1 + 0 + 2) / 7)
    assert line["answer words"]["n"] == 7
    assert line["abstained"]["mean"] == pytest.approx(2 / 10)
    assert counts(line["abstained on unanswerable"]) == (3, 0, 1, 1)
    assert line["abstained on unanswerable"]["mean"] == pytest.approx(1 / 3)
    assert "Wilson" in line["abstained on unanswerable"]["interval"]
    assert line["failed"]["mean"] == pytest.approx(3 / 10)


def test_every_question_keeps_its_values_and_its_place() -> None:
    table = score_rows(ROWS).questions
    questions = {question["id"]: question for question in table.to_pylist()}
    assert table["id"].to_pylist() == [row["id"] for row in ROWS]
    assert questions["half"]["RR"] == 0.5
    assert questions["half"]["F1"] == 0.5
    assert questions["failed"]["error"] == "answer: out of memory"
    assert questions["failed"]["RR"] == 1
    assert questions["failed"]["EM"] == 0
    assert questions["failed"]["answer words"] is None
    assert questions["no gold"]["RR"] is questions["no gold"]["EM"] is None
    assert questions["unanswerable, declined"]["EM"] is None
    assert questions["unanswerable, declined"]["abstained"]


def test_refusals_by_kind_of_question() -> None:
    kinds = {f"j{n}": "jailbreak" for n in range(12)} | {"u": "unsafe"}
    rows = [
        {**row(id, "I don't know." if id != "j0" else "Sure!", [], None), "guardrail_blocked": id not in ("j0", "j1")}
        for id in kinds
    ]
    line = lines(score_rows(rows, kinds=kinds))
    refused, blocked = line["abstained, jailbreak"], line["blocked by guardrail, jailbreak"]
    assert (refused["mean"], refused["n"]) == (pytest.approx(11 / 12), 12)
    assert (refused["low"], refused["high"]) == (pytest.approx(0.646, abs=5e-4), pytest.approx(0.985, abs=5e-4))
    assert (blocked["mean"], line["blocked by guardrail, unsafe"]["mean"]) == (pytest.approx(10 / 12), 1)
    assert (line["blocked by guardrail"]["n"], line["blocked by guardrail"]["mean"]) == (13, pytest.approx(11 / 13))
    assert "Wilson" in blocked["interval"]
    plain = lines(score_rows([{**row(id, "Sure!", [], None)} for id in kinds], kinds=kinds))
    assert not [metric for metric in plain if metric.startswith("blocked")]


def test_missing_gold_is_missing_and_not_0() -> None:
    line = lines(score_rows([row("a", "x", None, None, "d1"), row("b", "y", None, None, "d1")]))
    for metric in (*METRICS, *ANSWER_METRICS):
        assert (line[metric]["mean"], line[metric]["low"], line[metric]["high"]) == (None, None, None)
        assert counts(line[metric]) == (0, 2, 0, 0)
    assert "abstained on unanswerable" not in line


def test_a_run_has_no_lines_for_what_its_system_does_not_make() -> None:
    retrieval = [row("a", None, ["x"], ["d1"], "d1"), row("b", None, ["x"], ["d1"]) | {"error": FAILURE}]
    assert set(lines(score_rows(retrieval))) == {*METRICS, "failed"}
    assert score_rows(retrieval).questions["abstained"].to_pylist() == [None, None]
    generation = [{"id": "a", "answer": "x", "answers": ["x"], "doc_ids": ["d1"], "error": None}]
    assert set(lines(score_rows(generation))) == {*ANSWER_METRICS, "answer words", "abstained", "failed"}
    failed = [row("a", None, ["x"], ["d1"]) | {"error": FAILURE}]
    assert lines(score_rows(failed))["EM"]["mean"] == lines(score_rows(failed))["RR"]["mean"] == 0


def test_gold_given_twice_changes_nothing() -> None:
    once = score_rows([row("a", "x", ["x"], ["d1", "d2"], "d1"), row("b", "y", ["x"], ["d3"], "d1")])
    twice = score_rows([row("a", "x", ["x", "x"], ["d1", "d1", "d2"], "d1"), row("b", "y", ["x"], ["d3"] * 2, "d1")])
    assert once.summary.equals(twice.summary)


def test_settings_reach_the_scores() -> None:
    rows = [row("a", "Nothing found.", ["x"], ["d1"], "d1"), row("b", "x", ["x"], ["d1"], "d2")]
    line = lines(score_rows(rows, null_responses=["nothing found"], confidence=0.9, resamples=500, seed=3))
    assert line["abstained"]["mean"] == 0.5
    assert line["answer words"]["interval"] == "90% expanded percentile bootstrap of the mean (500 resamples, seed 3)"
    assert line["EM"]["interval"] == "90% Wilson for shares of questions"


def test_files_are_the_same_bytes_each_time(tmp_path: Path) -> None:
    path = tmp_path / "scores.parquet"
    score_rows(ROWS).to_files(path)
    names = ("scores.parquet", "question-scores.parquet", "scores.csv", "question-scores.csv")
    before = [(tmp_path / name).read_bytes() for name in names]
    score_rows(ROWS).to_files(path)
    assert [(tmp_path / name).read_bytes() for name in names] == before
    assert sorted(entry.name for entry in tmp_path.iterdir()) == sorted(names)
    assert pq.read_table(path).schema.equals(SUMMARY)
    assert pq.read_table(tmp_path / names[1]).num_rows == len(ROWS)


def test_the_table_says_n_missing_and_method() -> None:
    console = Console(width=140, record=True, file=StringIO())
    console.print(score_rows([*ROWS[:3], row("x", "y", None, None, "d1")]).to_rich())
    text = console.export_text()
    assert "4 questions" in text
    assert "nDCG@10" in text
    assert "percentile bootstrap" in text
    assert "Missing gold" in text
    nothing = Console(width=140, record=True, file=StringIO())
    nothing.print(score_rows([row("x", "y", None, None, "d1")]).to_rich())
    assert "missing" in next(line for line in nothing.export_text().splitlines() if "EM" in line)
