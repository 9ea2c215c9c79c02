"""The question browser's data: an index of all questions, and each question's details."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from pipeline.evidence import kept
from pipeline.report.facts import STEPS, Facts
from pipeline.report.source import Reported
from pipeline.report.texts import Reference, Texts

CHUNK = 16  # questions whose details are unpacked together
CLIP = 600  # characters of a question and of an answer that the list holds and searches
_ELSEWHERE = {"id", "question", "answers", "doc_ids", "error", "trace", "answer", "final_prompt", "finish_reason"}
Row = Mapping[str, Any]


def question_index(runs: Sequence[Reported], facts: Sequence[Sequence[Facts]]) -> dict[str, Any]:
    """What the list shows, sorts, filters and searches: a list a column, all questions of all runs once."""
    asked = {row["id"]: row for run in reversed(runs) for row in run.rows}
    ids = list(dict.fromkeys(row["id"] for run in runs for row in run.rows))
    return {
        "names": [run.name for run in runs],
        "metrics": list(dict.fromkeys(metric for run in runs for metric in run.metrics())),
        "steps": STEPS,
        "chunk": CHUNK,
        "ids": ids,
        "questions": [(asked[id].get("question") or "")[:CLIP] for id in ids],
        "golds": [[gold[:CLIP] for gold in asked[id].get("answers") or []] for id in ids],
        "runs": [_columns(run, of, ids) for run, of in zip(runs, facts, strict=True)],
    }


def _columns(run: Reported, facts: Sequence[Facts], ids: Sequence[str]) -> dict[str, Any]:
    place = {row["id"]: n for n, row in enumerate(run.rows)}
    order = [place.get(id) for id in ids]

    def column(values: Sequence[Any]) -> list[Any]:
        return [None if n is None else _number(values[n]) for n in order]

    return {
        "answers": column([(row.get("answer") or "")[:CLIP] for row in run.rows]),
        "failed": column([row.get("error") is not None for row in run.rows]),
        "abstained": column(run.scores.questions["abstained"].to_pylist()),
        "unsupported": column([sum(not ok for _, ok in f.sentences) for f in facts]),
        "lost": column([f.lost_after for f in facts]),
        "seconds": column([f.seconds for f in facts]),
        "tokens": column([f.tokens for f in facts]),
        "scores": {metric: column(run.values(metric)) for metric in run.metrics()},
    }


def question_details(
    runs: Sequence[Reported], facts: Sequence[Sequence[Facts]], ids: Sequence[str], texts: Texts
) -> list[list[dict[str, Any]]]:
    """Chunks of CHUNK questions in the order of `ids`: per question its text, gold, and what each run did."""
    held = [
        {row["id"]: (row, fact) for row, fact in zip(run.rows, of, strict=True)}
        for run, of in zip(runs, facts, strict=True)
    ]
    details = []
    for id in ids:
        found = [of.get(id) for of in held]
        row = next(pair[0] for pair in found if pair)
        details.append(
            {
                "question": row.get("question") or "",
                "answers": row.get("answers"),
                "documents": row.get("doc_ids"),
                "runs": [pair and _detail(run, *pair, texts) for run, pair in zip(runs, found, strict=True)],
            }
        )
    return [details[n : n + CHUNK] for n in range(0, len(details), CHUNK)]


def _detail(run: Reported, row: Row, facts: Facts, texts: Texts) -> dict[str, Any]:
    columns = {name: value for name, value in row.items() if name not in _ELSEWHERE and value is not None}
    lists = {name: items for name, items in columns.items() if _is_evidence(items)}
    passages = {item["pid"]: item["text"] for items in lists.values() for item in items if "rank" in item}
    chosen = {item.get("pid") for item in (kept(row.get(run.evidence)) if run.evidence else [])}
    spans: dict[str, Reference] = {}

    def item(of: Row) -> dict[str, Any]:
        reference = spans[of["text"]] = _span(of, passages, of.get("pid") in chosen, texts)
        others = {name: _number(value) for name, value in of.items() if name not in ("text", "start")}
        return {"text": reference} | {name: value for name, value in others.items() if value is not None}

    shown = {name: [item(of) for of in items] for name, items in lists.items()}
    return {
        "answer": facts.sentences or [[row.get("answer") or "", True]],
        "error": row.get("error"),
        "finish": row.get("finish_reason"),
        "lists": shown,
        "evidence": run.evidence,
        "prompt": _pieces(row.get("final_prompt") or "", kept(row.get(run.evidence)) if run.evidence else [], spans),
        "trace": [{name: _number(value) for name, value in step.items()} for step in row.get("trace") or []],
        "others": {name: _plain(value) for name, value in columns.items() if name not in lists},
    }


def _is_evidence(items: Any) -> bool:
    return isinstance(items, list) and all(isinstance(i, dict) and isinstance(i.get("text"), str) for i in items)


def _span(item: Row, passages: Mapping[Any, str], chosen: bool, texts: Texts) -> Reference:
    """A snippet as a span of its passage; any other text, whole."""
    passage, start, text = passages.get(item.get("pid")), item.get("start"), item["text"]
    if passage is not None and start is not None and passage[start : start + len(text)] == text:
        return texts.reference(texts.add(passage, chosen), start, start + len(text))
    return texts.reference(texts.add(text, chosen))


def _pieces(prompt: str, items: Sequence[Row], spans: Mapping[str, Reference]) -> list[str | Reference]:
    """The prompt, with references for the evidence that stands in it word for word, in the items' order."""
    pieces: list[str | Reference] = []
    done = 0
    for item in items:
        text = item["text"]
        place = prompt.find(text, done) if text else -1
        if place >= 0:
            pieces += [prompt[done:place], spans[text]]
            done = place + len(text)
    return [piece for piece in [*pieces, prompt[done:]] if piece]


def _number(value: Any) -> Any:
    """NaN and infinities are none of JSON's."""
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _plain(part) for name, part in value.items()}
    return [_plain(part) for part in value] if isinstance(value, list) else _number(value)
