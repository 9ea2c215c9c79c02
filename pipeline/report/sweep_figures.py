"""Curves of a sweep: a metric against the value of the key that was varied, with bands; its tables."""

import json
from collections.abc import Sequence
from typing import Any

import numpy as np

from pipeline.report.comparison import HEADINGS, difference_cells
from pipeline.report.draw import HEIGHT, canvas
from pipeline.report.figure import Figure
from pipeline.report.sweep_tables import NEEDED, Line

SIGNIFICANT = 0.05  # of Holm's p, for what a caption names


def sweep_figures(lines: Sequence[Line]) -> list[Figure]:
    """The outcome as a table, and a figure for each metric.

    Where one key varied, its values lie along the axis (numbers at their distances, the rest to the right of them) and
    what else differs (a second key, the system) parts the curves; other sweeps have a line for each variant.
    """
    curves: dict[str, list[Line]] = {}
    for line in lines:
        if line["mean"] is not None:
            curves.setdefault(str(line["metric"]), []).append(line)
    figures = [_figure(number, metric, found) for number, (metric, found) in enumerate(curves.items(), start=1)]
    return [*([_outcome(lines)] if curves and "difference" in lines[0] else []), *figures]


def _outcome(lines: Sequence[Line]) -> Figure:
    others = list(dict.fromkeys(line["baseline"] for line in lines))
    baseline = others[0] if len(others) == 1 else "what it names"
    table: list[Sequence[str]] = [("variant", "mean", *HEADINGS[1:])]
    for metric in dict.fromkeys(line["metric"] for line in lines):
        table.append((str(metric),))
        for line in lines:
            if line["metric"] == metric:
                mean = "" if line["mean"] is None else f"{line['mean']:.3f}"
                other = f" against {line['baseline']}" if len(others) > 1 and line["baseline"] != line["run"] else ""
                table.append((f"{line['run']}{other}", mean, *difference_cells(line)))
    columns = list(lines[0])
    methods = "; ".join(dict.fromkeys(str(line["method"]) for line in lines))
    caption = (
        f"Every variant against {baseline}, over the questions that both have a value of (n; in brackets the "
        f"others). {methods}. Seconds, calls and tokens of each variant are in the file."
    )
    rows = [[_plain(line[name]) for name in columns] for line in lines]
    return Figure("outcome", f"Variants against {baseline}", caption, columns, rows, table=table)


def _figure(number: int, metric: str, lines: list[Line]) -> Figure:
    key, series = _series(lines)
    name = f"sweep-{number}"
    if key is None:
        svg, places = _by_variant(name, metric, lines), "variant"
    else:
        svg, places = _by_value(name, metric, key, series), key
    held = [line for own in series.values() for line in own]
    counts = sorted({line["n"] for line in lines})
    caption = f"Mean {metric} by {places}, with the outcome table's 95% intervals; n {', '.join(map(str, counts))}."
    if "p_holm" in lines[0]:
        found = [str(line["run"]) for line in lines if (line["p_holm"] or 1) < SIGNIFICANT]
        below = f"p by Holm below {SIGNIFICANT}"
        others = list(dict.fromkeys(str(line["baseline"]) for line in lines))
        than = others[0] if len(others) == 1 else "what they are compared with"
        caption += f" Different from {than} ({below}): {', '.join(found) or 'none'}."
    others = [column for column in lines[0] if column not in (*NEEDED, "value", "series")]
    columns = ("run", "metric", "series", "value", "mean", "low", "high", "n", *others)
    return Figure(
        name, f"{metric} by {places}", caption, columns, [[_plain(line.get(c)) for c in columns] for line in held], svg
    )


