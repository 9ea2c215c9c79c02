"""Training of PLAID's codec on a sample of token vectors: k-means, then one-dimensional buckets of the residuals."""

import math
from typing import Literal

import numpy as np

from pipeline.plaid.assign import make_cells
from pipeline.plaid.codec import Codec, check_nbits
from pipeline.plaid.kmeans import kmeans

BucketRecipe = Literal["lloyd-max", "quantile"]
Assignment = Literal["auto", "exact", "coarse"]
COARSE_FROM = 65_536  # centroids from which "auto" assigns vectors by cells of centroids
_HELD_OUT = 50_000  # vectors at most whose residuals are looked at, as in colbert-ai
_RESIDUAL_VALUES = 1 << 22  # values at most that the buckets are fitted to
_FEW = 4_000  # a sample this small is (nearly) all there is to compress: nothing is held out
_VECTORS_PER_CENTROID = 4  # at least, so that a tiny collection does not get a centroid for every vector


def num_partitions(num_embeddings: int, sample_size: int, max_partitions: int | None = None) -> int:
    """Centroids for a collection: 2^floor(log2(16 sqrt(embeddings))), less where the sample cannot support as many."""
    wanted = 16 * math.sqrt(max(1, num_embeddings))
    limit = max(1, sample_size // _VECTORS_PER_CENTROID)
    if max_partitions is not None:
        limit = min(limit, max_partitions)
    return int(2 ** math.floor(math.log2(min(wanted, limit))))


def train_codec(
    sample: np.ndarray,
    num_embeddings_est: int,
    nbits: int,
    kmeans_iterations: int = 4,
    seed: int = 0,
    bucket_recipe: BucketRecipe = "lloyd-max",
    max_partitions: int | None = None,
    renormalise: bool = True,
    assignment: Assignment = "auto",
    device: str = "cpu",
) -> Codec:
    """Fit a codec to sample float32 [S, dim], S >= 1, for a collection of about `num_embeddings_est` vectors.

    5% of a large sample, 50,000 vectors at most, are held out of k-means for the residuals. To need no second copy of
    the sample, they are swapped to its end in place. Raises InputError for nbits that do not fit, ValueError for an
    empty sample.
    """
    sample = np.require(sample, np.float32, ["C", "W"])
    if sample.ndim != 2 or not len(sample):
        raise ValueError(f"a codec needs at least one vector to train on; the sample has shape {sample.shape}")
    check_nbits(sample.shape[1], nbits)
    rng = np.random.default_rng(seed)
    train, held_out = _split(sample, rng)
    partitions = num_partitions(num_embeddings_est, len(train), max_partitions)
    centroids = kmeans(train, partitions, kmeans_iterations, rng, device)
    centroids /= np.maximum(np.linalg.norm(centroids, axis=1, keepdims=True), 1e-12)  # as colbert-ai does
    wanted = assignment == "coarse" or (assignment == "auto" and partitions >= COARSE_FROM)
    cells = make_cells(centroids, seed, device) if wanted else None
    # A codec without buckets yet, for its nearest centroids; the centroids are rounded as they will be stored.
    bare = Codec(centroids, np.zeros(2**nbits - 1), np.zeros(2**nbits), 0.0, renormalise, cells)
    residuals = (held_out - bare.centroids[bare.nearest(held_out, device)]).ravel()
    average = float(np.abs(residuals).mean(dtype=np.float64))
    if len(residuals) > _RESIDUAL_VALUES:
        residuals = residuals[rng.integers(0, len(residuals), _RESIDUAL_VALUES)]
    cutoffs, weights = lloyd_max(residuals, nbits) if bucket_recipe == "lloyd-max" else quantile(residuals, nbits)
    return Codec(centroids, cutoffs, weights, average, renormalise, cells)


def quantile(residuals: np.ndarray, nbits: int) -> tuple[np.ndarray, np.ndarray]:
    """colbert-ai's buckets of equal shares: cut-offs [2^nbits - 1], and the medians between as weights [2^nbits]."""
    shares = np.arange(2**nbits) / 2**nbits
    return np.quantile(residuals, shares[1:]), np.quantile(residuals, shares + 0.5 / 2**nbits)


def lloyd_max(residuals: np.ndarray, nbits: int, rounds: int = 40) -> tuple[np.ndarray, np.ndarray]:
    """Buckets of least squared error (Lloyd 1982; Max 1960): k-means in one dimension, started at the quantiles.

    Returns cut-offs [2^nbits - 1], midway between neighbours of the weights [2^nbits].
    """
    ordered = np.sort(residuals)
    sums = np.concatenate(([0.0], np.cumsum(ordered, dtype=np.float64)))
    _, weights = quantile(ordered, nbits)
    for _ in range(rounds):
        cutoffs = (weights[1:] + weights[:-1]) / 2
        edges = np.concatenate(([0], np.searchsorted(ordered, cutoffs, side="right"), [len(ordered)]))
        counts = np.diff(edges)
        means = np.diff(sums[edges]) / np.maximum(counts, 1)
        weights = np.sort(np.where(counts > 0, means, weights))
    return (weights[1:] + weights[:-1]) / 2, weights


def _split(sample: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Views of the sample: what k-means sees, and what is held out (the same rows when there are few)."""
    if len(sample) <= _FEW:
        return sample, sample
    held_out = min(len(sample) // 20, _HELD_OUT)
    boundary = len(sample) - held_out
    chosen = rng.choice(len(sample), held_out, replace=False)
    free = np.setdiff1d(np.arange(boundary, len(sample)), chosen)
    inside = np.sort(chosen[chosen < boundary])
    sample[inside], sample[free] = sample[free], sample[inside]
    return sample[:boundary], sample[boundary:]
