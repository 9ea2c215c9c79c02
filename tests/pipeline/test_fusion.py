"""The arithmetic of hybrid retrieval, by hand and by law."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.fusion import Scale, aggregated, rescaled

POOL = st.lists(st.one_of(st.none(), st.floats(0, 50, width=32)), min_size=1, max_size=12)


def test_scales_by_hand() -> None:
    raw = [8.0, None, 2.0, 5.0]
    assert rescaled(raw, "raw") == [8, 0, 2, 5]
    assert rescaled(raw, "max") == [1, 0, 0.25, 0.625]
    assert rescaled(raw, "min_max") == [1, 0, 0, 0.5]
    assert rescaled([3.0, None, 3.0], "min_max") == [1, 0, 1]
    for scale in ("raw", "max", "min_max"):
        assert rescaled([None, None], scale) == [0, 0]  # type: ignore[arg-type]
        assert rescaled([], scale) == []  # type: ignore[arg-type]


def test_aggregations_by_hand() -> None:
    scores = [0.9, 0.6, 0.3]
    assert aggregated(scores, "max", 2) == 0.9
    assert aggregated(scores, "mean_top_k", 2) == pytest.approx(0.75)
    assert aggregated(scores, "mean_top_k", 5) == pytest.approx(0.6)
    assert aggregated(scores, "sum", 2) == pytest.approx(1.8)


@given(POOL, st.sampled_from(["max", "min_max", "raw"]), st.data())
def test_more_bm25_is_never_worth_less(raw: list[float | None], scale: Scale, data: st.DataObject) -> None:
    chosen = data.draw(st.integers(0, len(raw) - 1))
    more = (raw[chosen] or 0.0) + data.draw(st.floats(0, 50, width=32))
    raised = [more if n == chosen else score for n, score in enumerate(raw)]
    assert rescaled(raised, scale)[chosen] >= rescaled(raw, scale)[chosen]


@given(POOL, st.sampled_from(["max", "min_max", "raw"]))
def test_a_scale_keeps_the_order_and_its_bounds(raw: list[float | None], scale: Scale) -> None:
    scaled = rescaled(raw, scale)
    pairs = [(b, s) for b, s in zip(raw, scaled, strict=True) if b is not None]
    assert [s for _, s in sorted(pairs)] == sorted(s for _, s in pairs)
    assert all(s == 0 for b, s in zip(raw, scaled, strict=True) if b is None)
    assert scale == "raw" or all(0 <= s <= 1 for s in scaled)
