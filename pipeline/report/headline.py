"""The headline: every metric of every run, with its interval, and n."""

from collections.abc import Sequence
from typing import Any

from pipeline.report.draw import canvas
from pipeline.report.figure import Figure
from pipeline.report.source import Reported
from pipeline.scoring.definitions import Definition, definition_of
from pipeline.scoring.judge import MARK
from pipeline.scoring.score import JUDGED_METRICS, WORDS

# Of the judged metrics relatedness alone is a share (pipeline/scoring/claims.py).
OTHER_RANGES = {WORDS, *JUDGED_METRICS.values()} - {JUDGED_METRICS["relatedness"]}

COLUMNS = (
    "run",
    "group",
    "metric",
    "mean",
    "low",
    "high",
    "n",
    "missing gold",
    "excluded",
    "failed",
    "abstained",
    "interval",
)


def headline_figure(runs: Sequence[Reported]) -> Figure:
    """The table of `tartan score` for all runs, and a drawing of those metrics that lie in [0, 1]."""
    rows = [(run.name, *_values(line)) for run in runs for line in run.scores.summary.to_pylist()]
    metrics = list(dict.fromkeys(row[2] for row in rows))
    shown = [m for m in metrics if any(_in_unit(row) for row in rows if row[2] == m)]
    with canvas("scores", height=max(1.4, 0.55 + len(shown) * (0.15 + 0.11 * len(runs)))) as drawn:
        for number, run in enumerate(runs):
            drawable = [row for row in rows if row[0] == run.name and _in_unit(row)]
            places = [shown.index(row[2]) + 0.6 * ((number + 0.5) / len(runs) - 0.5) for row in drawable]
            curve = tuple([row[part] if row[part] is not None else row[3] for row in drawable] for part in (3, 4, 5))
            drawn.points(number, places, curve, run.name, horizontal=True)
        drawn.axes.set_yticks(range(len(shown)), shown)
        drawn.axes.invert_yaxis()
        drawn.axes.set_xlim(-0.02, 1.02)
        drawn.labels("mean, and its 95% interval", "", legend=len(runs) > 1)
    return Figure(
        "scores",
        "Intervals",
        "The table's means and intervals, of the metrics whose range is from 0 to 1.",
        COLUMNS,
        rows,
        drawn.svg,
    )


def methods(runs: Sequence[Reported]) -> str:
    """How the intervals were computed, and what was left out."""
    found = dict.fromkeys(line["interval"] for run in runs for line in run.scores.summary.to_pylist())
    return (
        f"Intervals: {'; '.join(found)}. n: questions in the mean, with the failed, which score 0; in brackets "
        "those excluded, because their gold is not known or a judge's reply could not be read. Abstained: how many of "
        "the n the system declined."
    )


def definitions(runs: Sequence[Reported]) -> list[Definition]:
    """Of the metrics shown, as they are named there but for their depths; each once."""
    found: dict[str, Definition] = {}
    for name in dict.fromkeys(line["metric"] for run in runs for line in run.scores.summary.to_pylist()):
        if definition := definition_of(name):
            mark = f" ({MARK})" if name.endswith(f"({MARK})") else ""
            found.setdefault(definition.metric, definition._replace(metric=f"{definition.metric}{mark}"))
    return list(found.values())


def _values(line: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(line.get(name.replace(" ", "_")) for name in COLUMNS[1:])


def _in_unit(row: Sequence[Any]) -> bool:
    return row[2] not in OTHER_RANGES and row[3] is not None
