"""What a run cost: calls, tokens and seconds, per stage and per question, added up from the traces of its rows."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from pipeline.env import Completion
from pipeline.schema import TRACE

MODEL_COUNTS = ("calls", "prompt_tokens", "generated_tokens", "queue_seconds", "device_seconds")
COUNTS = ("calls", "prompt_tokens", "generated_tokens", "seconds", "queue_seconds", "device_seconds")
COST = pa.schema(
    [
        ("id", pa.string()),
        ("stage", pa.string()),  # its place in the system and its name: "3 search"
        *((name, TRACE.field(name).type) for name in COUNTS),
    ]
)
ALL = "all"
Row = Mapping[str, Any]


def spent(calls: Iterable[Completion]) -> dict[str, float | None]:
    """What a row's calls add to its stage's trace."""
    return summed(
        {
            "calls": 1,
            "prompt_tokens": call.prompt_tokens,
            "generated_tokens": call.generated_tokens,
            "queue_seconds": call.queue_s,
            "device_seconds": call.device_s,
        }
        for call in calls
    )


def summed(counts: Iterable[Mapping[str, float | None]]) -> dict[str, float | None]:
    """Sums of `MODEL_COUNTS`; of none: 0 calls and tokens, and no seconds."""
    held = list(counts)
    nothing = {"calls": 0, "prompt_tokens": 0, "generated_tokens": 0}
    return {name: _total(each.get(name) for each in held) if held else nothing.get(name) for name in MODEL_COUNTS}


def question_costs(rows: Iterable[Row]) -> list[dict[str, Any]]:
    """Of schema `COST`: an entry for each question and stage that worked on it. Null is what nobody counted.

    `seconds` are those of the batch a row was in, shared equally by its rows: the stage's own time where batches come
    one after another, more where several are under way. `device_seconds` add up to what the engines worked. A row that
    was done again counts with its last version, and a call that the request cache answered counts as the call that it
    once was.
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
