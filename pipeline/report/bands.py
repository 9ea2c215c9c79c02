"""Intervals of curves: questions are resampled, so that what one question contributes stays together."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

METHOD = "95% percentile bootstrap over questions (1,000 resamples, seed 0)"
Curve = tuple[np.ndarray, np.ndarray, np.ndarray]


def ratio_band(tops: ArrayLike, bottoms: ArrayLike, resamples: int = 1000) -> Curve:
    """A curve of ratios of sums over questions, and its band: value, low, high, each float64 [points].

    `tops`, `bottoms`: [questions, points]; with bottoms of 1 the curve is a mean. The ratio of sums weighs a question
    by what it has (snippets in a bin), as pooling would, but its snippets come and go together (cluster bootstrap,
    Field and Welsh 2007). NaN where the bottoms add up to 0; resamples of which that is true are left out.
    """
    top, bottom = np.asarray(tops, np.float64), np.asarray(bottoms, np.float64)
    questions = len(top)
    random = np.random.default_rng(0)
    with np.errstate(invalid="ignore", divide="ignore"):
        value = top.sum(0) / bottom.sum(0)
        drawn = []
        for _ in range(0, resamples, 100):  # 100 resamples of 5,000 questions are 4 MB of weights
            weights = random.multinomial(questions, np.full(questions, 1 / questions), size=100).astype(np.float64)
            drawn.append((weights @ top) / (weights @ bottom))
        ratios = np.ma.masked_invalid(np.concatenate(drawn))
    low, high = value.copy(), value.copy()
    for point in range(len(value)):
        seen = ratios[:, point].compressed()
        low[point], high[point] = np.quantile(seen, [0.025, 0.975]) if len(seen) else (np.nan, np.nan)
    return value, low, high


def mean_band(values: Sequence[Sequence[float]]) -> Curve:
    """`ratio_band` of means."""
    return ratio_band(values, np.ones_like(np.asarray(values, np.float64)))