def _series(lines: list[Line]) -> tuple[str | None, dict[str, list[Line]]]:
    """The key along the axis, and the lines with their `value` of it by what else differs; None and the lines with
    their name as `value` where the variants set different keys, or one key's values do not tell a series' lines apart.
    """
    settings = [line["settings"] for line in lines]
    varied = [key for key in settings[0] if len({json.dumps(of.get(key)) for of in settings}) > 1]
    by_variant = {"": [{**line, "value": line["run"], "series": ""} for line in lines]}
    if not varied or any(set(of) != set(settings[0]) for of in settings):
        return None, by_variant
    key = max(varied, key=lambda name: len({json.dumps(of[name]) for of in settings}))
    several = len({line.get("system") for line in lines}) > 1
    series: dict[str, list[Line]] = {}
    for line in lines:
        parts = [str(line["system"])] if several else []
        parts += [f"{other.rpartition('.')[2]} {_shown(line['settings'][other])}" for other in varied if other != key]
        label = ", ".join(parts)
        series.setdefault(label, []).append({**line, "value": line["settings"][key], "series": label})
    if any(len({json.dumps(line["value"]) for line in own}) < len(own) for own in series.values()):
        return None, by_variant
    return key, {label: sorted(own, key=lambda line: _order(line["value"])) for label, own in series.items()}


def _by_value(name: str, metric: str, key: str, series: dict[str, list[Line]]) -> str:
    values = {_shown(line["value"]): line["value"] for own in series.values() for line in own}
    values = dict(sorted(values.items(), key=lambda item: _order(item[1])))
    numbers = [n for value in values.values() if (n := _number(value)) is not None]
    # Numbers keep their distances; what is no number stands to the right of them, a mean step away.
    step = (numbers[-1] - numbers[0]) / (len(numbers) - 1) if len(numbers) > 1 else 1.0
    start = numbers[-1] if numbers else -step
    rest = [start + step * (n + 1) for n in range(len(values) - len(numbers))]
    place = dict(zip(values, [*numbers, *rest], strict=True))
    with canvas(name) as drawn:
        for at, (label, own) in enumerate(series.items()):
            joined = [line for line in own if _number(line["value"]) is not None]
            joined = joined if len(joined) > 1 else []
            if joined:
                drawn.line(at, [place[_shown(line["value"])] for line in joined], _curve(joined), label, marker="o")
            alone = [line for line in own if line not in joined]
            if alone:
                beside = 0.03 * step * (at - (len(series) - 1) / 2)  # so that whiskers do not hide each other
                where = [place[_shown(line["value"])] + beside for line in alone]
                drawn.points(at, where, _curve(alone), "_" if joined else label)
        drawn.axes.set_xticks(list(place.values()), [label[:24] for label in place])
        if max(map(len, place)) > 5:
            drawn.axes.tick_params(axis="x", rotation=30)
        drawn.labels(key, metric, legend=len(series) > 1)
    return drawn.svg


def _by_variant(name: str, metric: str, lines: list[Line]) -> str:
    with canvas(name, height=max(HEIGHT / 2, 0.6 + 0.24 * len(lines))) as drawn:
        drawn.points(0, range(len(lines)), _curve(lines), metric, horizontal=True)
        own = [line["mean"] for line in lines if line["run"] == line.get("baseline")]
        if own:
            drawn.mark(own[0])
        drawn.axes.set_yticks(range(len(lines)), [str(line["run"])[:32] for line in lines])
        drawn.axes.invert_yaxis()
        drawn.labels(metric, "", legend=False)
    return drawn.svg


def _curve(lines: Sequence[Line]) -> tuple[Any, Any, Any]:
    means = [line["mean"] for line in lines]
    lows, highs = ([line[end] if line[end] is not None else line["mean"] for line in lines] for end in ("low", "high"))
    return np.array(means), np.array(lows), np.array(highs)


def _order(value: Any) -> tuple[bool, float]:
    """Numbers ascending, then the rest as they come."""
    number = _number(value)
    return number is None, number or 0.0


def _number(value: Any) -> float | None:
    if value is None or isinstance(value, bool):
        return None
    try:
        return float(value)
    except (TypeError, ValueError):
        return None


def _shown(value: Any) -> str:
    if value is None:
        return "off"
    return value if isinstance(value, str) else json.dumps(value)


def _plain(value: Any) -> Any:
    return json.dumps(value) if isinstance(value, dict | list) else value
