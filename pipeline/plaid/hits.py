"""Ranked passages, and the merging of what several shards found."""

from collections.abc import Sequence

import numpy as np

Hits = tuple[np.ndarray, np.ndarray]
"""pids int64 [n], scores float32 [n]: best first, of equal scores the lower pid first."""


def best(pids: np.ndarray, scores: np.ndarray, k: int) -> Hits:
    """The k best of pids int [n] and scores float [n]; all of them if there are fewer."""
    order = np.lexsort((pids, -scores))[:k]
    return pids[order].astype(np.int64), scores[order].astype(np.float32)


def merge_hits(per_shard: Sequence[Sequence[Hits]], k: int) -> list[Hits]:
    """What each shard found for each query, [shard][query] -> the k best for each query over all shards."""
    return [
        best(np.concatenate([pids for pids, _ in found]), np.concatenate([scores for _, scores in found]), k)
        for found in zip(*per_shard, strict=True)
    ]
