"""From the rows of a run to its scores.

What counts, and how:
  retrieval   nDCG@10, R@k, RR by document, over the questions with gold documents.
  answers     EM, F1, containment, ROUGE-L, over the questions with gold answers.
  run         answer words: mean length of the answers of the questions that did not fail;
              abstained: share of all questions the system declined;
              abstained on unanswerable: the same among the questions known to have no answer (`answers` is []);
              blocked by guardrail: share of all questions whose answer the guardrail withheld, where a system has one;
              failed: share of all questions that ended in an error.
Where questions have a kind, both kinds of refusal have a line for each, with a Wilson interval: the questions of
configs/questions/negative.jsonl, which should be refused, are 12 of a kind.
A question whose gold is unknown (null) is left out and counted as missing, never as 0. A failed question scores 0 for
its answer and did not abstain; what it had retrieved before it failed is scored. An unanswerable question has no EM or
F1. A run none of whose rows has an answer (retrieval alone) or passages (generation alone) has no such lines, unless
all of it failed.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from pipeline.scoring import answers, intervals, retrieval
from pipeline.scoring.table import SUMMARY, ScoreTable

ANSWER_METRICS: dict[str, Callable[[str, Sequence[str]], float]] = {
    "EM": answers.exact_match,
    "F1": answers.f1,
    "containment": answers.containment,
    "ROUGE-L": answers.rouge_l,
}
WORDS = "answer words"
Row = Mapping[str, Any]


def score_rows(
    rows: Sequence[Row],
    null_responses: Sequence[str] = answers.NULL_RESPONSES,
    confidence: float = 0.95,
    resamples: int = 2000,
    seed: int = 0,
    kinds: Mapping[str, str] | None = None,
) -> ScoreTable:
    """Scores of rows with `id`, `error`, `answers`, `doc_ids` and, where the system has them, `passages`, `answer`,
    `guardrail_blocked`. `kinds`: question id -> what kind of question it is, for lines of its own."""
    retrieves, replies = _has(rows, "passages"), _has(rows, "answer")
    retrieved = _retrieval(rows) if retrieves else {}
    questions = [_question(row, retrieved.get(row["id"], {}), replies, null_responses) for row in rows]
    bootstrap = f"{confidence:.0%} percentile bootstrap of the mean ({resamples} resamples, seed {seed})"
    wilson = f"{confidence:.0%} Wilson for shares of questions"

    def mean(group: str, metric: str, missing: int) -> dict[str, Any]:
        scored = [question for question in questions if question[metric] is not None]
        values = [question[metric] for question in scored]
        interval = intervals.bootstrap_interval(values, confidence, resamples, seed)
        average = sum(values) / len(values) if values else None
        return _line(group, metric, average, interval, scored, missing, bootstrap)

    def share(metric: str, among: list[dict[str, Any]], has: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        count = sum(map(has, among))
        interval = intervals.wilson_interval(count, len(among), confidence)
        return _line("run", metric, count / len(among) if among else None, interval, among, 0, wilson)

    def refusals(suffix: str, among: list[dict[str, Any]]) -> list[dict[str, Any]]:
        blocks = any(question["blocked"] is not None for question in questions)
        return [
            share(f"abstained{suffix}", among, lambda question: question["abstained"]),
            *([share(f"blocked by guardrail{suffix}", among, lambda question: bool(question["blocked"]))] * blocks),
        ]

    lines = []
    if retrieves:
        without = sum(not row.get("doc_ids") for row in rows)
        lines += [mean("retrieval", metric, without) for metric in retrieval.METRICS]
    if replies:
        without = sum(row.get("answers") is None for row in rows)
        lines += [mean("answers", metric, without) for metric in ANSWER_METRICS]
        lines.append(mean("run", WORDS, 0))
        lines += refusals("", questions)
        unanswerable = [question for question in questions if question["unanswerable"]]
        if unanswerable:
            lines.append(share("abstained on unanswerable", unanswerable, lambda question: question["abstained"]))
        named = kinds or {}
        for kind in sorted(set(named.values())):
            lines += refusals(f", {kind}", [question for question in questions if named.get(question["id"]) == kind])
    lines.append(share("failed", questions, lambda question: question["error"] is not None))
    return ScoreTable(pa.Table.from_pylist(lines, schema=SUMMARY), _question_table(questions))


def _has(rows: Sequence[Row], column: str) -> bool:
    """Whether the system makes this column: the law is that every question gets an answer or an error."""
    present = any(column in row for row in rows)
    return present and (any(row.get(column) is not None for row in rows) or all(map(_failed, rows)))


def _failed(row: Row) -> bool:
    return row.get("error") is not None


def _retrieval(rows: Iterable[Row]) -> dict[str, dict[str, float]]:
    rankings = {
        row["id"]: [document for document, _ in retrieval.document_ranking(row.get("passages") or [])] for row in rows
    }
    return retrieval.retrieval_scores(rankings, {row["id"]: row.get("doc_ids") for row in rows})


def _question(row: Row, retrieved: Mapping[str, float], replies: bool, null_responses: Sequence[str]) -> dict[str, Any]:
    answer, gold, failed = row.get("answer") or "", row.get("answers"), _failed(row)
    scores: dict[str, float | None] = {metric: retrieved.get(metric) for metric in retrieval.METRICS}
    for name, metric in ANSWER_METRICS.items():
        scores[name] = (0.0 if failed else metric(answer, gold)) if replies and gold else None
    return {
        "id": row["id"],
        "error": f"{row['error']['stage']}: {row['error']['message']}" if failed else None,
        "unanswerable": gold == [],
        "abstained": (not failed and answers.abstained(answer, null_responses)) if replies else None,
        "blocked": row.get("guardrail_blocked"),
        **scores,
        WORDS: float(answers.answer_words(answer)) if replies and not failed else None,
    }


def _line(
    group: str,
    metric: str,
    mean: float | None,
    interval: tuple[float, float] | None,
    scored: Sequence[Row],
    missing: int,
    method: str,
) -> dict[str, Any]:
    low, high = interval or (None, None)
    return {
        "group": group,
        "metric": metric,
        "mean": mean,
        "low": low,
        "high": high,
        "n": len(scored),
        "missing_gold": missing,
        "failed": sum(question["error"] is not None for question in scored),
        "abstained": sum(bool(question["abstained"]) for question in scored),
        "interval": method,
    }


def _question_table(questions: list[dict[str, Any]]) -> pa.Table:
    schema = pa.schema(
        [("id", pa.string()), ("error", pa.string()), ("unanswerable", pa.bool_()), ("abstained", pa.bool_())]
        + [(metric, pa.float64()) for metric in (*retrieval.METRICS, *ANSWER_METRICS, WORDS)]
    )
    return pa.Table.from_pylist(questions, schema=schema)
