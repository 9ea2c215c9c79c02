"""What a run cost: calls, tokens and seconds, per stage and per question, added up from the traces of its rows."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from pipeline.schema import TRACE

COUNTS = ("calls", "prompt_tokens", "generated_tokens", "seconds", "queue_seconds")
COST = pa.schema(
    [
        ("id", pa.string()),
        ("stage", pa.string()),  # its place in the system and its name: "3 search"
        *((name, TRACE.field(name).type) for name in COUNTS),
    ]
)
ALL = "all"
Row = Mapping[str, Any]


def question_costs(rows: Iterable[Row]) -> list[dict[str, Any]]:
    """Of schema `COST`: an entry for each question and stage that worked on it. Null is what nobody counted.

    `seconds` are those of the batch a row was in, shared equally by its rows: the stage's own time where batches come
    one after another, more where several are under way. A row that was done again counts with its last version, and a
    call that the request cache answered counts as the call that it once was.
    """
    return [
        {"id": row["id"], "stage": f"{place} {step['stage']}", **{name: step.get(name) for name in COUNTS}}
        for row in rows
        for place, step in enumerate(row.get("trace") or [], start=1)
    ]


def stage_costs(costs: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Sums of `question_costs` over the questions of each stage, in the system's order, then over all stages.

    `questions` is how many reached the stage. A sum is null where every part of it is.
    """
    stages = sorted({cost["stage"] for cost in costs}, key=lambda stage: (int(stage.partition(" ")[0]), stage))
    groups = [(stage, [cost for cost in costs if cost["stage"] == stage]) for stage in stages]
    return [_sum(stage, group) for stage, group in [*groups, (ALL, costs)]]


def _sum(stage: str, costs: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    sums = {name: _total([cost[name] for cost in costs]) for name in COUNTS}
    return {"stage": stage, "questions": len({cost["id"] for cost in costs}), **sums}


def _total(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None
