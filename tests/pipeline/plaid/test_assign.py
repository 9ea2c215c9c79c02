"""Nearest centroids by cells: nearly always the same as among all, wherever and however they are computed."""

from pathlib import Path

import numpy as np
import pytest
import torch

from pipeline.plaid import assign
from pipeline.plaid.assign import Assigner, Found, make_cells, top_two
from pipeline.plaid.codec import Codec
from pipeline.plaid.train_codec import train_codec
from tests.pipeline.plaid.clusters import unit_vectors

CENTROIDS = unit_vectors(2048, seed=1)
VECTORS = unit_vectors(6000, seed=2)


def nearest(vectors: np.ndarray, centroids: np.ndarray) -> np.ndarray:
    scores = vectors.astype(np.float64) @ centroids.T.astype(np.float64)
    return (scores >= scores.max(axis=1, keepdims=True) - 1e-13).argmax(axis=1)


def test_all_centroids_compared_is_the_nearest(monkeypatch: pytest.MonkeyPatch) -> None:
    np.testing.assert_array_equal(Assigner(CENTROIDS, None)(VECTORS), nearest(VECTORS, CENTROIDS))
    monkeypatch.setattr(assign, "_SCORE_BYTES", 1 << 17)
    np.testing.assert_array_equal(Assigner(CENTROIDS, None)(VECTORS), nearest(VECTORS, CENTROIDS))


def test_cells_agree_with_all_on_99_percent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(assign, "_CENTROIDS_PER_CELL", 16)
    monkeypatch.setattr(assign, "_ROWS_OF_CELLS", 1000)
    cells = make_cells(CENTROIDS, seed=0)
    assert cells.dtype == np.int32
    assert set(cells) == set(range(cells.max() + 1))
    assert 64 < cells.max() < 128
    found, truth = Assigner(CENTROIDS, cells)(VECTORS), nearest(VECTORS, CENTROIDS)
    assert (found == truth).mean() >= 0.99
    wrong = found != truth
    lost = ((CENTROIDS[truth] - CENTROIDS[found]) * VECTORS).sum(axis=1)
    assert lost[wrong].max(initial=0) < 0.1  # what is missed is missed for one nearly as near
    np.testing.assert_array_equal(cells, make_cells(CENTROIDS, seed=0))


def test_every_cell_probed_is_exact_and_ties_go_to_the_first() -> None:
    centroids = np.concatenate([CENTROIDS[:200], CENTROIDS[:200]])
    cells = (np.arange(400) % 7).astype(np.int32)
    found = Assigner(centroids, cells)(VECTORS)
    assert found.max() < 200
    np.testing.assert_array_equal(found, nearest(VECTORS, centroids))


def test_one_cell_one_centroid_no_vector() -> None:
    one = Assigner(CENTROIDS[:1], make_cells(CENTROIDS[:1], 0))
    assert one(VECTORS[:5]).tolist() == [0] * 5
    assert one(VECTORS[:0]).shape == (0,)


def test_merging_on_a_gpu_and_on_a_cpu_are_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a GPU runs is torch's own operations; here they run on a CPU, against the compiled loop."""

    class Elsewhere:
        """Scores that say they are on another device."""

        def __init__(self, scores: torch.Tensor) -> None:
            self.scores, self.device = scores, torch.device("cuda")

    monkeypatch.setattr(assign, "top_two", lambda scores: top_two(scores.scores))
    rng = torch.Generator().manual_seed(0)
    ours, theirs = Found(50, "cpu"), Found(50, "cpu")
    for first, members in ((0, 1), (1, 9), (10, 2)):
        rows = torch.randperm(50, generator=rng)[:30]
        scores = torch.rand(30, members, generator=rng)
        ours.merge(scores, rows, first)
        theirs.merge(Elsewhere(scores), rows, first)  # type: ignore[arg-type]
    torch.testing.assert_close(ours.place, theirs.place)
    torch.testing.assert_close(ours.values, theirs.values)


def test_cells_are_part_of_a_codec_and_not_of_a_shard(tmp_path: Path) -> None:
    sample = unit_vectors(3000)
    exact, auto, coarse = (
        train_codec(sample.copy(), 3000, 2, assignment=assignment) for assignment in ("exact", "auto", "coarse")
    )
    assert exact.cells is None
    assert auto.cells is None  # few centroids
    assert coarse.cells is not None
    np.testing.assert_array_equal(coarse.centroids, exact.centroids)
    coarse.save(tmp_path)
    loaded = Codec.load(tmp_path)
    np.testing.assert_array_equal(loaded.cells, coarse.cells)
    np.testing.assert_array_equal(loaded.compress(sample)[0], coarse.compress(sample)[0])
