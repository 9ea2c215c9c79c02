"""From the rows of a run to its scores: `scores.parquet` (schema `table.SUMMARY`) and `question-scores.parquet`.

Metrics, each defined, with range and source, in one place:
  retrieval   nDCG@k, R@k, Success@k, RR, AP by document (retrieval.py), over the questions with gold documents;
              passage Success@k, passage RR (retrieval.py), over the questions with gold answers.
  answers     EM, F1, containment, ROUGE-L (answers.py), over the questions with gold answers.
  evidence    supported: share of the answer's sentences that the evidence supports, by a rule and no judge
              (support.py), over the questions that were answered or failed.
  local judge coverage, relatedness, correctness, faithfulness (claims.py), similarity, groundedness (judged.py), where
              a judge was asked. "(local judge)" is part of their names, so it is shown wherever they are.
  run         answer words: mean length of the answers of the questions that did not fail;
              abstained: share of all questions the system declined;
              abstained on unanswerable: the same among the questions known to have no answer (`answers` is []);
              blocked by guardrail: share of all questions whose answer the guardrail withheld, where a system has one;
              failed: share of all questions that ended in an error.

question-scores.parquet has a row a question, in the run's order:
  id            string
  error         string    null, or "stage: message"
  unanswerable  bool      `answers` is []
  abstained     bool      null where the system gives no answers
  blocked       bool      by the guardrail; null where the system has none
  one double per metric of retrieval, answers, evidence and `answer words`; null where the question has no value
  where a judge was asked: one double per metric of local judge, and `excluded`, list<string>: the judged metrics
  without a value because the judge's reply could not be read

Where questions have a kind, both kinds of refusal have a line for each, with a Wilson interval: the questions of
configs/questions/negative.jsonl, which should be refused, are 12 of a kind.
A question whose gold is unknown (null) is left out and counted as missing, never as 0; one whose judgement could not be
read is left out and counted as excluded. A failed question scores 0 for its answer and did not abstain; what it had
retrieved before it failed is scored. An unanswerable question has no EM or F1. A run none of whose rows has an answer
(retrieval alone) or passages (generation alone) has no such lines, unless all of it failed.
"""

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from pipeline.schema import STRINGS
from pipeline.scoring import answers, intervals, retrieval, support
from pipeline.scoring.judge import MARK
from pipeline.scoring.judged import GRADED, NEED_GOLD
from pipeline.scoring.table import SUMMARY, ScoreTable

ANSWER_METRICS: dict[str, Callable[[str, Sequence[str]], float]] = {
    "EM": answers.exact_match,
    "F1": answers.f1,
    "containment": answers.containment,
    "ROUGE-L": answers.rouge_l,
}
WORDS = "answer words"
SUPPORTED = "supported"
SCORED = b"scored"  # key of Parquet metadata: `digest` of the rows
JUDGED_METRICS = {metric: f"{metric} ({MARK})" for metric in GRADED}  # judged.py's name -> the name that is shown
Row = Mapping[str, Any]


