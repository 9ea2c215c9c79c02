"""How much evidence questions get: unique documents, snippets, prompt length (Fig. 4 of HLTCOE, arXiv 2506.22356)."""

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from pipeline.report.draw import LINES, SERIES, canvas
from pipeline.report.facts import Facts
from pipeline.report.figure import Figure

BARS = 24  # at most: more are narrower than a telephone shows
Counted = Callable[[Facts], int | None]
_HISTOGRAMS: list[tuple[str, str, str, str, Counted]] = [
    (
        "evidence-documents", "Documents retrieved", "unique documents per question",
        "Different documents among a question's retrieved passages.", lambda facts: facts.documents,
    ),
    (
        "evidence-kept", "Evidence kept", "snippets or passages kept per question",
        "Items of evidence that no stage dropped, as the answer stage was given them.", lambda facts: facts.kept,
    ),
    (
        "evidence-prompt", "Prompt length", "characters of the answer's prompt",
        "The whole prompt as it reached the model; 0 where the system abstained without asking.",
        lambda facts: facts.prompt_characters,
    ),
]  # fmt: skip


def evidence_figures(runs: dict[str, Sequence[Facts]]) -> list[Figure]:
    """A histogram for each thing that any of the runs has."""
    found = []
    for name, title, unit, caption, count in _HISTOGRAMS:
        values = {run: [n for f in facts if (n := count(f)) is not None] for run, facts in runs.items()}
        if any(values.values()):
            found.append(_histogram(name, title, unit, caption, {run: v for run, v in values.items() if v}))
    return found


def _histogram(name: str, title: str, unit: str, caption: str, values: dict[str, list[int]]) -> Figure:
    edges = bin_edges(max(max(v) for v in values.values()))
    counts = {run: np.histogram(v, edges)[0].tolist() for run, v in values.items()}
    with canvas(name) as drawn:
        for number, (run, count) in enumerate(counts.items()):
            style: dict[str, Any] = {"color": SERIES[number % len(SERIES)], "label": run}
            if len(counts) == 1:
                drawn.axes.bar(edges[:-1], count, np.diff(edges) * 0.88, align="edge", **style)
            else:
                drawn.axes.stairs(count, edges, linestyle=LINES[number % len(LINES)], linewidth=1.4, **style)
        drawn.axes.grid(axis="x", visible=False)
        if edges[1] - edges[0] == 1:  # a bar is one number: the number stands under it
            ticks = np.arange(0, len(edges) - 1, max(1, len(edges) // 10))
            drawn.axes.set_xticks(ticks + edges[0] + 0.5, [str(int(n)) for n in ticks])
        drawn.labels(unit, "questions", legend=len(counts) > 1, count=True)
    rows = [
        (int(np.ceil(first)), int(np.ceil(last)) - 1, *(counts[run][n] for run in counts))
        for n, (first, last) in enumerate(pairwise(edges))
    ]
    medians = "; ".join(f"{run}: median {np.median(v):,.0f}, n {len(v):,}" for run, v in values.items())
    return Figure(name, title, f"{caption} {medians}.", ("from", "to", *counts), rows, drawn.svg)


def bin_edges(most: int) -> np.ndarray:
    """Equal bins of whole numbers from 0 to at least `most`, at most BARS of them, of a width people count in."""
    width = next(w for p in range(12) for w in (10**p, 2 * 10**p, 5 * 10**p) if (most + 1) / w <= BARS)
    return np.arange(0, most + width + 1, width, dtype=np.float64)[: most // width + 2]
