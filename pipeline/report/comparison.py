"""Several runs on the questions they share: who wins, question by question, by how much, and is it more than chance."""

from collections.abc import Mapping, Sequence
from typing import Any

from pipeline.report.draw import INK, PAPER, RULE, SERIES, canvas
from pipeline.report.figure import Figure, signed
from pipeline.report.source import Reported
from pipeline.scoring.compare import COMPARISON, SHARES, compare_runs
from pipeline.scoring.score import WORDS

NO_CONTEST = (WORDS, *SHARES, "failed")  # more of them is not better
HEADINGS = ("metric", "difference", "95% interval", "effect", "n", "p", "p (Holm)")
Line = Mapping[str, Any]


def comparison_figures(runs: Sequence[Reported]) -> list[Figure]:
    """Each later run against the first; the questions' scores of all runs side by side. Nothing for a single run."""
    if len(runs) < 2:
        return []
    first, *others = runs
    table = compare_runs({run.name: run.scores.questions for run in runs}, first.name, common=True)
    lines = [line for line in table.to_pylist() if line["n"]]
    figures = []
    for number, run in enumerate(others, start=1):
        own = [line for line in lines if line["run"] == run.name]
        if own:
            figures.append(_against(f"wins-{number}" if len(others) > 1 else "wins", first.name, run.name, own))
    return [*figures, _side_by_side(runs)]


def difference_cells(line: Line) -> list[str]:
    """A line of `COMPARISON` under all HEADINGS but the first; a question that only one run has a value for is in
    brackets after n."""
    low, high = line["difference_low"], line["difference_high"]
    return [
        signed(line["difference"]),
        "" if low is None else f"{signed(low)} to {signed(high)}",
        signed(line["effect_size"], 2),
        f"{line['n']:,}" + (f" ({line['excluded']:,})" if line["excluded"] else ""),
        "" if line["p"] is None else f"{line['p']:.4f}",
        "" if line["p_holm"] is None else f"{line['p_holm']:.4f}",
    ]


def _against(name: str, first: str, run: str, lines: Sequence[Line]) -> Figure:
    contests = [line for line in lines if line["metric"] not in NO_CONTEST]
    with canvas(name, height=max(1.8, 0.7 + 0.24 * len(contests))) as drawn:
        left = [0] * len(contests)
        for result, colour in (("wins", SERIES[0]), ("ties", RULE), ("losses", SERIES[1])):
            counts = [line[result] for line in contests]
            drawn.axes.barh(range(len(contests)), counts, 0.72, left=left, color=colour, label=result)
            for place, (start, count) in enumerate(zip(left, counts, strict=True)):
                if count > 0.06 * contests[place]["n"]:
                    ink = INK if result == "ties" else PAPER
                    drawn.axes.annotate(f"{count:,}", (start + count / 2, place), ha="center", va="center", color=ink)
            left = [a + b for a, b in zip(left, counts, strict=True)]
        drawn.axes.set_yticks(range(len(contests)), [line["metric"] for line in contests])
        drawn.axes.invert_yaxis()
        drawn.axes.grid(axis="y", visible=False)
        drawn.axes.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=3, borderaxespad=0.2)
        drawn.axes.set_xlabel(f"questions, against {first}")
    methods = "; ".join(dict.fromkeys(line["method"] for line in lines))
    caption = (
        f"Each question that {first} and {run} both have a value of (n; in brackets those excluded because only one "
        f"has). A win is a higher score than {first}'s; effect is the mean difference in standard deviations of the "
        f"questions' differences. {methods}."
    )
    table = [HEADINGS, *([line["metric"], *difference_cells(line)] for line in lines)]
    rows = [[line[column] for column in COMPARISON.names] for line in lines]
    return Figure(name, f"{run} against {first}", caption, COMPARISON.names, rows, drawn.svg, table)


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