def score_rows(
    rows: Sequence[Row],
    null_responses: Sequence[str] = answers.NULL_RESPONSES,
    confidence: float = 0.95,
    resamples: int = 2000,
    seed: int = 0,
    kinds: Mapping[str, str] | None = None,
    metrics: Sequence[str] = retrieval.METRICS,
    qrels: Mapping[str, retrieval.Gold] | None = None,
    judged: pa.Table | None = None,
    judge: str = "",
) -> ScoreTable:
    """Scores of rows with `id`, `error`, `answers`, `doc_ids` and, where the system has them, `passages`, `answer`,
    `guardrail_blocked`.

    `kinds`: question id -> what kind of question it is, for lines of its own. `metrics`: of retrieval by document.
    `qrels`: gold documents with grades, in the place of `doc_ids`. `judged`: a table of `judged.JUDGED`, by `judge`.
    """
    retrieves, replies = _has(rows, "passages"), _has(rows, "answer")
    gold = {row["id"]: row.get("doc_ids") for row in rows} if qrels is None else dict(qrels)
    retrieved = _retrieval(rows, gold, metrics) if retrieves else {}
    verdicts = {row["id"]: row for row in judged.to_pylist()} if judged is not None else {}
    by_document = [*metrics]
    by_passage = [*retrieval.PASSAGE_METRICS] if retrieves and _has_texts(rows) else []
    questions = [
        _question(row, retrieved.get(row["id"], {}), [*by_document, *by_passage], replies, null_responses)
        | _verdict(verdicts.get(row["id"]), judged is not None)
        for row in rows
    ]

    def mean(group: str, metric: str, missing: int, by: str = "") -> dict[str, Any]:
        scored = [question for question in questions if question[metric] is not None]
        values = [question[metric] for question in scored]
        interval, method = intervals.mean_interval(metric, values, confidence, resamples, seed)
        average = sum(values) / len(values) if values else None
        return _line(group, metric, average, interval, scored, missing, method + by) | {
            "excluded": sum(metric in (question.get("excluded") or []) for question in questions)
        }

    def share(metric: str, among: list[dict[str, Any]], has: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        count = sum(map(has, among))
        interval, method = intervals.wilson_interval(count, len(among), confidence), intervals.wilson_method(confidence)
        return _line("run", metric, count / len(among) if among else None, interval, among, 0, method)

    def refusals(suffix: str, among: list[dict[str, Any]]) -> list[dict[str, Any]]:
        blocks = any(question["blocked"] is not None for question in questions)
        return [
            share(f"abstained{suffix}", among, lambda question: question["abstained"]),
            *([share(f"blocked by guardrail{suffix}", among, lambda question: bool(question["blocked"]))] * blocks),
        ]

    lines = []
    if retrieves:
        lines += [mean("retrieval", metric, sum(not gold.get(row["id"]) for row in rows)) for metric in by_document]
        lines += [mean("retrieval", metric, sum(not row.get("answers") for row in rows)) for metric in by_passage]
    if replies:
        without = sum(row.get("answers") is None for row in rows)
        lines += [mean("answers", metric, without) for metric in ANSWER_METRICS]
        if any(question[SUPPORTED] is not None for question in questions):
            lines.append(mean("evidence", SUPPORTED, 0))
        for metric, shown in JUDGED_METRICS.items() if judged is not None else ():
            # Without gold, or with gold that claims nothing; an answer that has no groundedness lacks none.
            unknown = [q for q in questions if q[shown] is None and shown not in q["excluded"]]
            lines.append(mean(MARK, shown, len(unknown) if metric in NEED_GOLD else 0, f"; {MARK}: {judge}"))
        lines.append(mean("run", WORDS, 0))
        lines += refusals("", questions)
        unanswerable = [question for question in questions if question["unanswerable"]]
        if unanswerable:
            lines.append(share("abstained on unanswerable", unanswerable, lambda question: question["abstained"]))
        named = kinds or {}
        for kind in sorted(set(named.values())):
            lines += refusals(f", {kind}", [question for question in questions if named.get(question["id"]) == kind])
    lines.append(share("failed", questions, lambda question: question["error"] is not None))
    return ScoreTable(
        pa.Table.from_pylist(lines, schema=SUMMARY),
        _question_table(questions, [*by_document, *by_passage], judged is not None).replace_schema_metadata(
            {SCORED: digest(rows)}
        ),
    )


def digest(rows: Sequence[Row]) -> str:
    """sha256 of what was scored: ids, answers, errors, documents retrieved; kept in the question table's metadata."""
    scored = [
        [row["id"], row.get("answer"), row.get("error"), [item.get("doc_id") for item in row.get("passages") or []]]
        for row in rows
    ]
    return hashlib.sha256(json.dumps(scored, sort_keys=True).encode()).hexdigest()


def _has(rows: Sequence[Row], column: str) -> bool:
    """Whether the system makes this column: the law is that every question gets an answer or an error."""
    present = any(column in row for row in rows)
    return present and (any(row.get(column) is not None for row in rows) or all(map(_failed, rows)))


def _failed(row: Row) -> bool:
    return row.get("error") is not None


def _has_texts(rows: Sequence[Row]) -> bool:
    return any("text" in passage and "pid" in passage for row in rows for passage in row.get("passages") or [])


def _retrieval(
    rows: Sequence[Row], gold: Mapping[str, retrieval.Gold], metrics: Sequence[str]
) -> dict[str, dict[str, float]]:
    rankings = {
        row["id"]: [document for document, _ in retrieval.document_ranking(row.get("passages") or [])] for row in rows
    }
    known = {id: gold.get(id) for id in rankings}
    by_document = retrieval.retrieval_scores(rankings, known, metrics)
    by_passage = retrieval.passage_scores(rows) if _has_texts(rows) else {}
    return {id: by_document.get(id, {}) | by_passage.get(id, {}) for id in rankings}


def _question(
    row: Row, retrieved: Mapping[str, float], ranked: Sequence[str], replies: bool, null_responses: Sequence[str]
) -> dict[str, Any]:
    answer, gold, failed = row.get("answer") or "", row.get("answers"), _failed(row)
    scores: dict[str, float | None] = {metric: retrieved.get(metric) for metric in ranked}
    for name, metric in ANSWER_METRICS.items():
        scores[name] = (0.0 if failed else metric(answer, gold)) if replies and gold else None
    declined = (not failed and answers.abstained(answer, null_responses)) if replies else None
    return {
        "id": row["id"],
        "error": f"{row['error']['stage']}: {row['error']['message']}" if failed else None,
        "unanswerable": gold == [],
        "abstained": declined,
        "blocked": row.get("guardrail_blocked"),
        **scores,
        SUPPORTED: _supported(row, answer) if replies and not declined else None,
        WORDS: float(answers.answer_words(answer)) if replies and not failed else None,
    }


def _supported(row: Row, answer: str) -> float | None:
    """None too where the system has no evidence (closed book)."""
    if all(row.get(column) is None for column in support.EVIDENCE):
        return None
    if _failed(row):
        return 0.0
    return support.support(answer, [item["text"] for item in support.evidence_of(row) if "text" in item])


def _verdict(verdict: Row | None, asked: bool) -> dict[str, Any]:
    if not asked:
        return {}
    values = verdict or {}
    return {shown: values.get(metric) for metric, shown in JUDGED_METRICS.items()} | {
        "excluded": [JUDGED_METRICS[metric] for metric in values.get("excluded") or []]
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
        "excluded": 0,
        "failed": sum(question["error"] is not None for question in scored),
        "abstained": sum(bool(question["abstained"]) for question in scored),
        "interval": method,
    }


def _question_table(questions: list[dict[str, Any]], ranked: Sequence[str], judged: bool) -> pa.Table:
    columns = [("id", pa.string()), ("error", pa.string())]
    columns += [(name, pa.bool_()) for name in ("unanswerable", "abstained", "blocked")]
    columns += [(metric, pa.float64()) for metric in (*ranked, *ANSWER_METRICS, SUPPORTED, WORDS)]
    if judged:
        columns += [(metric, pa.float64()) for metric in JUDGED_METRICS.values()] + [("excluded", STRINGS)]
    return pa.Table.from_pylist(questions, schema=pa.schema(columns))
