"""The encoded pieces of shards: what the codec's sample has encoded, the encode step need not encode again.

A piece is BATCH consecutive passages of one shard (pipeline/plaid/passages.py): the unit of sampling and of encoding,
so the batches of a forward pass depend on the shard alone. Vectors are rounded to float16, kept or not, so that the
index has the same bytes either way.
"""

import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np

Piece = tuple[str, int]  # shard, number of the piece in the shard


class DocumentEncoder(Protocol):
    dtype: str  # that vectors are computed in: "float32", "bfloat16"

    def encode_documents(self, texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        """float32 [sum of doclens, dim] unit vectors, and doclens int32 [len(texts)]."""
        ...


class EncodedPieces:
    """Encodes pieces, and keeps those of a sample on disk, in `folder`, until the index is published."""

    def __init__(self, folder: Path, encoder: DocumentEncoder) -> None:
        self._folder, self._encoder = folder, encoder

    def encode(self, piece: Piece, texts: Sequence[str], keep: bool = False) -> tuple[np.ndarray, np.ndarray]:
        """(vectors float16 [E, dim], doclens int32 [len(texts)]) of a piece, from disk where it was kept."""
        path = self._folder / f"{piece[0]}-{piece[1]}.npz"
        if path.is_file():
            with np.load(path) as kept:
                return kept["vectors"], kept["doclens"]
        vectors, doclens = self._encoder.encode_documents(texts)
        vectors = vectors.astype(np.float16)
        if keep:
            _save(path, vectors=vectors, doclens=doclens)
        return vectors, doclens


def _save(path: Path, **arrays: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{uuid.uuid4().hex}.npz")
    np.savez(temporary, **arrays)
    temporary.replace(path)
