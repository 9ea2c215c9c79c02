"""Synthetic runs with every column that a snippet-filtering system writes, as many questions as a test wants."""

import random
from pathlib import Path
from typing import Any

import pyarrow as pa

from pipeline.run import Run
from pipeline.schema import BASE, PASSAGE, SNIPPET, STRINGS

COLUMNS = {
    **BASE,
    "queries": STRINGS,
    "passages": pa.list_(PASSAGE),
    "snippets": pa.list_(SNIPPET),
    "answer": pa.string(),
    "final_prompt": pa.string(),
    "finish_reason": pa.string(),
}
STAGES = [
    {"write_queries": {"llm": "query_writer", "n": 2, "into": "queries"}},
    {"search": {"k": 3, "into": "passages"}},
    {"filter_snippets": {"into": "snippets", "min_cosine": 0.35, "size": 1000, "overlap": 100}},
    {"answer": {"llm": "answerer", "evidence": "snippets"}},
]


def write_run(folder: Path, rows: list[dict[str, Any]], stages: list[dict[str, Any]] | None = None) -> Path:
    """A finished run's parts and manifest, written by Run."""
    identity = {"system": {"stages": STAGES if stages is None else stages}, "models": {}, "questions": "synthetic"}
    run = Run.open(folder, {"identity": identity, "system": "hltcoe", "profile": "embedded"}, len(rows), 500)
    schema = pa.schema(list(COLUMNS.items()))
    for number, first in zip(run.numbers(), range(0, max(1, len(rows)), 500), strict=True):
        run.commit_part(number, pa.Table.from_pylist(rows[first : first + 500], schema=schema))
    return folder


def row(number: int = 0, **columns: Any) -> dict[str, Any]:
    """A question of a small run whose gold, "tapir", is retrieved, kept, in the prompt and in the answer."""
    text = "The national animal of Belize is the tapir. It swims."
    held = snippet(text, 0.6)
    return {
        "id": f"q-{number}",
        "question": f"What is national animal number {number}?",
        "answers": ["tapir"],
        "doc_ids": ["belize"],
        "error": None,
        "trace": [step("search", 0.25, 1), step("answer", 0.5, 1, 100, 20)],
        "queries": ["animal of Belize"],
        "passages": [passage(text)],
        "snippets": [held],
        "answer": "The national animal of Belize is the tapir.",
        "final_prompt": f"Information: {text}\n\nAnswer it.",
        "finish_reason": "stop",
        **columns,
    }


def step(stage: str, seconds: float, calls: int, read: int | None = None, wrote: int | None = None) -> dict[str, Any]:
    tokens = {"prompt_tokens": read, "generated_tokens": wrote}
    return {"stage": stage, "seconds": seconds, "kept": 1, "calls": calls, **tokens, "notes": []}


def passage(text: str, pid: int = 7, doc_id: str = "belize", url: str | None = None) -> dict[str, Any]:
    about = {"pid": pid, "doc_id": doc_id, "url": url, "text": text, "start": 0}
    return {**about, "score": 20.5, "rank": 0, "query": "animal of Belize"}


def snippet(text: str, score: float | None, kept: bool = True, pid: int = 7, start: int = 0) -> dict[str, Any]:
    reason = None if kept else f"cosine {score} < 0.35"
    about = {"pid": pid, "doc_id": "belize", "url": None, "text": text, "start": start}
    return {**about, "score": score, "kept": kept, "reason": reason}


def many_rows(count: int, seed: int = 0, passages: int = 9, characters: int = 2000) -> list[dict[str, Any]]:
    """Rows as HLTCOE's: 9 passages of about 2,000 characters, each cut into windows of 1,000, of which some are kept.

    The words are drawn by Zipf's law from a made-up vocabulary, so that they compress about as English does.
    """
    draw = random.Random(seed)
    letters = "etaoinshrdlu" * 3 + "cmfwypvbgkjqxz"
    vocabulary = ["".join(draw.choices(letters, k=draw.randint(2, 10))) for _ in range(20_000)]
    weights = [1 / (rank + 8) for rank in range(len(vocabulary))]
    pool = draw.choices(vocabulary, weights, k=2_000_000)
    rows = []
    for number in range(count):
        found = []
        for rank in range(passages):
            first = draw.randrange(len(pool) - 1000)
            text = " ".join(pool[first : first + 700])[:characters]
            found.append(passage(text, number * passages + rank, f"doc-{number}-{rank // 2}", "https://example.org/a"))
        golds = [" ".join(found[0]["text"].split()[3:5]), "none of these"]
        windows = []
        for of in found:
            for start in range(0, characters - 100, 900):
                score = draw.uniform(-0.1, 0.8)
                text = of["text"][start : start + 1000]
                windows.append(snippet(text, score, score >= 0.35, of["pid"], start))
        windows.sort(key=lambda window: not window["kept"])
        left = [window["text"] for window in windows if window["kept"]]
        rows.append(
            row(
                number,
                question=" ".join(draw.choices(vocabulary, weights, k=12)) + "?",
                answers=golds,
                doc_ids=[f"doc-{number}-{draw.randrange(8)}"],
                passages=found,
                snippets=windows,
                answer=f"It is {golds[0] if draw.random() < 0.5 else 'unknown here'}. Nobody said so 1234 times.",
                final_prompt="Information: " + "\n\n".join(left) + "\n\nUsing it, answer.",
                trace=[
                    step("write_queries", draw.expovariate(2), 1, 600, 60),
                    step("search", draw.expovariate(20), 3),
                    step("filter_snippets", draw.expovariate(9), 27),
                    step("answer", draw.expovariate(1), 1, draw.randint(800, 5000), draw.randint(10, 90)),
                ],
            )
        )
    return rows
