"""k-means finds clusters, uses every centroid, and repeats itself."""

import numpy as np
import pytest

from pipeline.plaid.kmeans import kmeans
from tests.pipeline.plaid.clusters import unit_vectors


def run(vectors: np.ndarray, partitions: int, seed: int = 0, iterations: int = 4) -> np.ndarray:
    return kmeans(vectors, partitions, iterations, np.random.default_rng(seed))


def test_as_near_as_faiss() -> None:
    import faiss

    vectors = unit_vectors(4000, centres=2000)
    theirs = faiss.Kmeans(64, 64, niter=4, seed=0)
    theirs.train(vectors)

    def error(centroids: np.ndarray) -> float:
        return float(((vectors[:, None] - centroids[None]) ** 2).sum(axis=2).min(axis=1).mean())

    assert error(run(vectors, 64)) == pytest.approx(error(theirs.centroids), rel=0.03)


def test_centroids_are_means_of_what_is_nearest() -> None:
    vectors = np.concatenate([np.full((5, 8), 1.0), np.full((7, 8), 4.0)]).astype(np.float32)
    vectors[:, 0] += np.arange(12)
    centroids = run(vectors, 2, iterations=10)
    np.testing.assert_allclose(sorted(centroids[:, 1]), [1, 4])


def test_repeatable_and_seeded() -> None:
    vectors = unit_vectors(2000)
    np.testing.assert_array_equal(run(vectors, 32), run(vectors, 32))
    assert not np.array_equal(run(vectors, 32), run(vectors, 32, seed=1))


def test_as_many_centroids_as_vectors_and_copies() -> None:
    vectors = unit_vectors(20)
    found = run(vectors, 20)
    np.testing.assert_allclose(found[np.lexsort(found.T)], vectors[np.lexsort(vectors.T)], atol=1e-6)
    np.testing.assert_allclose(
        run(np.repeat(vectors[:1], 50, axis=0), 16), np.repeat(vectors[:1], 16, axis=0), atol=1e-6
    )
