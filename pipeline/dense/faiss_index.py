"""faiss over a shard's vectors, by `dense.index`: it proposes candidates, whose cosines dense/search.py computes.

    flat   every vector, compared by faiss
    ivf    k-means cells, of which a search probes a few (Jegou et al. 2011)
    hnsw   a graph that a search walks (Malkov and Yashunin 2018)

Vectors are held as float16. Built by one thread: then the same vectors give the same bytes; shards run in parallel.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from pipeline.errors import InputError
from pipeline.plaid.config import DenseConfig

BLOCK = 16_384  # vectors added at a time, as float32
POINTS_A_CELL = 39  # below, faiss warns that cells are badly trained
MOST_POINTS_A_CELL = 256  # more, faiss leaves out; so they need not be in memory
SETTINGS = {"nprobe": "ivf", "ef_search": "hnsw"}  # of a search -> the kind of index that has it


def write_faiss(vectors: np.ndarray, config: DenseConfig, path: Path) -> None:
    """Builds and writes the index of vectors float16 [P, dim]; nothing for `exact` and for a shard without passages."""
    if config.index == "exact" or len(vectors) == 0:
        return
    faiss = _faiss()
    with _one_thread():
        index = faiss.index_factory(vectors.shape[1], _factory(config, len(vectors)), faiss.METRIC_INNER_PRODUCT)
        if config.index == "hnsw":
            index.hnsw.efConstruction = config.ef_construction
        every = max(1, len(vectors) // (MOST_POINTS_A_CELL * cells(config, len(vectors))))
        index.train(np.asarray(vectors[::every], np.float32))
        for start in range(0, len(vectors), BLOCK):
            index.add(np.asarray(vectors[start : start + BLOCK], np.float32))
    faiss.write_index(index, str(path))


def cells(config: DenseConfig, vectors: int) -> int:
    """Cells of an IVF index: `dense.cells`, else 4 sqrt(vectors); never more than can be trained."""
    return max(1, min(config.cells or round(4 * vectors**0.5), vectors // POINTS_A_CELL))


class FaissIndex:
    """A shard's faiss index, opened for search. Settings are per call, never sticky."""

    def __init__(self, path: Path, kind: str) -> None:
        faiss = _faiss()
        self._index, self._kind = faiss.read_index(str(path), faiss.IO_FLAG_MMAP | faiss.IO_FLAG_READ_ONLY), kind

    def candidates(self, queries: np.ndarray, k: int, settings: dict[str, Any]) -> list[np.ndarray]:
        """Per query of float32 [Q, dim] at most k numbers int64 of passages, in no order that counts.

        Queries go one by one: faiss computes a batch in another way, and a result must not depend on its neighbours.
        """
        parameters = self._parameters(settings)
        found = [self._index.search(query[None], k, params=parameters)[1][0] for query in queries]
        return [numbers[numbers >= 0] for numbers in found]

    def _parameters(self, settings: dict[str, Any]) -> Any:
        faiss = _faiss()
        if self._kind == "ivf":
            return faiss.SearchParametersIVF(nprobe=settings.get("nprobe", 16))
        return faiss.SearchParametersHNSW(efSearch=settings.get("ef_search", 64)) if self._kind == "hnsw" else None


def check_settings(kind: str, settings: dict[str, Any]) -> None:
    """InputError where a setting of the search is not one of this kind of index."""
    for name in settings:
        if SETTINGS.get(name) != kind:
            there = [setting for setting, owner in SETTINGS.items() if owner == kind]
            raise InputError(
                f"{name} is no setting of an index with dense.index: {kind} (settings there: "
                f"{', '.join(there) or 'none'}); leave it out"
            )


def _factory(config: DenseConfig, vectors: int) -> str:
    kinds = {"flat": "", "ivf": f"IVF{cells(config, vectors)},", "hnsw": f"HNSW{config.links},"}
    return f"{kinds[config.index]}SQfp16"


def _faiss() -> Any:
    """The library, untyped: its own type hints lack half of what it has."""
    import faiss

    return faiss


@contextmanager
def _one_thread() -> Iterator[None]:
    faiss = _faiss()
    threads = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(1)
    try:
        yield
    finally:
        faiss.omp_set_num_threads(threads)
