"""PLAID search (Santhanam et al. 2022) over stock index folders, as colbert-ai's CPU `IndexScorer` does it.

Query tokens probe their nearest centroids; the passages found there are scored with centroids alone, first without the
weak ones, `ndocs` stay, then with all, a quarter stays; those are scored exactly, on decompressed vectors.
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from pipeline.plaid import kernels
from pipeline.plaid.codec import Codec
from pipeline.plaid.hits import Hits, best, merge_hits
from pipeline.plaid.probe import Probe, QueryBatch, batches
from pipeline.plaid.read_shard import open_shard
from pipeline.plaid.settings import SearchSettings

_TASK_PASSAGES = 256  # scored by one thread at a time


class ShardSearcher:
    """One shard, its files mapped into memory.

    `pid_offset` is added to the shard's own passage numbers. Shards of one index can share one `codec` object, which is
    the only large thing held in memory.
    """

    def __init__(self, folder: Path, pid_offset: int = 0, codec: Codec | None = None) -> None:
        self.codec = codec or Codec.load(folder)
        self.pid_offset = pid_offset
        self._files = open_shard(folder)

    @property
    def num_passages(self) -> int:
        return self._files.num_passages

    def search(self, queries: Sequence[np.ndarray], k: int, settings: SearchSettings | None = None) -> list[Hits]:
        """The k best passages for each query float32 [len, dim]; `SearchSettings.default(k)` unless told otherwise."""
        return search_shards([self], queries, k, settings)

    def rank(self, batch: QueryBatch, probe: Probe | None, k: int, settings: SearchSettings) -> list[Hits]:
        """The k best for each query of a batch. Without a probe, or if k asks for all, no passage is left out."""
        if probe is None or k >= self.num_passages:
            everything = np.arange(self.num_passages, dtype=np.int32)
            pids = np.tile(everything, len(batch))
            start = np.arange(len(batch), dtype=np.int64) * self.num_passages
            count = np.full(len(batch), self.num_passages, np.int64)
        else:
            pids, start, count = self._candidates(batch, probe)
            for size, prune in ((settings.ndocs, True), (settings.ndocs // 4, False)):
                scores = self._approximate(batch, probe, pids, start, count, prune)
                pids, start, count = _select(pids, scores, start, count, size)
        scores = self._exact(batch, pids, start, count)
        return [
            best(pids[at : at + n].astype(np.int64) + self.pid_offset, scores[at : at + n], k)
            for at, n in zip(start, count, strict=True)
        ]

    def _candidates(self, batch: QueryBatch, probe: Probe) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """pids int32 flat, and where each query's are: start and count, int64 [queries]."""
        lengths = np.diff(self._files.ivf_start)[probe.cells].sum(axis=1)
        most = np.add.reduceat(lengths, batch.token_start[:-1, 0])
        start = _starts(np.minimum(most, self.num_passages))
        pids, count = np.empty(start[-1], np.int32), np.empty(len(batch), np.int64)
        files = self._files
        kernels.gather(
            probe.cells, batch.token_start, files.ivf, files.ivf_start, self.num_passages, start, pids, count
        )
        return pids, start[:-1], count

    def _approximate(
        self, batch: QueryBatch, probe: Probe, pids: np.ndarray, start: np.ndarray, count: np.ndarray, prune: bool
    ) -> np.ndarray:
        scores = np.empty(len(pids), np.float32)
        for chunk in self._files.chunks:
            tasks = _tasks(pids, start, count, chunk.first_pid, chunk.num_passages)
            kernels.approximate(
                tasks, pids, chunk.codes, chunk.offsets, chunk.first_pid,
                probe.by_centroid, batch.token_start, probe.keep, prune, scores,
            )  # fmt: skip
        return scores

    def _exact(self, batch: QueryBatch, pids: np.ndarray, start: np.ndarray, count: np.ndarray) -> np.ndarray:
        scores = np.empty(len(pids), np.float32)
        for chunk in self._files.chunks:
            tasks = _tasks(pids, start, count, chunk.first_pid, chunk.num_passages)
            kernels.exact(
                tasks, pids, chunk.codes, chunk.residuals, chunk.offsets, chunk.first_pid, self.codec.centroids,
                self.codec.byte_weights, batch.rows, batch.token_start, self.codec.renormalise, scores,
            )  # fmt: skip
        return scores


def search_shards(
    searchers: Sequence[ShardSearcher], queries: Sequence[np.ndarray], k: int, settings: SearchSettings | None = None
) -> list[Hits]:
    """The k best passages for each query over shards of one codec, whose centroids are scored once for all shards.

    `exhaustive` settings give exactly what one unsharded index would. Otherwise all probe the same cells, but each
    shard prunes its own candidates: up to `ndocs // 4` passages a shard are scored exactly, more than one index would
    score, and a shard of at most k passages is scored whole.
    """
    if k < 1:
        raise ValueError(f"k is {k}; a search returns at least one passage")
    if not searchers:
        raise ValueError("a search needs at least one shard")
    settings = settings or SearchSettings.default(k)
    codec = searchers[0].codec
    pruned = not settings.exhaustive and any(k < searcher.num_passages for searcher in searchers)
    hits: list[Hits] = []
    with kernels.KERNEL_LOCK:
        for batch in batches(queries, codec):
            probe = Probe.of(batch, codec, settings) if pruned else None
            hits += merge_hits([searcher.rank(batch, probe, k, settings) for searcher in searchers], k)
    return hits


def _starts(counts: np.ndarray) -> np.ndarray:
    return np.concatenate(([0], np.cumsum(counts))).astype(np.int64)


def _select(
    pids: np.ndarray, scores: np.ndarray, start: np.ndarray, count: np.ndarray, size: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The `size` best candidates of each query, ascending by pid: pids, start and count as they came.

    Of equal scores the higher pid stays, as in colbert-ai's priority queue of (score, pid).
    """
    bits = scores.view(np.int32).astype(np.int64)
    ordered = np.where(bits >= 0, bits, -(bits & 0x7FFFFFFF))  # orders as the scores do
    keys = (ordered << 32) + pids
    kept = np.minimum(count, size)
    chosen = [
        np.sort(np.partition(keys[at : at + n], n - size)[n - size :] & 0xFFFFFFFF) if n > size else pids[at : at + n]
        for at, n in zip(start, count, strict=True)
    ]
    return np.concatenate(chosen).astype(np.int32), _starts(kept)[:-1], kept


def _tasks(pids: np.ndarray, start: np.ndarray, count: np.ndarray, first_pid: int, num_passages: int) -> np.ndarray:
    """Rows (query, first, last), int64, over the candidates that lie in one chunk; a query's pids ascend."""
    rows = []
    for query, (at, n) in enumerate(zip(start, count, strict=True)):
        low, high = at + np.searchsorted(pids[at : at + n], (first_pid, first_pid + num_passages))
        rows += [(query, first, min(first + _TASK_PASSAGES, high)) for first in range(low, high, _TASK_PASSAGES)]
    return np.array(rows, np.int64).reshape(-1, 3)
