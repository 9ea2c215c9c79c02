"""Curves of a sweep: a metric against the value of the key that was varied, with bands."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from pipeline.errors import InputError
from pipeline.report.draw import canvas
from pipeline.report.figure import Figure

NEEDED = ("key", "value", "metric", "mean", "low", "high", "n")
Line = dict[str, Any]


def read_outcomes(path: Path) -> list[Line]:
    """The lines of a sweep's outcome table, Parquet or CSV, with at least the columns `NEEDED`.

    A line is one metric at one value of one config key; `value` is text or a number, null where the key was off.
    InputError where the file cannot be read or lacks a column.
    """
    try:
        table = pyarrow.csv.read_csv(path) if path.suffix == ".csv" else pq.read_table(path)
    except (pa.ArrowInvalid, OSError) as problem:
        raise InputError(f"--sweep {path} cannot be read as Parquet or CSV: {problem}") from None
    if missing := [name for name in NEEDED if name not in table.column_names]:
        raise InputError(
            f"--sweep {path} has no column '{missing[0]}'; it has {', '.join(table.column_names)}; an outcome table "
            f"needs {', '.join(NEEDED)}"
        )
    return table.to_pylist()


def sweep_figures(lines: Sequence[Line]) -> list[Figure]:
    """A figure for each key and metric, values in the order of the table (numbers ascending, off last)."""
    curves: dict[tuple[str, str], list[Line]] = {}
    for line in lines:
        if line["mean"] is not None:
            curves.setdefault((str(line["key"]), str(line["metric"])), []).append(line)
    return [_curve(number, key, metric, found) for number, ((key, metric), found) in enumerate(curves.items(), start=1)]


def _curve(number: int, key: str, metric: str, lines: list[Line]) -> Figure:
    lines = sorted(lines, key=lambda line: (_number(line["value"]) is None, _number(line["value"]) or 0))
    labels = ["off" if line["value"] is None else str(line["value"]) for line in lines]
    means = [line["mean"] for line in lines]
    lows, highs = (
        [m if line[e] is None else line[e] for m, line in zip(means, lines, strict=True)] for e in ("low", "high")
    )
    name = f"sweep-{number}"
    with canvas(name) as drawn:
        numbers = [n for line in lines if (n := _number(line["value"])) is not None]
        # Numbers keep their distances; what is no number stands to the right of them, a mean step away.
        step = (numbers[-1] - numbers[0]) / (len(numbers) - 1) if len(numbers) > 1 else 1.0
        start = numbers[-1] if numbers else -step
        places = [*numbers, *(start + step * (n + 1) for n in range(len(lines) - len(numbers)))]
        if len(numbers) > 1:
            curve = tuple(part[: len(numbers)] for part in (means, lows, highs))
            drawn.line(0, numbers, curve, metric, marker="o")
        rest = slice(len(numbers) if len(numbers) > 1 else 0, None)
        if places[rest]:
            drawn.points(0, places[rest], (means[rest], lows[rest], highs[rest]), metric)
        drawn.axes.set_xticks(places, labels)
        drawn.labels(key, metric, legend=False)
    counts = sorted({line["n"] for line in lines})
    caption = f"Mean {metric} at each value of {key}, with the table's intervals; n {', '.join(map(str, counts))}."
    extra = [c for c in lines[0] if c not in NEEDED]
    rows = [[line[c] for c in (*NEEDED, *extra)] for line in lines]
    return Figure(name, f"{metric} by {key}", caption, (*NEEDED, *extra), rows, drawn.svg)


def _number(value: Any) -> float | None:
    if value is None or isinstance(value, bool):
        return None
    try:
        return float(value)
    except ValueError:
        return None
