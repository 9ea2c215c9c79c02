"""How often each term occurs in each passage of a shard: what BM25 needs of the text, before any statistics.

A folder holds, as memory-mappable .npy files, T terms, P passages, E pairs of a term and a passage that holds it:
    terms.npy    uint64 [T]      keys (terms.term_keys), ascending
    indptr.npy   int64  [T + 1]  where a term's pairs start
    indices.npy  int32  [E]      passages of the pairs, ascending within a term
    counts.npy   uint8 or wider [E]   occurrences, at least 1
    lengths.npy  int32  [P]      terms of each passage, repeated ones too
"""

from array import array
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from pipeline.lexical.terms import term_keys, terms


@dataclass(frozen=True)
class Postings:
    """The arrays above, a sparse matrix [passages, terms] by columns."""

    terms: np.ndarray
    indptr: np.ndarray
    indices: np.ndarray
    counts: np.ndarray
    lengths: np.ndarray

    @classmethod
    def of(cls, texts: Iterable[str]) -> "Postings":
        """Counts the terms of passages, in order."""
        from scipy.sparse import csr_array

        numbers: dict[str, int] = {}
        columns, counts, lengths, starts = array("i"), array("i"), array("i"), array("q", [0])
        for text in texts:
            found = Counter(terms(text))
            columns.extend(numbers.setdefault(term, len(numbers)) for term in found)
            counts.extend(found.values())
            lengths.append(found.total())
            starts.append(len(columns))
        keys, rank = np.unique(term_keys(numbers), return_inverse=True)  # terms that collide share a column
        rows = csr_array(
            (
                np.array(counts, np.int32),
                rank.astype(np.int32)[np.array(columns, np.int32)],
                np.array(starts, np.int64),
            ),
            shape=(len(lengths), len(keys)),
        )
        rows.sum_duplicates()
        matrix = rows.tocsc()
        narrow = np.min_scalar_type(int(matrix.data.max(initial=0)))
        return cls(
            keys,
            matrix.indptr.astype(np.int64),
            matrix.indices.astype(np.int32),
            matrix.data.astype(narrow),
            np.array(lengths, np.int32),
        )

    @classmethod
    def open(cls, folder: Path) -> "Postings":
        return cls(*(np.load(folder / f"{name}.npy", mmap_mode="r") for name in cls.__dataclass_fields__))

    def save(self, folder: Path) -> None:
        for name in self.__dataclass_fields__:
            np.save(folder / f"{name}.npy", getattr(self, name))
