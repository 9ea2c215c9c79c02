"""Token vectors as the tests of the PLAID core need them: unit vectors around a few centres, in passages."""

import numpy as np


def clustered(
    passages: int, dim: int = 64, centres: int = 40, seed: int = 0, longest: int = 40
) -> tuple[np.ndarray, np.ndarray]:
    """vectors float32 [sum of doclens, dim] of length 1, doclens int32 [passages] between 1 and `longest`."""
    rng = np.random.default_rng(seed)
    doclens = rng.integers(1, longest + 1, passages).astype(np.int32)
    return unit_vectors(int(doclens.sum()), dim, centres, seed), doclens


def unit_vectors(n: int, dim: int = 64, centres: int = 40, seed: int = 0) -> np.ndarray:
    """float32 [n, dim]; the centres are the same for every seed."""
    middle = np.random.default_rng(1234).normal(size=(centres, dim))
    rng = np.random.default_rng(seed)
    vectors = middle[rng.integers(0, centres, n)] + 0.6 * rng.normal(size=(n, dim))
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)


def max_sim(query: np.ndarray, vectors: np.ndarray, doclens: np.ndarray) -> np.ndarray:
    """Exact MaxSim of a query [len, dim] with every passage, float [passages], a token's maximum starting at 0."""
    ends = np.cumsum(doclens)
    spans = zip(ends - doclens, ends, strict=True)
    return np.array([(vectors[a:b] @ query.T).max(axis=0, initial=0).sum() for a, b in spans])
