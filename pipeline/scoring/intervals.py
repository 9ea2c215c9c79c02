"""Confidence intervals of a mean and of a proportion."""

import math
from collections.abc import Sequence

import numpy as np

SHARES = ("EM", "containment", "abstained", "blocked", "failed")


def is_share(metric: str) -> bool:
    """Whether a question's value is 0 or 1 by definition, so that the mean is a share of questions."""
    return metric in SHARES or metric.removeprefix("passage ").startswith("Success@")


def bootstrap_interval(
    values: Sequence[float], confidence: float = 0.95, resamples: int = 2000, seed: int = 0
) -> tuple[float, float] | None:
    """Percentile bootstrap interval of the mean of `values` (Efron and Tibshirani 1993, chapter 13).

    The questions are resampled with replacement, so it says how far the mean would move with other questions of the
    same kind, not with another run. Percentile rather than BCa: BCa has no value where all resamples are alike, and the
    mean of a bounded metric has little bias to correct. Percentiles of few values are too narrow, so they are taken
    further out, by Student's t and the factor sqrt(n / (n - 1)) ("expanded": Hesterberg, The American Statistician
    2015, 69(4)). The same values and seed give the same interval.

    Values that are all alike give an interval without width, which is what resampling can know, not certainty. One
    value or none gives None. Raises ValueError for NaN or infinite values.
    """
    array = np.asarray(values, dtype=np.float64)
    if not np.isfinite(array).all():
        raise ValueError("bootstrap_interval: a value is NaN or infinite; leave out what was not scored")
    if array.size < 2:
        return None
    if (array == array[0]).all():
        return float(array[0]), float(array[0])
    from scipy.stats import bootstrap, norm, t

    n = array.size
    tail = float(norm.cdf(-math.sqrt(n / (n - 1)) * t.ppf((1 + confidence) / 2, n - 1)))
    result = bootstrap(
        (array,),
        np.mean,
        n_resamples=resamples,
        batch=max(1, 4_000_000 // array.size),  # 32 MB of resampled values at a time
        confidence_level=min(1 - 2 * tail, 1 - 1e-9),
        method="percentile",
        rng=np.random.default_rng(seed),
    )
    return float(result.confidence_interval.low), float(result.confidence_interval.high)


def mean_interval(
    metric: str, values: Sequence[float], confidence: float = 0.95, resamples: int = 2000, seed: int = 0
) -> tuple[tuple[float, float] | None, str]:
    """(interval of the metric's mean, method): Wilson's for shares, so that n questions without a success do not look
    like certainty; the bootstrap for all others, whatever their values happen to be. None as in the two."""
    if is_share(metric):
        return wilson_interval(int(sum(values)), len(values), confidence), wilson_method(confidence)
    interval = bootstrap_interval(values, confidence, resamples, seed)
    return interval, f"{confidence:.0%} expanded percentile bootstrap of the mean ({resamples} resamples, seed {seed})"


def wilson_method(confidence: float = 0.95) -> str:
    return f"{confidence:.0%} Wilson for shares of questions"


def wilson_interval(successes: int, n: int, confidence: float = 0.95) -> tuple[float, float] | None:
    """Wilson score interval of the proportion `successes / n` (Wilson 1927); None where n is 0.

    Has width at 0 and at n successes too, where a bootstrap has none. Raises ValueError unless 0 <= successes <= n.
    """
    if not 0 <= successes <= n:
        raise ValueError(f"wilson_interval: {successes} successes of {n}")
    if n == 0:
        return None
    from scipy.stats import norm

    z = float(norm.ppf((1 + confidence) / 2))
    share = successes / n
    centre = (share + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * math.sqrt(share * (1 - share) / n + z * z / (4 * n * n))
    return max(0.0, centre - half), min(1.0, centre + half)
