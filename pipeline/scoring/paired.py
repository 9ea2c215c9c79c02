"""Two runs on the same questions: is the difference more than chance, and how large is it.

The interval of the mean difference is the bootstrap of `intervals.py` over questions (pairs stay together). p is
two-sided: exact McNemar for shares (McNemar 1947: the questions on which only one of the two succeeds, against a fair
coin), else the sign-flip randomization test of the mean difference (Fisher 1935; Smucker et al., CIKM 2007).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pipeline.scoring.intervals import bootstrap_interval

RESAMPLES = 9999  # of the randomization test at least: no p below 2 / 10,000


def resamples_for(tests: int) -> int:
    """Of the randomization test, in a family of so many: the smallest p is low enough for Holm's first step at .05."""
    return max(RESAMPLES, 40 * tests)


@dataclass(frozen=True)
class Difference:
    """Second minus first, over n questions."""

    n: int
    mean: float
    low: float | None  # None for one question
    high: float | None
    effect: float | None  # mean / standard deviation of the differences (Cohen's d for pairs); None where all are alike
    wins: int  # questions on which the second is higher
    ties: int
    losses: int
    p: float
    test: str


def compare(
    first: Sequence[float],
    second: Sequence[float],
    share: bool = False,
    confidence: float = 0.95,
    resamples: int = 2000,
    seed: int = 0,
    flips: int = RESAMPLES,
) -> Difference:
    """The paired comparison of two runs' values, question by question. `share`: they are 0 or 1 by definition; `flips`:
    resamples of the randomization test. Raises ValueError for lengths that differ, no values at all, or values that are
    not finite."""
    a, b = np.asarray(first, np.float64), np.asarray(second, np.float64)
    if a.shape != b.shape or a.ndim != 1 or a.size == 0:
        raise ValueError(f"compare: {a.size} and {b.size} values; a pair for each question is wanted")
    differences = b - a
    low, high = bootstrap_interval(differences.tolist(), confidence, resamples, seed) or (None, None)
    spread = float(np.std(differences, ddof=1)) if a.size > 1 else 0.0
    wins, losses = int((differences > 0).sum()), int((differences < 0).sum())
    return Difference(
        n=a.size,
        mean=float(differences.mean()),
        low=low,
        high=high,
        effect=float(differences.mean()) / spread if spread else None,
        wins=wins,
        ties=a.size - wins - losses,
        losses=losses,
        p=mcnemar(wins, losses) if share else sign_flip(differences, seed, flips),
        test="exact McNemar" if share else f"sign-flip randomization ({flips} resamples, seed {seed})",
    )


def mcnemar(wins: int, losses: int) -> float:
    """Two-sided exact p that discordant pairs fall this unevenly; 1 where there are none."""
    from scipy.stats import binomtest

    return float(binomtest(wins, wins + losses, 0.5).pvalue) if wins + losses else 1.0


def sign_flip(differences: np.ndarray, seed: int = 0, flips: int = RESAMPLES) -> float:
    """Two-sided p of the mean of paired differences when each could as well have had the other sign.

    Exact where all sign patterns are fewer than the resamples. Zeros carry no sign and are left out of the flipping.
    """
    moved = differences[differences != 0]
    if moved.size < 2:
        return 1.0
    from scipy.stats import permutation_test

    result = permutation_test(
        (moved,),
        np.mean,
        permutation_type="samples",
        n_resamples=flips,
        batch=max(1, 2_000_000 // moved.size),
        rng=np.random.default_rng(seed),
        axis=-1,
        vectorized=True,
    )
    return min(1.0, float(result.pvalue))


def holm(p_values: Sequence[float]) -> list[float]:
    """The p values of a family adjusted by Holm's step-down method (Holm 1979), in the order given."""
    order = sorted(range(len(p_values)), key=lambda n: p_values[n])
    adjusted, largest = [0.0] * len(p_values), 0.0
    for place, n in enumerate(order):
        largest = max(largest, min(1.0, (len(p_values) - place) * p_values[n]))
        adjusted[n] = largest
    return adjusted
