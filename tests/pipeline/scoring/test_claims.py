"""LiveRAG's claims metrics against numbers worked by hand, every branch."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.scoring.claims import (
    SCALINGS,
    Relation,
    best_relation,
    correctness,
    coverage,
    faithfulness,
    relatedness,
)

RELATIONS = st.lists(st.sampled_from([1, 0, -1]), max_size=5)


@pytest.mark.parametrize(
    ("direct", "useful", "expected"),
    [
        ([1, 0], [1, 1, 0, 0], 0.7 * 0.5 + 0.3 * 0.5),
        ([1, 1, -1], [0], 0.7 / 3),
        ([1, 0], [], 0.5),  # no useful claims: alpha = 1
        ([], [1, 0, 0], 1 / 3),  # no direct claims: alpha = 0
        ([-1], [-1], -1.0),
        ([], [], None),
        ([1, None], [1], None),
        ([1], [None], None),
        ([None], [], None),
    ],
)
def test_coverage(direct: list[Relation | None], useful: list[Relation | None], expected: float | None) -> None:
    assert coverage(direct, useful) == (None if expected is None else pytest.approx(expected))


def test_alpha_is_a_setting() -> None:
    assert coverage([1], [0], alpha=0.4) == pytest.approx(0.4)


@pytest.mark.parametrize(("direct", "useless", "expected"), [(3, 1, 0.75), (0, 2, 0), (2, 0, 1), (0, 0, 0)])
def test_relatedness(direct: int, useless: int, expected: float) -> None:
    assert relatedness(direct, useless) == expected


@pytest.mark.parametrize(
    ("cover", "related", "signed", "linear", "none"),
    [
        (1, 1, 2, 2, 1),
        (0.5, 1, 4 / 3, 1.5, 2 / 3),
        (0.5, 0.25, 2 / 3, 1, 1 / 3),
        (0.5, 0, 0, 0.5, 0),
        (0, 1, 0, 0.5, 0),
        (0, 0, 0, 0.5, 0),
        (-0.4, 1, -0.4, -0.1, -0.4),
        (-1, 0, -1, -1, -1),
    ],
)
def test_correctness(cover: float, related: float, signed: float, linear: float, none: float) -> None:
    values = [correctness(cover, related, scaling) for scaling in SCALINGS]
    assert values == pytest.approx([signed, linear, none])


@pytest.mark.parametrize(
    ("relations", "best"),
    [([0, 1, -1], 1), ([0, -1], 0), ([-1, -1], -1), ([], 0), ([1, None], 1), ([0, None], None), ([None], None)],
)
def test_best_relation(relations: list[Relation | None], best: Relation | None) -> None:
    assert best_relation(relations) == best


def test_faithfulness() -> None:
    assert faithfulness([[0, 1], [-1, 0], [-1, -1]]) == pytest.approx((1 + 0 - 1) / 3)
    assert faithfulness([[1, None], [0, 0]]) == 0.5
    assert faithfulness([[0, None], [1, 1]]) is None
    assert faithfulness([[]]) == 0
    assert faithfulness([]) == 0


@given(RELATIONS, RELATIONS, st.integers(0, 5), st.integers(0, 5))
def test_ranges_and_order(direct: list[Relation], useful: list[Relation], said: int, useless: int) -> None:
    cover, related = coverage(direct, useful), relatedness(said, useless)
    assert 0 <= related <= 1
    if cover is None:
        return
    assert -1 <= cover <= 1
    assert -1 <= correctness(cover, related) <= 2
    assert -1 <= correctness(cover, related, "linear") <= 2
    assert correctness(cover, 1.0) >= correctness(cover, related) - 1e-12
