"""Dense vectors over texts, cut into shards as one likes, without an index build."""

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from pipeline.dense.faiss_index import write_faiss
from pipeline.dense.search import DenseShard, search_dense
from pipeline.plaid.config import DenseConfig

Ranked = list[list[tuple[int, float]]]


class WordEmbedder:
    """A text is the sum of its words' random vectors, of unit length: texts that share words are close."""

    dtype = "float32"

    def __init__(self, dim: int = 16) -> None:
        self.dim, self.texts = dim, 0

    def embed(self, texts: Sequence[str]) -> np.ndarray:
        self.texts += len(texts)
        rows = [sum((self._word(word) for word in text.split()), np.zeros(self.dim)) for text in texts]
        unit = [row / max(float(np.linalg.norm(row)), 1e-12) for row in rows]
        return np.array(unit, np.float32).reshape(len(texts), self.dim)

    def _word(self, word: str) -> np.ndarray:
        seed = int.from_bytes(hashlib.sha256(word.encode()).digest()[:8])
        return np.random.default_rng(seed).normal(size=self.dim)


def unit_vectors(count: int, dim: int = 16, seed: int = 0) -> np.ndarray:
    """float32 [count, dim]"""
    rows = np.random.default_rng(seed).normal(size=(count, dim))
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


def make_shards(home: Path, parts: Sequence[np.ndarray], **config: Any) -> list[DenseShard]:
    """A shard for each of the arrays of unit vectors."""
    settings, shards, offset = DenseConfig(**config), [], 0
    for number, vectors in enumerate(parts):
        folder = home / str(number)
        folder.mkdir(parents=True)
        np.save(folder / "vectors.npy", vectors.astype(np.float16))
        write_faiss(vectors.astype(np.float16), settings, folder / "faiss.index")
        shards.append(DenseShard(folder, settings.index, offset))
        offset += len(vectors)
    return shards


def ranked(shards: Sequence[DenseShard], queries: np.ndarray, k: int = 10, **settings: Any) -> Ranked:
    found = search_dense(shards, queries, k, settings)
    return [[(int(pid), float(score)) for pid, score in zip(*hits, strict=True)] for hits in found]
