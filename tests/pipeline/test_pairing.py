"""Pairings against brute force over all permutations."""

from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.pairing import pairing


def descending(scores: list[float]) -> np.ndarray:
    return np.sort(np.array(scores))[::-1]


@st.composite
def two_lists(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray]:
    size = draw(st.integers(1, 6))
    one = st.lists(st.floats(0.01, 1.0), min_size=size, max_size=size)
    return descending(draw(one)), descending(draw(one))


def everyone(size: int) -> list[list[int]]:
    return [list(order) for order in permutations(range(size))]


@given(two_lists())
def test_rank_is_best_and_reversed_worst_under_the_sum_of_products(lists: tuple[np.ndarray, np.ndarray]) -> None:
    b, c = lists
    values = [float(b @ c[order]) for order in everyone(len(b))]
    assert float(b @ c[pairing("rank", len(b))]) == pytest.approx(max(values), rel=1e-12)
    assert float(b @ c[pairing("reversed", len(b))]) == pytest.approx(min(values), rel=1e-12)


@given(two_lists())
def test_every_permutation_ties_under_the_log_sum(lists: tuple[np.ndarray, np.ndarray]) -> None:
    b, c = np.log(lists[0]), np.log(lists[1])
    values = [float((b + c[order]).sum()) for order in everyone(len(b))]
    assert values == pytest.approx([values[0]] * len(values), rel=1e-9, abs=1e-9)


@settings(deadline=None)  # scipy loads in the first call
@given(st.integers(1, 5).flatmap(lambda n: st.lists(st.floats(-9, 0), min_size=n * n, max_size=n * n)))
def test_hungarian_is_the_best_of_all_permutations(values: list[float]) -> None:
    size = int(len(values) ** 0.5)
    joint = np.array(values).reshape(size, size)
    best = max(float(joint[range(size), order].sum()) for order in everyone(size))
    found = pairing("hungarian", size, joint=joint)
    assert sorted(found) == list(range(size))
    assert float(joint[range(size), found].sum()) == pytest.approx(best, abs=1e-9)


@settings(deadline=None)
@given(two_lists())
def test_hungarian_on_products_is_as_good_as_rank(lists: tuple[np.ndarray, np.ndarray]) -> None:
    b, c = lists
    found = pairing("hungarian", len(b), joint=np.outer(b, c))
    assert float(b @ c[found]) == pytest.approx(float(b @ c), rel=1e-9)


@given(st.integers(0, 12), st.integers(0, 2**32 - 1))
def test_random_is_a_permutation_that_its_seed_decides(size: int, seed: int) -> None:
    found = pairing("random", size, seed)
    assert sorted(found) == list(range(size))
    assert pairing("random", size, seed) == found


def test_random_is_not_always_the_same() -> None:
    assert len({tuple(pairing("random", 4, seed)) for seed in range(200)}) == 24


def test_nothing_to_pair() -> None:
    assert [pairing(how, 0) for how in ("rank", "reversed", "random")] == [[], [], []]
    assert pairing("hungarian", 0, joint=np.zeros((0, 0))) == []


def test_hungarian_wants_a_square_of_joint_scores() -> None:
    with pytest.raises(ValueError, match=r"hungarian pairing of 2 wants joint scores \[2, 2\]"):
        pairing("hungarian", 2, joint=np.zeros((2, 3)))
