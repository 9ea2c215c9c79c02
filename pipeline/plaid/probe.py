"""Batches of queries, and their scores against the centroids: shared by all shards of an index."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from pipeline.plaid.codec import Codec
from pipeline.plaid.settings import SearchSettings

_SCORE_BYTES = 1 << 28  # of the table tokens x centroids of one batch
# A matrix product gives a row the same bits in any batch only if the rows come in whole tiles.
_TILE = 16


@dataclass(frozen=True)
class QueryBatch:
    """Token vectors of several queries, one query after another, T in all.

    token_start int64 [queries + 1, 2]: query q has the tokens token_start[q, 0]:token_start[q + 1, 0]. They lie from
    row token_start[q, 1] of `rows`, float32 [rows, dim], where zeros fill each query up to whole tiles.
    """

    rows: np.ndarray
    token_start: np.ndarray

    def __len__(self) -> int:
        return len(self.token_start) - 1


def batches(queries: Sequence[np.ndarray], codec: Codec) -> Iterator[QueryBatch]:
    """Queries, in order, in batches whose table of centroid scores stays within a fixed memory.

    Raises ValueError for a query without tokens, of another dimension, or with values that are not finite.
    """
    most = max(1, _SCORE_BYTES // (4 * codec.num_centroids))
    held: list[np.ndarray] = []
    rows = 0
    for number, query in enumerate(queries):
        vectors = np.ascontiguousarray(query, np.float32)
        if vectors.ndim != 2 or not len(vectors) or vectors.shape[1] != codec.dim:
            raise ValueError(f"query {number} has shape {vectors.shape}; expected (1 or more, {codec.dim})")
        if not np.isfinite(vectors).all():
            raise ValueError(f"query {number} holds NaN or infinity")
        if held and rows + _padded(len(vectors)) > most:
            yield _batch(held)
            held, rows = [], 0
        held.append(vectors)
        rows += _padded(len(vectors))
    if held:
        yield _batch(held)


def _batch(queries: list[np.ndarray]) -> QueryBatch:
    lengths = np.array([(len(query), _padded(len(query))) for query in queries], np.int64)
    token_start = np.concatenate((np.zeros((1, 2), np.int64), np.cumsum(lengths, axis=0)))
    rows = np.zeros((token_start[-1, 1], queries[0].shape[1]), np.float32)
    for query, row in zip(queries, token_start[:-1, 1], strict=True):
        rows[row : row + len(query)] = query
    return QueryBatch(rows, token_start)


def _padded(length: int) -> int:
    return -(-length // _TILE) * _TILE


@dataclass(frozen=True)
class Probe:
    """What a batch of queries finds among the centroids (PLAID, sections 4.1 and 4.2).

    cells int32 [T, ncells], the nearest centroids of each token; keep bool [queries, K], the centroids that reach the
    threshold for some token; by_centroid float32 [T * K]: query q's block is [K, tokens of q].
    """

    cells: np.ndarray
    keep: np.ndarray
    by_centroid: np.ndarray

    @classmethod
    def of(cls, batch: QueryBatch, codec: Codec, settings: SearchSettings) -> "Probe":
        """Score all tokens against all centroids, in one matrix product. The caller holds KERNEL_LOCK."""
        import torch

        from pipeline.plaid.kernels import probe

        by_token = (torch.from_numpy(batch.rows) @ torch.from_numpy(codec.centroids).T).numpy()
        ncells = min(settings.ncells, codec.num_centroids)
        tokens = int(batch.token_start[-1, 0])
        cells = np.empty((tokens, ncells), np.int32)
        keep = np.zeros((len(batch), codec.num_centroids), np.bool_)
        by_centroid = np.empty(tokens * codec.num_centroids, np.float32)
        threshold = np.float32(settings.centroid_score_threshold)
        probe(by_token, batch.token_start, threshold, cells, keep, by_centroid)
        return cls(cells, keep, by_centroid)
