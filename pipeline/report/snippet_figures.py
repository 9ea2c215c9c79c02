"""The snippet filter: what a threshold would keep, and what a cosine says about holding the answer."""

from collections.abc import Sequence

import numpy as np

from pipeline.report.bands import METHOD, mean_band, ratio_band
from pipeline.report.draw import Canvas, canvas
from pipeline.report.facts import Facts
from pipeline.report.figure import Figure

THRESHOLDS = np.round(np.arange(0, 1.0001, 0.05), 2)
_EDGES = np.round(np.arange(-0.2, 1.0001, 0.1), 2)


def threshold_figures(runs: dict[str, Sequence[Facts]], thresholds: dict[str, float | None]) -> list[Figure]:
    """Kept snippets, and questions that keep any (and one with the gold answer), as functions of the threshold."""
    compared = {run: facts for run, facts in runs.items() if any(f.cosines for f in facts)}
    if not compared:
        return []
    kept = {run: mean_band([_counts(f) for f in facts]) for run, facts in compared.items()}
    name, rows = "threshold-kept", []
    with canvas(name) as drawn:
        for number, (run, curve) in enumerate(kept.items()):
            drawn.line(number, THRESHOLDS, curve, run)
            rows += [(run, *point) for point in zip(THRESHOLDS.tolist(), *_lists(curve), strict=True)]
        _mark(drawn, thresholds)
        drawn.axes.set_ylim(bottom=0)
        drawn.labels("threshold (least cosine)", "snippets kept per question", legend=len(kept) > 1)
    caption = (
        f"Mean number of snippets with at least that cosine, over {_n(compared)}, whatever the run's own limits; the "
        f"dotted line is the run's threshold. Band: {METHOD}."
    )
    figures = [
        Figure(name, "What a threshold keeps", caption, ("run", "threshold", "mean", "low", "high"), rows, drawn.svg)
    ]
    shares = {
        f"{run}: {what}" if len(compared) > 1 else what: mean_band(
            [[float(n > 0) for n in _counts(f, gold)] for f in facts if not gold or _knows_gold(f)]
        )
        for run, facts in compared.items()
        for what, gold in (("any snippet left", False), ("one with the gold answer", True))
        if not gold or any(map(_knows_gold, facts))
    }
    name, rows = "threshold-questions", []
    with canvas(name) as drawn:
        for number, (label, curve) in enumerate(shares.items()):
            drawn.line(number, THRESHOLDS, curve, label)
            rows += [(label, *point) for point in zip(THRESHOLDS.tolist(), *_lists(curve), strict=True)]
        _mark(drawn, thresholds)
        drawn.axes.set_ylim(0, 1.02)
        drawn.labels("threshold (least cosine)", "share of questions", legend=True)
    caption = (
        "Share of questions with a snippet of at least that cosine; with the gold answer: among the questions whose "
        f"gold is known. Band: {METHOD}."
    )
    columns = ("what", "threshold", "share", "low", "high")
    return [*figures, Figure(name, "What a threshold costs", caption, columns, rows, drawn.svg)]


def calibration_figures(runs: dict[str, Sequence[Facts]]) -> list[Figure]:
    """The share of snippets that contain a gold answer, by cosine."""
    known = {run: [f for f in facts if _knows_gold(f)] for run, facts in runs.items()}
    known = {run: facts for run, facts in known.items() if facts}
    if not known:
        return []
    centres = (_EDGES[:-1] + _EDGES[1:]) / 2
    name, rows = "calibration", []
    with canvas(name) as drawn:
        for number, (run, facts) in enumerate(known.items()):
            bins = [_histogram([cosine for cosine, _ in f.cosines]) for f in facts]
            holds = [_histogram([cosine for cosine, held in f.cosines if held]) for f in facts]
            share, low, high = ratio_band(holds, bins)
            total = np.sum(bins, axis=0)
            there = total > 0
            beside = 0.012 * (number - (len(known) - 1) / 2)  # so that whiskers of several runs do not hide each other
            drawn.points(number, centres[there] + beside, (share[there], low[there], high[there]), run)
            columns = (_EDGES[:-1].tolist(), _EDGES[1:].tolist(), total.tolist(), *_lists((share, low, high)))
            rows += [(run, *row) for row in zip(*columns, strict=True) if row[2]]
        drawn.axes.set_ylim(bottom=0)
        drawn.labels("cosine of snippet and question", "share with a gold answer", legend=len(known) > 1)
    snippets = sum(len(f.cosines) for facts in known.values() for f in facts)
    caption = (
        f"Share of snippets that contain a gold answer, word for word, in bins of .1 of cosine; {snippets:,} snippets "
        f"of {_n(known)} whose gold is known. A cosine that orders snippets well rises. Whiskers: {METHOD}."
    )
    columns = ("run", "from", "to", "snippets", "share", "low", "high")
    return [Figure(name, "Does the cosine know?", caption, columns, rows, drawn.svg)]


def _counts(facts: Facts, gold: bool = False) -> list[float]:
    """Snippets with at least each threshold's cosine, of those with a gold answer if `gold`: [thresholds]."""
    cosines = np.array([cosine for cosine, held in facts.cosines if held or not gold], np.float32)
    return (cosines[:, None] >= THRESHOLDS.astype(np.float32)).sum(0).astype(float).tolist()


def _histogram(cosines: list[float]) -> np.ndarray:
    # Cosines below -.2 are in the first bin; one of rounded vectors may lie a rounding above 1.
    return np.histogram(np.clip(cosines, _EDGES[0], _EDGES[-1]), _EDGES)[0]


def _knows_gold(facts: Facts) -> bool:
    return any(held is not None for _, held in facts.cosines)


def _mark(drawn: Canvas, thresholds: dict[str, float | None]) -> None:
    for threshold in {t for t in thresholds.values() if t is not None}:
        drawn.mark(threshold)


def _n(runs: dict[str, Sequence[Facts]] | dict[str, list[Facts]]) -> str:
    return "; ".join(f"{len(facts):,} questions" + f" ({run})" * (len(runs) > 1) for run, facts in runs.items())


def _lists(curve: tuple[np.ndarray, np.ndarray, np.ndarray]) -> list[list[float]]:
    return [part.tolist() for part in curve]
