"""The encoded pieces of shards: what the codec's sample has encoded, the encode step need not encode again.

A piece is BATCH consecutive passages of one shard (pipeline/plaid/passages.py): the unit of sampling and of encoding,
so the batches of a forward pass depend on the piece alone. Vectors are rounded to float16, kept or not, so that the
index has the same bytes either way.
"""

import uuid
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import AbstractContextManager, closing, nullcontext
from pathlib import Path
from threading import Lock
from typing import Any, Protocol

import numpy as np

from pipeline.plaid.ahead import ahead
from pipeline.plaid.meter import Meter
from pipeline.plaid.passages import PassageStore

Piece = tuple[str, int]  # shard, number of the piece in the shard
Encoded = tuple[np.ndarray, np.ndarray]  # vectors float16 [sum of doclens, dim], doclens int32 [passages]


class DocumentEncoder(Protocol):
    dtype: str  # that vectors are computed in: "float32", "bfloat16"
    device: str  # torch's name of where the forward pass runs: "cpu", "cuda", "cuda:1"

    def tokenise_documents(self, texts: Sequence[str]) -> Any:
        """What `encode_tokens` takes; called in another thread, while that one runs."""
        ...

    def encode_tokens(self, tokens: Any) -> tuple[np.ndarray, np.ndarray]:
        """float32 [sum of doclens, dim] unit vectors, and doclens int32 [texts]."""
        ...


class EncodedPieces:
    """Encodes pieces of `stores` (shard -> passages), keeping those of a sample in `folder` until the index is
    published.

    `turns` is held by whoever computes: on a CPU the forward pass and the compression of the piece before want the same
    cores, and each is faster alone; on a GPU nobody has to wait.
    """

    def __init__(
        self, folder: Path, encoder: DocumentEncoder, stores: Callable[[str], PassageStore], meter: Meter
    ) -> None:
        self._folder, self._encoder, self._stores, self._meter = folder, encoder, stores, meter
        self.turns: AbstractContextManager[Any] = Lock() if encoder.device == "cpu" else nullcontext()

    def encode(self, pieces: Iterable[Piece], keep: bool = False) -> Generator[Encoded, None, None]:
        """Each piece in turn, from disk where it was kept; the next one is read and tokenised meanwhile."""
        with closing(ahead(self._tokenised(pieces))) as waiting:
            for piece, kept, tokens in waiting:
                if kept is not None:
                    yield kept
                    continue
                with self.turns, self._meter("forward"):
                    vectors, doclens = self._encoder.encode_tokens(tokens)
                encoded = vectors.astype(np.float16), doclens
                if keep:
                    with self._meter("write"):
                        _save(self._path(piece), vectors=encoded[0], doclens=doclens)
                yield encoded

    def _tokenised(self, pieces: Iterable[Piece]) -> Generator[tuple[Piece, Encoded | None, Any], None, None]:
        """Per piece what was kept of it, or else its tokens."""
        for piece in pieces:
            path = self._path(piece)
            if path.is_file():
                with self._meter("read"), np.load(path) as kept:
                    encoded = kept["vectors"], kept["doclens"]
                yield piece, encoded, None
                continue
            shard, number = piece
            with self._meter("read"):
                texts = self._stores(shard).piece(number)
            with self._meter("tokenise"):
                tokens = self._encoder.tokenise_documents(texts)
            yield piece, None, tokens

    def _path(self, piece: Piece) -> Path:
        return self._folder / f"{piece[0]}-{piece[1]}.npz"


def _save(path: Path, **arrays: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{uuid.uuid4().hex}.npz")
    np.savez(temporary, **arrays)
    temporary.replace(path)
