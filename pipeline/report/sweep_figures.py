"""Curves of a sweep: a metric against the value of the key that was varied, with bands."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from pipeline.errors import InputError
from pipeline.report.draw import canvas
from pipeline.report.figure import Figure

NEEDED = ("run", "metric", "settings", "mean", "low", "high", "n")
Line = dict[str, Any]


def read_outcomes(path: Path) -> list[Line]:
    """The lines of a sweep's outcome table: the folder of a sweep, or its Parquet or CSV file.

    A line is one metric of one variant (`run`), with the mean's interval; `settings` is JSON, what the variant sets.
    InputError where the file cannot be read or lacks one of the columns `NEEDED`.
    """
    path = path / "outcome.parquet" if path.is_dir() else path
    try:
        table = pyarrow.csv.read_csv(path) if path.suffix == ".csv" else pq.read_table(path)
    except (pa.ArrowInvalid, OSError) as problem:
        raise InputError(f"--sweep {path} cannot be read as Parquet or CSV: {problem}") from None
    if missing := [name for name in NEEDED if name not in table.column_names]:
        raise InputError(
            f"--sweep {path} has no column '{missing[0]}'; it has {', '.join(table.column_names)}; an outcome table "
            f"needs {', '.join(NEEDED)}"
        )
    try:
        return [{**line, "settings": json.loads(line["settings"] or "{}")} for line in table.to_pylist()]
    except (TypeError, ValueError) as problem:
        raise InputError(f"--sweep {path}: its column 'settings' is not JSON: {problem}") from None


def sweep_figures(lines: Sequence[Line]) -> list[Figure]:
    """A figure for each metric; along it the values of the one key that varied (numbers ascending, off last), or the
    variants by name where several did."""
    curves: dict[str, list[Line]] = {}
    for line in lines:
        if line["mean"] is not None:
            curves.setdefault(str(line["metric"]), []).append(line)
    return [_curve(number, metric, *_values(found)) for number, (metric, found) in enumerate(curves.items(), start=1)]


def _values(lines: list[Line]) -> tuple[str, list[Line]]:
    """What varied, and the lines with its `value`."""
    settings = [line["settings"] for line in lines]
    varied = [key for key in settings[0] if len({json.dumps(of.get(key)) for of in settings}) > 1]
    if len(varied) == 1 and all(list(of) == list(settings[0]) for of in settings):
        return varied[0], [{**line, "value": line["settings"][varied[0]]} for line in lines]
    return "variant", [{**line, "value": line["run"]} for line in lines]


def _curve(number: int, metric: str, key: str, lines: list[Line]) -> Figure:
    lines = sorted(lines, key=lambda line: (_number(line["value"]) is None, _number(line["value"]) or 0))
    labels = ["off" if line["value"] is None else str(line["value"])[:24] for line in lines]
    means = [line["mean"] for line in lines]
    lows = [line["mean"] if line["low"] is None else line["low"] for line in lines]
    highs = [line["mean"] if line["high"] is None else line["high"] for line in lines]
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
        if max(map(len, labels)) > 5:
            drawn.axes.tick_params(axis="x", rotation=30)
        drawn.labels(key, metric, legend=False)
    counts = sorted({line["n"] for line in lines})
    caption = f"Mean {metric} at each value of {key}, with the table's intervals; n {', '.join(map(str, counts))}."
    others = [name for name in lines[0] if name not in (*NEEDED, "value")]
    columns = ("run", "metric", "value", "mean", "low", "high", "n", *others)
    return Figure(
        name, f"{metric} by {key}", caption, columns, [[line[c] for c in columns] for line in lines], drawn.svg
    )


def _number(value: Any) -> float | None:
    if value is None or isinstance(value, bool):
        return None
    try:
        return float(value)
    except ValueError:
        return None
