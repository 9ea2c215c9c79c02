"""How far two sets of judgements agree.

Pearson r       in [-1, 1], interval by Fisher's z (scipy): 14 labels with r = .89 say only .68 to .97
kappa           in [-1, 1]: agreement beyond chance (Cohen 1960); for grades weighted by squared distance (Cohen 1968),
                so that 7 for 8 is nearly right; interval by percentile bootstrap over items
mean difference of two sets of grades, with the bootstrap interval: does the judge grade too high?
"""

from collections.abc import Sequence

import numpy as np

from pipeline.scoring.intervals import bootstrap_interval

Interval = tuple[float, float] | None


def pearson(first: Sequence[float], second: Sequence[float], confidence: float = 0.95) -> tuple[float | None, Interval]:
    """(r, interval). r is None where one side is constant or there are fewer than 2 pairs; the interval needs 4."""
    a, b = _pair(first, second)
    if a.size < 2 or np.ptp(a) == 0 or np.ptp(b) == 0:
        return None, None
    from scipy.stats import pearsonr

    found = pearsonr(a, b)
    if a.size < 4:
        return float(found.statistic), None
    interval = found.confidence_interval(confidence)
    return float(found.statistic), (float(interval.low), float(interval.high))


def kappa(
    first: Sequence[float],
    second: Sequence[float],
    weighted: bool,
    confidence: float = 0.95,
    resamples: int = 2000,
    seed: int = 0,
) -> tuple[float | None, Interval]:
    """(kappa, interval). None where both sides give one and the same label to all, or there is no pair.

    `weighted`: by squared distance between the labels; else every disagreement counts alike.
    """
    a, b = _pair(first, second)
    value = _kappa(a, b, weighted)
    if value is None or a.size < 2:
        return value, None
    random = np.random.default_rng(seed)
    drawn = (random.integers(0, a.size, a.size) for _ in range(resamples))
    values = [found for chosen in drawn if (found := _kappa(a[chosen], b[chosen], weighted)) is not None]
    low, high = np.quantile(values, [(1 - confidence) / 2, (1 + confidence) / 2])
    return value, (float(low), float(high))


def mean_difference(first: Sequence[float], second: Sequence[float]) -> tuple[float | None, Interval]:
    """Mean of second - first, with its bootstrap interval."""
    a, b = _pair(first, second)
    return (float((b - a).mean()), bootstrap_interval((b - a).tolist())) if a.size else (None, None)


def _kappa(a: np.ndarray, b: np.ndarray, weighted: bool) -> float | None:
    """1 - observed / expected disagreement, where expected pairs any label of one side with any of the other."""
    if not a.size:
        return None
    if weighted:
        observed, expected = float(((a - b) ** 2).mean()), float(a.var() + b.var() + (a.mean() - b.mean()) ** 2)
    else:
        labels = np.unique(np.concatenate([a, b]))
        observed, expected = float((a != b).mean()), 1 - sum(float((a == x).mean() * (b == x).mean()) for x in labels)
    return 1 - observed / expected if expected > 1e-12 else None


def _pair(first: Sequence[float], second: Sequence[float]) -> tuple[np.ndarray, np.ndarray]:
    a, b = np.asarray(first, np.float64), np.asarray(second, np.float64)
    if a.shape != b.shape or a.ndim != 1:
        raise ValueError(f"agreement of {a.size} and {b.size} labels; a pair for each item is wanted")
    return a, b
