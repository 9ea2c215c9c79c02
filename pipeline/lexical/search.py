"""BM25 search of a shard. bm25s adds up the weights; which passages are hits, and their order, is decided here."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from pipeline.lexical.terms import term_keys, terms
from pipeline.plaid.hits import Hits, best, merge_hits


def query_keys(query: str) -> np.ndarray:
    """uint64 [n]: keys of a query's terms in their order; a repeated term counts as often as it is there."""
    return term_keys(terms(query))


class BM25Shard:
    """One shard's postings and weights, mapped into memory. `pid_offset` is added to the shard's passage numbers."""

    def __init__(self, postings: Path, weights: Path, pid_offset: int = 0) -> None:
        from bm25s import BM25

        self._terms = np.asarray(np.load(postings / "terms.npy", mmap_mode="r"))
        self._passages = len(np.load(postings / "lengths.npy", mmap_mode="r"))
        self._offset = pid_offset
        self._scorer = BM25(method="lucene", dtype="float32", backend="numpy")
        self._scorer.nonoccurrence_array = None  # what `load` sets: a term that is absent adds nothing
        self._scorer.load_scores(
            postings.absolute(),
            data_name=str(weights.absolute() / "weights.npy"),
            indices_name="indices.npy",
            indptr_name="indptr.npy",
            num_docs=self._passages,
            mmap=True,
        )
        # Still mapped, as plain arrays: np.memmap's own slicing would take a third of a search.
        held = {name: self._scorer.scores[name] for name in ("data", "indices", "indptr")}
        self._scorer.scores |= {name: np.asarray(array) for name, array in held.items()}

    def search(self, queries: Sequence[np.ndarray], k: int) -> list[Hits]:
        """Per query (`query_keys`) at most k passages that hold a term of it; none where no term is known."""
        return [self._best(query, k) for query in queries]

    def _best(self, query: np.ndarray, k: int) -> Hits:
        columns = np.searchsorted(self._terms, query)
        inside = columns < len(self._terms)
        columns, query = columns[inside], query[inside]
        known = columns[self._terms[columns] == query]
        if len(known) == 0:
            return np.empty(0, np.int64), np.empty(0, np.float32)
        scores = self._scorer.get_scores_from_ids(known.tolist())
        found = np.flatnonzero(scores > 0)
        if len(found) > k:  # those that tie with the k-th stay until `best` orders them by pid
            kth = np.partition(scores[found], len(found) - k)[len(found) - k]
            found = found[scores[found] >= kth]
        return best(found + self._offset, scores[found], k)


def search_lexical(shards: Sequence[BM25Shard], queries: Sequence[np.ndarray], k: int) -> list[Hits]:
    """The k best passages of each query over shards: (score descending, pid ascending), what one index would give."""
    if k < 1:
        raise ValueError(f"k is {k}; a search returns at least one passage")
    return merge_hits([shard.search(queries, k) for shard in shards], k)
