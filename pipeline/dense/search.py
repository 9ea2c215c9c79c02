"""Dense search of shards: the passages whose vectors have the largest cosine with a query's.

A score is the dot product of the query's unit vector with the passage's, which was rounded to float16 (cosine to about
1e-4). It is summed in float64 row by row, so that it depends neither on the other queries of a batch nor on the shard:
matrix products, which do in their last bits, and faiss only propose candidates.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from pipeline.dense.faiss_index import FaissIndex, check_settings
from pipeline.plaid.hits import Hits, best, merge_hits

BLOCK = 16_384  # passages multiplied at a time
SLACK = np.float32(1e-4)  # more than a float32 product of unit vectors can be wrong by


class DenseShard:
    """One shard's vectors, mapped into memory. `pid_offset` is added to the shard's passage numbers.

    `kind`: the index's `dense.index`.
    """

    def __init__(self, folder: Path, kind: str = "exact", pid_offset: int = 0) -> None:
        self._vectors = np.load(folder / "vectors.npy", mmap_mode="r")
        self._offset, self._kind = pid_offset, kind
        self._faiss = FaissIndex(folder / "faiss.index", kind) if kind != "exact" and len(self._vectors) else None

    def search(self, queries: np.ndarray, k: int, settings: dict[str, Any]) -> list[Hits]:
        """Per query of float32 [Q, dim] the k best passages; fewer where the shard or faiss has fewer."""
        check_settings(self._kind, settings)
        found = self._nearest(queries, k) if self._faiss is None else self._faiss.candidates(queries, k, settings)
        pairs = zip(queries, found, strict=True)
        return [best(numbers + self._offset, self._cosines(query, numbers), k) for query, numbers in pairs]

    def _nearest(self, queries: np.ndarray, k: int) -> list[np.ndarray]:
        """Per query the numbers of the k best by matrix product, and of all that may be as good as the k-th."""
        numbers = [np.empty(0, np.int64) for _ in queries]
        products = [np.empty(0, np.float32) for _ in queries]
        for start in range(0, len(self._vectors), BLOCK):
            block = queries @ np.asarray(self._vectors[start : start + BLOCK], np.float32).T
            for row, product in enumerate(block):
                merged = np.concatenate([products[row], product])
                held = np.concatenate([numbers[row], np.arange(start, start + len(product))])
                if len(merged) > k:
                    stays = merged >= np.partition(merged, len(merged) - k)[len(merged) - k] - SLACK
                    merged, held = merged[stays], held[stays]
                numbers[row], products[row] = held, merged
        return numbers

    def _cosines(self, query: np.ndarray, numbers: np.ndarray) -> np.ndarray:
        """float32 [n]"""
        return (self._vectors[numbers].astype(np.float64) * query).sum(axis=1).astype(np.float32)


def search_dense(shards: Sequence[DenseShard], queries: np.ndarray, k: int, settings: dict[str, Any]) -> list[Hits]:
    """The k best passages of each query over shards: (cosine descending, pid ascending), what one index would give.

    With faiss's `ivf` and `hnsw` each shard proposes its own candidates: more shards, more of them.
    """
    if k < 1:
        raise ValueError(f"k is {k}; a search returns at least one passage")
    return merge_hits([shard.search(queries, k, settings) for shard in shards], k)
