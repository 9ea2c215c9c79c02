"""What answers cost: seconds by stage, and the score against the tokens that models read and wrote."""

from collections.abc import Sequence

import numpy as np

from pipeline.report.bands import METHOD, mean_band
from pipeline.report.draw import SERIES, canvas
from pipeline.report.facts import Facts
from pipeline.report.figure import Figure

GROUPS = 5  # of equally many questions, in the order of their cost


def seconds_figures(runs: dict[str, Sequence[Facts]]) -> list[Figure]:
    """Seconds, calls and tokens of each stage, in the system's order."""
    rows: list[tuple[str, str, float, float, float, float, int]] = []
    for run, facts in runs.items():
        for position in range(max((len(f.stages) for f in facts), default=0)):
            at = [f.stages[position] for f in facts if len(f.stages) > position]
            stage = f"{position + 1} {at[0][0]}" + f" ({run})" * (len(runs) > 1)
            seconds, calls, tokens = (np.array([step[part] for step in at], float) for part in (1, 2, 3))
            rows.append((run, stage, seconds.mean(), seconds.sum(), calls.mean(), tokens.mean(), len(at)))
    if not rows:
        return []
    order = list(runs)
    with canvas("seconds", height=max(1.6, 0.6 + 0.28 * len(rows))) as drawn:
        colours = [SERIES[order.index(row[0]) % len(SERIES)] for row in rows]
        drawn.axes.barh(range(len(rows)), [row[2] for row in rows], 0.72, color=colours)
        drawn.axes.set_yticks(range(len(rows)), [row[1] for row in rows])
        drawn.axes.invert_yaxis()
        drawn.axes.grid(axis="y", visible=False)
        drawn.labels("seconds per question", "", legend=False)
    totals = "; ".join(
        f"{run}: {np.mean([f.seconds for f in facts]):.3g} s and {np.mean([f.tokens for f in facts]):,.0f} tokens a "
        f"question, n {len(facts):,}"
        for run, facts in runs.items()
    )
    caption = f"A batch's seconds are shared equally by its questions; waiting between stages is in none. {totals}."
    columns = ("run", "stage", "seconds per question", "seconds", "calls per question", "tokens per question", "n")
    return [Figure("seconds", "Seconds by stage", caption, columns, rows, drawn.svg)]


def cost_figures(
    runs: dict[str, Sequence[Facts]], metric: str, scores: dict[str, Sequence[float | None]]
) -> list[Figure]:
    """The mean of a metric against mean tokens: a point a run; for one run, questions in groups of like cost."""
    groups: dict[str, list[tuple[int, float]]] = {}
    for run, facts in runs.items():
        pairs = [(f.tokens, v) for f, v in zip(facts, scores[run], strict=True) if v is not None and f.stages]
        pairs.sort(key=lambda pair: pair[0])
        parts = np.array_split(np.arange(len(pairs)), GROUPS if len(runs) == 1 else 1)
        for number, part in enumerate(parts):
            if len(part):
                label = run if len(runs) > 1 else f"fifth {number + 1}"
                groups[label] = [pairs[n] for n in part]
    if not groups or not any(tokens for pairs in groups.values() for tokens, _ in pairs):
        return []
    rows = []
    with canvas("cost") as drawn:
        for number, (label, pairs) in enumerate(groups.items()):
            cost = float(np.mean([tokens for tokens, _ in pairs]))
            mean, low, high = (float(part[0]) for part in mean_band([[value] for _, value in pairs]))
            drawn.points(number if len(runs) > 1 else 0, [cost], ([mean], [low], [high]), label)
            rows.append((label, cost, mean, low, high, len(pairs)))
        if all(0 <= end <= 1 for row in rows for end in row[3:5]):
            drawn.axes.set_ylim(0, 1.02)
        drawn.axes.set_xlim(0, 1.08 * max(row[1] for row in rows))
        drawn.labels("model tokens per question, read and written", metric, legend=len(runs) > 1)
    each = "A point is a run" if len(runs) > 1 else "A point is a fifth of the questions, in the order of their tokens"
    caption = (
        f"{each}: all calls of all stages, repeats and votes too, of language models. Tokens of models of different "
        f"sizes do not cost the same. Whiskers: {METHOD}."
    )
    columns = ("group", "tokens per question", metric, "low", "high", "n")
    return [Figure("cost", "Score against cost", caption, columns, rows, drawn.svg)]
