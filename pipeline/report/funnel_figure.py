"""Where questions are lost: the gold answer retrieved, kept, in the prompt, in the answer."""

from collections.abc import Mapping, Sequence

import numpy as np

from pipeline.report.draw import HEIGHT, INK, PAPER, SERIES, canvas
from pipeline.report.facts import STEPS, Facts
from pipeline.report.figure import Figure
from pipeline.scoring.intervals import wilson_interval


def funnel_figures(runs: Mapping[str, Sequence[Facts]]) -> list[Figure]:
    """How many questions' gold answers reach each step without a gap; nothing where no gold answers are known."""
    known = {run: [f.gold_in for f in facts if f.gold_in is not None] for run, facts in runs.items()}
    known = {run: steps for run, steps in known.items() if steps}
    if not known:
        return []
    name, rows = "funnel", []
    height = 0.8 / len(known)
    with canvas(name, height=max(HEIGHT, 0.7 + len(STEPS) * 0.19 * len(known))) as drawn:
        for number, (run, steps) in enumerate(known.items()):
            reached = [sum(all(q[: step + 1]) for q in steps) for step in range(len(STEPS))]
            shares = [count / len(steps) for count in reached]
            places = np.arange(len(STEPS)) + (number - (len(known) - 1) / 2) * height
            drawn.axes.barh(places, shares, height * 0.9, color=SERIES[number % len(SERIES)], label=run)
            for place, share, count in zip(places, shares, reached, strict=True):
                inside = share > 0.2
                drawn.axes.annotate(
                    f"{count:,} of {len(steps):,}",
                    (share, place),
                    (-4 if inside else 4, 0),
                    textcoords="offset points",
                    ha="right" if inside else "left",
                    va="center",
                    color=PAPER if inside else INK,
                )
            for step, label in enumerate(STEPS):
                low, high = wilson_interval(reached[step], len(steps)) or (None, None)
                anyhow = sum(q[step] for q in steps)
                rows.append((run, label, reached[step], shares[step], low, high, anyhow, len(steps)))
        drawn.axes.set_yticks(range(len(STEPS)), STEPS)
        drawn.axes.invert_yaxis()
        drawn.axes.set_xlim(0, 1)
        drawn.axes.grid(axis="y", visible=False)
        drawn.labels("share of questions with a gold answer", "", legend=len(known) > 1)
    caption = (
        "Questions whose gold answer stands, word for word, at a step and at all before it. "
        + "; ".join(_anyhow(run if len(known) > 1 else "", steps) for run, steps in known.items())
        + ". Intervals in the table: 95% Wilson."
    )
    columns = ("run", "step", "questions", "share", "low", "high", "at this step alone", "n")
    return [Figure(name, "Where questions are lost", caption, columns, rows, drawn.svg)]


def _anyhow(run: str, steps: Sequence[tuple[bool, ...]]) -> str:
    without = sum(q[-1] and not all(q) for q in steps)
    return (f"{run}: " if run else "") + f"{without:,} more answers hold it although the evidence did not"
