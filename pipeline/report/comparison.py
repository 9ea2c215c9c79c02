"""Several runs on the questions they share: who wins, question by question, and by how much on average."""

from collections.abc import Sequence
from typing import Any

from pipeline.report.draw import INK, PAPER, RULE, SERIES, canvas
from pipeline.report.figure import Figure
from pipeline.report.source import Reported
from pipeline.scoring.intervals import bootstrap_interval
from pipeline.scoring.score import WORDS

COLUMNS = ("metric", "run", "against", "wins", "ties", "losses", "mean difference", "low", "high", "n")


def comparison_figures(runs: Sequence[Reported]) -> list[Figure]:
    """Each later run against the first; the questions' scores of all runs side by side. Nothing for a single run."""
    if len(runs) < 2:
        return []
    first, *others = runs
    rows: list[tuple[Any, ...]] = [
        row
        for run in others
        for metric in first.metrics()
        if metric != WORDS and (row := _compared(first, run, metric))
    ]
    figures = []
    if rows:
        labels = [f"{row[0]}" + f" ({row[1]})" * (len(others) > 1) for row in rows]
        with canvas("wins", height=max(1.8, 0.7 + 0.24 * len(rows))) as drawn:
            left = [0] * len(rows)
            for name, column, colour in (("wins", 3, SERIES[0]), ("ties", 4, RULE), ("losses", 5, SERIES[1])):
                counts = [row[column] for row in rows]
                drawn.axes.barh(range(len(rows)), counts, 0.72, left=left, color=colour, label=name)
                for place, (start, count) in enumerate(zip(left, counts, strict=True)):
                    if count > 0.06 * rows[place][9]:
                        ink = INK if name == "ties" else PAPER
                        drawn.axes.annotate(
                            f"{count:,}", (start + count / 2, place), ha="center", va="center", color=ink
                        )
                left = [a + b for a, b in zip(left, counts, strict=True)]
            drawn.axes.set_yticks(range(len(rows)), labels)
            drawn.axes.invert_yaxis()
            drawn.axes.grid(axis="y", visible=False)
            drawn.axes.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=3, borderaxespad=0.2)
            drawn.axes.set_xlabel(f"questions, against {first.name}")
        caption = (
            f"Each question that {first.name} and the other run both have a score of; a win is a higher score than "
            f"{first.name}'s. Differences: 95% percentile bootstrap over questions; without correction for the "
            "number of comparisons."
        )
        figures.append(Figure("wins", f"Against {first.name}", caption, COLUMNS, rows, drawn.svg))
    return [*figures, _side_by_side(runs)]


def _compared(
    first: Reported, run: Reported, metric: str
) -> tuple[str, str, str, int, int, int, float, object, object, int] | None:
    """A row of the table; None where no question has both scores."""
    before = dict(zip(first.scores.questions["id"].to_pylist(), first.values(metric), strict=True))
    after = zip(run.scores.questions["id"].to_pylist(), run.values(metric), strict=True)
    gains = [value - old for id, value in after if value is not None and (old := before.get(id)) is not None]
    if not gains:
        return None
    wins, losses = sum(g > 0 for g in gains), sum(g < 0 for g in gains)
    low, high = bootstrap_interval(gains) or (None, None)
    mean = sum(gains) / len(gains)
    return metric, run.name, first.name, wins, len(gains) - wins - losses, losses, mean, low, high, len(gains)


def _side_by_side(runs: Sequence[Reported]) -> Figure:
    """Every shared question's scores, a column a run and metric: the file to look for patterns in."""
    metrics = [metric for metric in runs[0].metrics() if all(metric in run.metrics() for run in runs[1:])]
    held = [
        dict(zip((r["id"] for r in run.rows), zip(*(run.values(m) for m in metrics), strict=True), strict=True))
        if metrics else {}
        for run in runs
    ]  # fmt: skip
    shared = [row["id"] for row in runs[0].rows if all(row["id"] in scores for scores in held)]
    columns = ["id", *(f"{metric}, {run.name}" for metric in metrics for run in runs)]
    rows = [(id, *(scores[id][n] for n in range(len(metrics)) for scores in held)) for id in shared]
    caption = f"{len(shared):,} questions that all runs answered. The table is long: take the file."
    return Figure("questions", "Scores by question", caption, columns, rows)
