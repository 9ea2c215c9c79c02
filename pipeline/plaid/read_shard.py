"""Opening a shard without reading it, and checking a shard by reading all of it."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from pipeline.errors import InputError
from pipeline.plaid.codec import Codec
from pipeline.plaid.shard import ShardCounts
from pipeline.plaid.tensor_file import load_tensor


@dataclass(frozen=True)
class Chunk:
    """Passages first_pid, first_pid + 1, ... of a shard: passage i owns the vectors offsets[i]:offsets[i + 1].

    codes int32 [E] and residuals uint8 [E, bytes] are mapped from their files; offsets int64 [n + 1].
    """

    first_pid: int
    offsets: np.ndarray
    codes: np.ndarray
    residuals: np.ndarray

    @property
    def num_passages(self) -> int:
        return len(self.offsets) - 1


@dataclass(frozen=True)
class ShardFiles:
    """A shard, its large parts mapped into memory. ivf int32 [pairs + padding]; ivf_start int64 [K + 1]."""

    chunks: list[Chunk]
    ivf: np.ndarray
    ivf_start: np.ndarray
    metadata: dict[str, Any]

    @property
    def num_passages(self) -> int:
        return sum(chunk.num_passages for chunk in self.chunks)


def open_shard(folder: Path) -> ShardFiles:
    """Map a shard's files. Raises InputError, naming the file and its size, where one is absent, cut short or does not
    fit the others."""
    metadata = _load_json(folder / "metadata.json")
    chunks: list[Chunk] = []
    passages = 0
    for number in range(_entry(metadata, "num_chunks", folder / "metadata.json")):
        chunks.append(_open_chunk(folder, number, passages, metadata))
        passages += chunks[-1].num_passages
    ivf, lengths = (tensor.numpy() for tensor in load_tensor(folder / "ivf.pid.pt"))
    if len(lengths) != metadata["num_partitions"] or len(ivf) < lengths.sum():
        raise _unfit(folder / "ivf.pid.pt", f"lists for {metadata['num_partitions']} centroids", f"{len(lengths)}")
    found = sum(len(chunk.codes) for chunk in chunks)
    if found != metadata["num_embeddings"]:
        raise _unfit(folder / "metadata.json", f"{metadata['num_embeddings']} vectors", f"chunks with {found}")
    return ShardFiles(chunks, ivf, np.concatenate(([0], np.cumsum(lengths, dtype=np.int64))), metadata)


def verify_shard(folder: Path) -> ShardCounts:
    """Read every file of a shard back and check that they fit each other.

    Raises InputError, naming the file and its size, for the first absent, cut short, or impossible one.
    """
    codec = Codec.load(folder)
    shard = open_shard(folder)
    _load_json(folder / "plan.json")
    for number, chunk in enumerate(shard.chunks):
        path = folder / f"{number}.codes.pt"
        if len(chunk.codes) and not 0 <= chunk.codes.min() <= chunk.codes.max() < codec.num_centroids:
            raise _unfit(path, f"centroids below {codec.num_centroids}", f"{chunk.codes.min()} to {chunk.codes.max()}")
        if chunk.residuals.shape[1] != codec.residual_bytes:
            raise _unfit(folder / f"{number}.residuals.pt", f"{codec.residual_bytes} bytes", f"{chunk.residuals.shape}")
        chunk.residuals.max(initial=0)  # touches every page: an unreadable disk shows now
    if len(shard.ivf_start) != codec.num_centroids + 1:
        raise _unfit(folder / "ivf.pid.pt", f"{codec.num_centroids} lists", f"{len(shard.ivf_start) - 1}")
    listed = shard.ivf[: shard.ivf_start[-1]]
    if len(listed) and not 0 <= listed.min() <= listed.max() < shard.num_passages:
        raise _unfit(folder / "ivf.pid.pt", f"passages below {shard.num_passages}", f"{listed.min()} to {listed.max()}")
    embeddings = sum(len(chunk.codes) for chunk in shard.chunks)
    return ShardCounts(shard.num_passages, embeddings, len(shard.chunks))


def _open_chunk(folder: Path, number: int, first_pid: int, metadata: dict[str, Any]) -> Chunk:
    doclens = np.asarray(_load_json(folder / f"doclens.{number}.json"), np.int64)
    facts_path = folder / f"{number}.metadata.json"
    facts = _load_json(facts_path)
    codes = load_tensor(folder / f"{number}.codes.pt").numpy()
    residuals = load_tensor(folder / f"{number}.residuals.pt").numpy()
    total = int(doclens.sum())
    for name, found in (
        ("num_passages", len(doclens)),
        ("num_embeddings", total),
        ("passage_offset", first_pid),
    ):
        if _entry(facts, name, facts_path) != found:
            raise _unfit(facts_path, f"{name} {facts[name]}", f"doclens that make it {found}")
    for name, array in (("codes", codes), ("residuals", residuals)):
        if len(array) != total:
            raise _unfit(folder / f"{number}.{name}.pt", f"{total} vectors", f"{len(array)}")
    return Chunk(first_pid, np.concatenate(([0], np.cumsum(doclens))).astype(np.int64), codes, residuals)


def _load_json(path: Path) -> Any:
    if not path.is_file():
        raise InputError(f"{path}: not there, so this is not a whole PLAID shard; build the shard again.")
    try:
        return json.loads(path.read_text())
    except ValueError as error:
        raise InputError(f"{path}: {path.stat().st_size} bytes that are no JSON; build the shard again.") from error


def _entry(facts: dict[str, Any], name: str, path: Path) -> int:
    if not isinstance(facts.get(name), int):
        raise _unfit(path, f"a number '{name}'", ", ".join(facts))
    return int(facts[name])


def _unfit(path: Path, expected: str, found: str) -> InputError:
    size = path.stat().st_size
    return InputError(f"{path}: {size} bytes; expected {expected}, found {found}; build the shard again.")
