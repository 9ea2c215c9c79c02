"""Writing one shard: a stock colbert-ai 0.2.22 index folder, complete or not there at all."""

import json
import os
import shutil
import uuid
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from pipeline.plaid.codec import CODEC_FILES, Codec
from pipeline.plaid.ivf import invert
from pipeline.plaid.meter import Meter
from pipeline.plaid.tensor_file import save_tensor

CHUNK_PASSAGES = 25_000  # colbert-ai's largest chunk; fixed, so that the files depend on the shard alone


@dataclass(frozen=True)
class ShardCounts:
    """What a shard holds."""

    passages: int
    embeddings: int
    chunks: int


@dataclass
class _Chunk:
    codes: np.ndarray
    residuals: np.ndarray
    doclens: np.ndarray


def write_shard(
    folder: Path,
    pieces: Iterable[tuple[np.ndarray, np.ndarray]],
    codec: Codec,
    codec_folder: Path | None = None,
    *,
    config: Mapping[str, Any] | None = None,
    chunk_passages: int = CHUNK_PASSAGES,
    device: str = "cpu",
    meter: Meter | None = None,
    turns: AbstractContextManager[Any] | None = None,
) -> ShardCounts:
    """Compress pieces (vectors float32 [E, dim], doclens int [n] with sum E), passages in pid order, into a new folder.

    Pieces may be cut anywhere between passages: the bytes are the same. Memory is one piece, one chunk's compressed
    vectors, and 4 bytes per vector of the shard. The codec's files are hard links to those in `codec_folder`, where
    given and possible. `config` adds colbert-ai settings (query_maxlen, checkpoint ...) to the metadata; paths in it
    would tie the index to its place. `device`: of the nearest centroids; `turns` is held while they are computed.
    `meter` gets the phases "compress" and "write". The folder appears when it is complete; an empty one that is there
    already is filled in place, and its owner sees to that. Raises FileExistsError if the folder holds anything,
    ValueError for pieces that do not fit.
    """
    meter, turns = meter or Meter(), turns or nullcontext()
    compressed = _compressed(pieces, codec, device, meter, turns)
    chunks = _chunks(compressed, codec, chunk_passages)
    if folder.exists():
        if any(folder.iterdir()):
            raise FileExistsError(f"{folder} holds files already; a shard is never written over")
        return _write(folder, chunks, codec, codec_folder, dict(config or {}), meter)
    partial = folder.parent / f".{folder.name}.{uuid.uuid4().hex}.partial"
    partial.mkdir(parents=True)
    try:
        counts = _write(partial, chunks, codec, codec_folder, dict(config or {}), meter)
        partial.rename(folder)
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        raise
    return counts


def _write(
    folder: Path,
    chunks: Iterable[_Chunk],
    codec: Codec,
    codec_folder: Path | None,
    config: dict[str, Any],
    meter: Meter,
) -> ShardCounts:
    import torch

    codes: list[np.ndarray] = []
    doclens: list[np.ndarray] = []
    passages = embeddings = 0
    for number, chunk in enumerate(chunks):
        place = {"passage_offset": passages, "embedding_offset": embeddings}
        size = {"num_passages": len(chunk.doclens), "num_embeddings": len(chunk.codes)}
        with meter("write"):
            save_tensor(folder / f"{number}.codes.pt", torch.from_numpy(chunk.codes))
            save_tensor(folder / f"{number}.residuals.pt", torch.from_numpy(chunk.residuals))
            _save_json(folder / f"doclens.{number}.json", chunk.doclens.tolist())
            _save_json(folder / f"{number}.metadata.json", place | size)
        codes.append(chunk.codes)
        doclens.append(chunk.doclens)
        passages += len(chunk.doclens)
        embeddings += len(chunk.codes)
    with meter("write"):
        pids, lengths = invert(np.concatenate(codes), np.concatenate(doclens), codec.num_centroids)
        save_tensor(folder / "ivf.pid.pt", (torch.from_numpy(pids), torch.from_numpy(lengths)))
        _place_codec(codec, codec_folder, folder)
        facts = {
            "config": config | {"dim": codec.dim, "nbits": codec.nbits},
            "num_chunks": len(codes),
            "num_partitions": codec.num_centroids,
        }
        average = embeddings / passages if passages else 0.0
        _save_json(folder / "plan.json", facts | {"num_embeddings_est": embeddings, "avg_doclen_est": average})
        _save_json(folder / "metadata.json", facts | {"num_embeddings": embeddings, "avg_doclen": average})
    return ShardCounts(passages, embeddings, len(codes))


def _compressed(
    pieces: Iterable[tuple[np.ndarray, np.ndarray]],
    codec: Codec,
    device: str,
    meter: Meter,
    turns: AbstractContextManager[Any],
) -> Iterator[_Chunk]:
    for vectors, lengths in pieces:
        doclens = np.asarray(lengths, np.int32)
        if (doclens < 0).any() or int(doclens.sum()) != len(vectors):
            raise ValueError(f"{len(vectors)} vectors do not match passages of {int(doclens.sum())} vectors in all")
        with turns, meter("compress"):
            codes, residuals = codec.compress(vectors, device)
        yield _Chunk(codes, residuals, doclens)


def _chunks(pieces: Iterable[_Chunk], codec: Codec, size: int) -> Iterator[_Chunk]:
    """Compressed pieces, cut and joined to chunks of `size` passages; one empty chunk if there is no passage."""
    parts: list[_Chunk] = []
    held, yielded = 0, False
    for piece in pieces:
        ends = np.concatenate(([0], np.cumsum(piece.doclens, dtype=np.int64)))
        start = 0
        while start < len(piece.doclens):
            stop = min(len(piece.doclens), start + size - held)
            inside = slice(ends[start], ends[stop])
            parts.append(_Chunk(piece.codes[inside], piece.residuals[inside], piece.doclens[start:stop]))
            held += stop - start
            start = stop
            if held == size:
                yield _joined(parts, codec)
                parts, held, yielded = [], 0, True
    if held or not yielded:
        yield _joined(parts, codec)


def _joined(parts: list[_Chunk], codec: Codec) -> _Chunk:
    return _Chunk(
        np.concatenate([np.empty(0, np.int32), *(part.codes for part in parts)]),
        np.concatenate([np.empty((0, codec.residual_bytes), np.uint8), *(part.residuals for part in parts)]),
        np.concatenate([np.empty(0, np.int32), *(part.doclens for part in parts)]),
    )


def _place_codec(codec: Codec, source: Path | None, folder: Path) -> None:
    if source is None:
        codec.save(folder)
        return
    for name in CODEC_FILES:
        try:
            os.link(source / name, folder / name)
        except OSError:  # another file system, or one without hard links
            shutil.copyfile(source / name, folder / name)


def _save_json(path: Path, value: Any) -> None:
    with path.open("w") as file:
        json.dump(value, file, sort_keys=True)
        file.flush()
        os.fsync(file.fileno())
