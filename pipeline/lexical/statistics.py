"""What BM25 knows of the whole collection: passages, terms, and in how many passages each term occurs."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from pipeline.lexical.postings import Postings


@dataclass(frozen=True)
class Statistics:
    """`terms` uint64 [T] ascending keys, `frequencies` int64 [T]: passages that hold each; `tokens`: terms in all."""

    passages: int
    tokens: int
    terms: np.ndarray
    frequencies: np.ndarray

    @classmethod
    def of(cls, shards: Sequence[Path]) -> "Statistics":
        """Of postings folders, merged in pairs: the same numbers whatever the cut into shards."""
        if not shards:
            return cls(0, 0, np.empty(0, np.uint64), np.empty(0, np.int64))
        if len(shards) == 1:
            held = Postings.open(shards[0])
            return cls(len(held.lengths), int(held.lengths.sum(dtype=np.int64)), held.terms, np.diff(held.indptr))
        middle = len(shards) // 2
        left, right = cls.of(shards[:middle]), cls.of(shards[middle:])
        keys, place = np.unique(np.concatenate([left.terms, right.terms]), return_inverse=True)
        frequencies = np.zeros(len(keys), np.int64)
        np.add.at(frequencies, place, np.concatenate([left.frequencies, right.frequencies]))
        return cls(left.passages + right.passages, left.tokens + right.tokens, keys, frequencies)

    @classmethod
    def open(cls, folder: Path, passages: int, tokens: int) -> "Statistics":
        """The two counts are in the commit, the arrays in its folder."""
        held = [np.load(folder / f"{name}.npy", mmap_mode="r") for name in ("terms", "frequencies")]
        return cls(passages, tokens, *held)

    def save(self, folder: Path) -> None:
        np.save(folder / "terms.npy", self.terms)
        np.save(folder / "frequencies.npy", self.frequencies)


def weights(postings: Postings, statistics: Statistics, k1: float, b: float) -> np.ndarray:
    """float32 [pairs]: what each pair of a term and a passage adds to a score, in the variant of Lucene and OpenSearch
    (Kamphuis et al. 2020, "accurate"):

        ln(1 + (N - df + .5) / (df + .5)) * tf / (tf + k1 (1 - b + b length / mean length))

    Computed in float64 from the collection's N, df and mean length, so that it does not depend on the cut into shards.
    """
    df = statistics.frequencies[np.searchsorted(statistics.terms, postings.terms)]
    idf = np.log1p((statistics.passages - df + 0.5) / (df + 0.5))
    mean = statistics.tokens / max(1, statistics.passages)
    damping = k1 * (1 - b + b * postings.lengths / max(mean, 1e-9))
    tf = postings.counts.astype(np.float64)
    found = np.repeat(idf, np.diff(postings.indptr)) * tf / (tf + damping[postings.indices])
    return found.astype(np.float32)
