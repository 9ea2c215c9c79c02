import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binomtest

from pipeline.scoring.intervals import bootstrap_interval, mean_interval, wilson_interval


@pytest.mark.parametrize(
    ("successes", "n", "low", "high"),
    # The three intervals published for 11 of 12, 6 of 6 and 12 of 12, and none of 12 by symmetry.
    [(11, 12, 0.646, 0.985), (6, 6, 0.610, 1.0), (12, 12, 0.757, 1.0), (0, 12, 0.0, 0.243), (29, 30, 0.833, 0.994)],
)
def test_wilson_known_values(successes: int, n: int, low: float, high: float) -> None:
    assert wilson_interval(successes, n) == pytest.approx((low, high), abs=0.0006)


@settings(deadline=None)  # the first call imports scipy.stats
@given(
    st.integers(1, 500).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))), st.sampled_from([0.8, 0.95, 0.99])
)
def test_wilson_is_scipys(counts: tuple[int, int], confidence: float) -> None:
    expected = binomtest(*counts).proportion_ci(confidence, method="wilson")
    assert wilson_interval(*counts, confidence) == pytest.approx((expected.low, expected.high), abs=1e-12)


def test_wilson_of_nothing_and_of_nonsense() -> None:
    assert wilson_interval(0, 0) is None
    for successes, n in [(3, 2), (-1, 2), (1, 0)]:
        with pytest.raises(ValueError, match="successes of"):
            wilson_interval(successes, n)


def test_bootstrap_is_near_the_normal_interval_and_repeatable() -> None:
    values = np.random.default_rng(1).random(400).tolist()
    low, high = bootstrap_interval(values) or (0, 0)
    half = 1.96 * np.std(values) / 20
    assert (low, high) == pytest.approx((np.mean(values) - half, np.mean(values) + half), abs=0.003)
    assert bootstrap_interval(values) == (low, high)
    assert bootstrap_interval(values, seed=1) != (low, high)
    narrow = bootstrap_interval(values, confidence=0.5)
    assert narrow is not None
    assert low < narrow[0] < narrow[1] < high


def test_bootstrap_of_two_values_by_hand() -> None:
    # Means of resamples of {0, 1}: 0, .5, 1 with probabilities 1/4, 1/2, 1/4, so 95% spans all of them.
    assert bootstrap_interval([0.0, 1.0]) == (0.0, 1.0)


@pytest.mark.parametrize("values", [[0.0] * 30, [1.0, 1.0], [0.1] * 7])
def test_bootstrap_of_equal_values_has_no_width(values: list[float]) -> None:
    assert bootstrap_interval(values) == (values[0], values[0])


def test_bootstrap_needs_two_finite_values() -> None:
    assert bootstrap_interval([]) is None
    assert bootstrap_interval([0.3]) is None
    with pytest.raises(ValueError, match="NaN"):
        bootstrap_interval([0.1, float("nan")])


@pytest.mark.parametrize("metric", ["EM", "containment", "Success@5", "passage Success@20", "failed", "abstained"])
def test_the_interval_of_a_share_is_wilsons(metric: str) -> None:
    assert mean_interval(metric, [0.0] * 12) == (wilson_interval(0, 12), "95% Wilson for shares of questions")
    assert mean_interval(metric, [1.0])[0] == wilson_interval(1, 1)
    assert mean_interval(metric, [])[0] is None


@pytest.mark.parametrize("metric", ["F1", "nDCG@10", "correctness (local judge)", "answer words", "passage RR"])
def test_the_interval_of_any_other_mean_is_the_bootstraps_whatever_its_values(metric: str) -> None:
    for values in ([0.0, 0.5, 1.0, 1.0], [0.0, 1.0, 1.0], [0.0] * 9):
        interval, method = mean_interval(metric, values, 0.9, 500, 3)
        assert interval == bootstrap_interval(values, 0.9, 500, 3)
        assert method == "90% expanded percentile bootstrap of the mean (500 resamples, seed 3)"
    assert mean_interval(metric, []) == (None, "95% expanded percentile bootstrap of the mean (2000 resamples, seed 0)")
