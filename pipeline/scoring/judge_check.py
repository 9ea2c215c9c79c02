"""A judge put to the test: against labels, against itself asked again, and with the two texts in the other order."""

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from pipeline.errors import InputError
from pipeline.scoring.agreement import Interval, kappa, mean_difference, pearson
from pipeline.scoring.judge import ORDERED, SLOTS, Judge, Task

SCALES = {"similarity": "judge_similarity", "groundedness": "judge_groundedness", "relation": "judge_relation"}
AGREEMENT = pa.schema(
    [
        ("comparison", pa.string()),  # with labels; with itself, repeat 2; with itself, order swapped
        ("statistic", pa.string()),  # Pearson r, kappa, mean difference
        ("value", pa.float64()),  # null where it is not defined (constant labels)
        ("low", pa.float64()),
        ("high", pa.float64()),
        ("n", pa.int64()),  # items with two judgements
        ("excluded", pa.int64()),  # items with an unreadable judgement
        ("method", pa.string()),
    ]
)


def read_labels(path: Path, scale: str) -> list[tuple[dict[str, str], float]]:
    """(slots of the scale's prompt, label) of each line of a JSONL file: the prompt's slots and `label`.

    Grades are from 0 to 10, relations 1, 0 or -1. Raises InputError, naming file, line and rule.
    """
    if not path.is_file():
        raise InputError(f"The file of labels {path} does not exist or is no file; give JSONL, one judged item a line.")
    slots, found = sorted(SLOTS[SCALES[scale]]), []
    for number, line in enumerate(path.read_text(encoding="utf-8").split("\n"), start=1):
        if not line.strip():
            continue
        where = f"{path}, line {number}"
        try:
            record = json.loads(line)
        except ValueError as problem:
            raise InputError(f"{where}: not JSON ({problem}).") from None
        lacking = [key for key in (*slots, "label") if not isinstance(record, dict) or key not in record]
        if lacking:
            raise InputError(f"{where}: has no '{lacking[0]}'; {scale} wants {', '.join(slots)} and label.")
        label = record["label"]
        fits = label in (1, 0, -1) if scale == "relation" else isinstance(label, int | float) and 0 <= label <= 10
        if not fits or isinstance(label, bool):
            wanted = "1, 0 or -1" if scale == "relation" else "a number from 0 to 10"
            raise InputError(f"{where}: the label is {label!r}; {scale} wants {wanted}.")
        if blank := next((key for key in slots if not isinstance(record[key], str) or not record[key].strip()), None):
            raise InputError(f"{where}: '{blank}' is no text.")
        found.append(({key: record[key] for key in slots}, float(label)))
    if not found:
        raise InputError(f"{path} holds no labels.")
    return found


def check_judge(
    labelled: Sequence[tuple[dict[str, str], float]],
    scale: str,
    make_judge: Callable[[int], Judge],
    repeats: int = 3,
) -> tuple[pa.Table, list[list[float | None]]]:
    """(a table of `AGREEMENT`, per pass its judgements). `make_judge(0)`: the judge as it scores; `make_judge(n)`: the
    one that is asked for the n-th time, sampling with a seed of its own.

    Passes: as it scores, which is what labels are compared with; asked again, so that there are `repeats`; then, where
    the scale's prompt allows, as it scores but with the texts in the other order.
    """
    tasks = [Task(SCALES[scale], slots) for slots, _ in labelled]
    passes = [make_judge(n).ask(tasks) for n in range(repeats)]
    names = [f"with itself, repeat {n + 1}" for n in range(1, repeats)]
    if SCALES[scale] in ORDERED:
        swapped = [replace(task, slots={**task.slots, "swapped": True}) for task in tasks]
        passes.append(make_judge(0).ask(swapped))
        names.append("with itself, order swapped")
    lines = _lines("with labels", [label for _, label in labelled], passes[0], scale)
    for name, judgements in zip(names, passes[1:], strict=True):
        lines += _lines(name, passes[0], judgements, scale)
    return pa.Table.from_pylist(lines, schema=AGREEMENT), passes


def _lines(
    name: str, first: Sequence[float | None], second: Sequence[float | None], scale: str
) -> list[dict[str, Any]]:
    pairs = [(a, b) for a, b in zip(first, second, strict=True) if a is not None and b is not None]
    a, b = [one for one, _ in pairs], [other for _, other in pairs]
    weighted = scale != "relation"
    found: dict[str, tuple[float | None, Interval, str]] = {
        "Pearson r": (*pearson(a, b), "95% by Fisher's z"),
        "kappa": (
            *kappa(a, b, weighted),
            f"{'squared weights' if weighted else 'unweighted'}, 95% percentile bootstrap",
        ),
        "mean difference": (*mean_difference(a, b), "judge minus label or first pass, 95% percentile bootstrap"),
    }
    return [
        {
            "comparison": name,
            "statistic": statistic,
            "value": value,
            "low": interval[0] if interval else None,
            "high": interval[1] if interval else None,
            "n": len(pairs),
            "excluded": len(first) - len(pairs),
            "method": method,
        }
        for statistic, (value, interval, method) in found.items()
    ]
