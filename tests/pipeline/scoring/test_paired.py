"""Paired statistics: against scipy and by hand, and at their stated rates on planted and null effects."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import wilcoxon

from pipeline.scoring.compare import compare_runs
from pipeline.scoring.intervals import bootstrap_interval
from pipeline.scoring.paired import compare, holm, mcnemar, resamples_for, sign_flip


def test_mcnemar_by_hand() -> None:
    # 1 win and 5 losses: 2 x (1 + 6) / 2^6.
    assert mcnemar(1, 5) == pytest.approx(14 / 64)
    assert mcnemar(0, 0) == 1
    found = compare([0, 1, 1, 1, 1, 1, 1], [1, 0, 0, 0, 0, 0, 1], share=True)
    assert (found.wins, found.ties, found.losses, found.test) == (1, 1, 5, "exact McNemar")
    assert found.p == pytest.approx(14 / 64)


def test_sign_flip_by_hand() -> None:
    # |mean| of 3 differences 1, 2, 3: only all + and all - reach 6, of 8 patterns.
    assert sign_flip(np.array([1.0, 2.0, 3.0])) == pytest.approx(2 / 8)
    assert sign_flip(np.array([1.0, 2.0, 3.0, 0.0])) == pytest.approx(2 / 8)
    assert sign_flip(np.zeros(4)) == 1


def test_effect_size_by_hand() -> None:
    found = compare([0.1, 0.2, 0.3], [0.2, 0.4, 0.6])  # differences .1, .2, .3
    assert found.mean == pytest.approx(0.2)
    assert found.effect == pytest.approx(0.2 / 0.1)
    assert compare([0.5, 0.5], [0.5, 0.5]).effect is None
    single = compare([0.5], [0.7])
    assert (single.low, single.high, single.effect, single.p) == (None, None, None, 1)


def test_the_order_of_pairs_matters() -> None:
    first, second = np.arange(20) / 20, np.arange(20) / 20 + 0.01
    paired, unpaired = compare(first, second), compare(first, second[::-1])
    assert paired.p < 0.001
    assert unpaired.p > 0.5


def test_bad_input() -> None:
    for first, second in ([1.0], [1.0, 2.0]), ([], []):
        with pytest.raises(ValueError, match="a pair for each question"):
            compare(first, second)
    with pytest.raises(ValueError, match="NaN"):
        compare([0.1, 0.2], [0.1, float("nan")])


def test_holm_by_hand() -> None:
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.6, 0.9]) == [1.0, 1.0]
    assert holm([]) == []


@given(st.lists(st.floats(0, 1), max_size=8))
def test_holm_laws(p_values: list[float]) -> None:
    adjusted = holm(p_values)
    assert all(raw <= new <= 1 for raw, new in zip(p_values, adjusted, strict=True))
    order = sorted(range(len(p_values)), key=p_values.__getitem__)
    assert [adjusted[n] for n in order] == sorted(adjusted)
    assert not p_values or min(adjusted) == min(1, len(p_values) * min(p_values))


@settings(deadline=None, max_examples=20)
@given(st.lists(st.floats(-1, 1).map(lambda value: round(value, 2)), min_size=2, max_size=9))
def test_compare_is_symmetric(differences: list[float]) -> None:
    zeros = [0.0] * len(differences)
    there, back = compare(zeros, differences), compare(differences, zeros)
    assert (there.wins, there.losses, there.p) == (back.losses, back.wins, pytest.approx(back.p))
    assert there.mean == -back.mean


@pytest.mark.parametrize(("n", "least"), [(8, 0.91), (12, 0.92), (24, 0.92), (100, 0.92)])
def test_bootstrap_covers_the_true_mean_as_often_as_it_says(n: int, least: float) -> None:
    """95% intervals of skewed values in [0, 1] (like F1): 400 simulations, the truth inside in 95% +- 3 points; at n =
    8, where values are often nearly alike, 4."""
    random = np.random.default_rng(5)
    truth = 0.3 / (0.3 + 0.6)
    inside = 0
    for _ in range(400):
        low, high = bootstrap_interval(random.beta(0.3, 0.6, n).tolist(), resamples=500) or (0, 0)
        inside += low <= truth <= high
    assert least <= inside / 400 <= 0.98


@pytest.mark.parametrize("binary", [True, False])
def test_a_planted_effect_is_found_and_a_null_effect_is_not(binary: bool) -> None:
    """At alpha .05, 100 simulations of 80 questions: nulls are rejected in 5% (+ 5 points of chance); the planted
    effects in over 80% (of the one in means, a z test with .1 / (.283 / sqrt 80) has a power of 88%)."""
    random = np.random.default_rng(7)
    rejected = {"null": 0, "planted": 0}
    runs = 100
    for _ in range(runs):
        hard = random.random(80)
        for name, gain in {"null": 0.0, "planted": 0.25 if binary else 0.1}.items():
            first = hard + random.normal(0, 0.2, 80)
            second = hard + gain + random.normal(0, 0.2, 80)
            if binary:
                first, second = (first > 0.5).astype(float), (second > 0.5).astype(float)
            rejected[name] += compare(first, second, binary, resamples=20).p < 0.05
    assert rejected["null"] / runs <= 0.1
    assert rejected["planted"] / runs >= 0.8


def test_a_family_of_null_effects_is_seldom_rejected_and_a_planted_one_is_found() -> None:
    """Through Holm: 60 families of 3 runs x 2 metrics, 40 questions. Any false rejection in 5% (+ 7 points of chance);
    the planted effect (.6 of a standard deviation, alone a power of 96%) in over 70% of its families."""
    random = np.random.default_rng(11)
    false = found = 0
    for _ in range(60):
        hard = random.random(40)
        runs = {}
        for name, gain in {"base": 0.0, "null": 0.0, "planted": 0.17, "other": 0.0}.items():
            values = hard + gain + random.normal(0, 0.2, 40)
            rows = {"id": [str(n) for n in range(40)], "F1": values, "EM": (values > 0.5).astype(float)}
            runs[name] = pa.table({**rows, "error": pa.nulls(40)})
        lines = compare_runs(runs, "base", ["F1", "EM"], resamples=20).to_pylist()
        false += any(line["p_holm"] < 0.05 for line in lines if line["run"] != "planted")
        found += any(line["p_holm"] < 0.05 for line in lines if line["run"] == "planted")
    assert false / 60 <= 0.12
    assert found / 60 >= 0.7


def test_a_large_family_can_still_be_rejected() -> None:
    assert sign_flip(np.ones(40)) == pytest.approx(2 / 10_000)
    for tests in (6, 249, 250, 2_000):
        smallest = 2 / (resamples_for(tests) + 1)
        assert holm([smallest, *[1.0] * (tests - 1)])[0] < 0.05


def test_randomization_is_near_the_signed_rank_test() -> None:
    differences = np.random.default_rng(3).normal(0.05, 0.2, 60)
    assert sign_flip(differences) == pytest.approx(wilcoxon(differences).pvalue, abs=0.1)
