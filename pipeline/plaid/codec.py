"""PLAID's codec: a token vector is the number of its nearest centroid and a residual of nbits per dimension."""

import json
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import numpy as np

from pipeline.errors import InputError
from pipeline.plaid.assign import Assigner
from pipeline.plaid.tensor_file import load_tensor, save_tensor

CODEC_FILES = ("centroids.pt", "buckets.pt", "avg_residual.pt", "codec.json")  # that every shard has as well
_CELLS = "cells.npy"  # needed to compress, not to search: beside the codec alone, and only where there are cells


def allowed_nbits(dim: int) -> list[int]:
    """Bits per dimension that colbert-ai's format has for `dim`: residuals of 8 dimensions fill whole bytes."""
    return [nbits for nbits in (1, 2, 4, 8) if dim % (8 * nbits) == 0]


def check_nbits(dim: int, nbits: int) -> None:
    """Raise InputError, listing the values that work, unless vectors of `dim` can be stored with `nbits`."""
    allowed = allowed_nbits(dim)
    if nbits in allowed:
        return
    if not allowed:
        raise InputError(f"codec: vectors of dimension {dim} do not fit PLAID's format; it needs a multiple of 8.")
    raise InputError(
        f"codec: nbits is {nbits}, which does not pack into whole bytes at dimension {dim}; "
        f"set 'nbits' to one of {', '.join(map(str, allowed))}."
    )


@dataclass(frozen=True)
class Codec:
    """Shared by all shards of an index, so that their scores compare.

    centroids float32 [K, dim], each value exact in float16, as the file stores them; bucket_cutoffs float32
    [2^nbits - 1], ascending; bucket_weights float32 [2^nbits], what a bucket's residuals become; avg_residual, the mean
    absolute residual; renormalise: scale decompressed vectors to length 1, as colbert-ai always does; cells int32 [K],
    where vectors are assigned by cells of centroids (pipeline/plaid/assign.py) instead of to the nearest of all.
    """

    centroids: np.ndarray
    bucket_cutoffs: np.ndarray
    bucket_weights: np.ndarray
    avg_residual: float
    renormalise: bool = True
    cells: np.ndarray | None = None
    nbits: int = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "centroids", np.ascontiguousarray(self.centroids, np.float16).astype(np.float32))
        object.__setattr__(self, "bucket_cutoffs", np.ascontiguousarray(self.bucket_cutoffs, np.float32))
        object.__setattr__(self, "bucket_weights", np.ascontiguousarray(self.bucket_weights, np.float32))
        object.__setattr__(self, "nbits", len(self.bucket_weights).bit_length() - 1)
        if len(self.bucket_weights) != 2**self.nbits or len(self.bucket_cutoffs) != 2**self.nbits - 1:
            raise ValueError(f"{len(self.bucket_cutoffs)} cut-offs and {len(self.bucket_weights)} weights are no codec")
        check_nbits(self.dim, self.nbits)

    @property
    def dim(self) -> int:
        return int(self.centroids.shape[1])

    @property
    def num_centroids(self) -> int:
        return int(self.centroids.shape[0])

    @property
    def residual_bytes(self) -> int:
        """Bytes of one vector's residual."""
        return self.dim * self.nbits // 8

    @cached_property
    def byte_weights(self) -> np.ndarray:
        """float32 [256, 8 / nbits]: the bucket weights of the values packed in a byte, first value in the high bits."""
        bits = np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1).reshape(256, -1, self.nbits)
        return self.bucket_weights[(bits.astype(np.int64) << np.arange(self.nbits)).sum(axis=2)]

    @cached_property
    def _assigners(self) -> dict[str, Assigner]:
        return {}

    def nearest(self, vectors: np.ndarray, device: str = "cpu") -> np.ndarray:
        """Centroid with the largest dot product, int32 [E], for vectors float32 [E, dim]; of equal ones the first.

        Without cells the result is the same for any cut into batches, number of threads or device.
        """
        if device not in self._assigners:
            self._assigners[device] = Assigner(self.centroids, self.cells, device)
        return self._assigners[device](vectors)

    def compress(self, vectors: np.ndarray, device: str = "cpu") -> tuple[np.ndarray, np.ndarray]:
        """Vectors float [E, dim] -> codes int32 [E], residuals uint8 [E, dim * nbits / 8], packed as colbert-ai does.

        Raises ValueError for another dimension and for values that are not finite.
        """
        from pipeline.plaid.kernels import KERNEL_LOCK, pack_residuals

        vectors = np.require(vectors, np.float32, ["C", "W"])
        if vectors.ndim != 2 or vectors.shape[1] != self.dim:
            raise ValueError(f"vectors of shape {vectors.shape} do not fit a codec of dimension {self.dim}")
        if not np.isfinite(vectors).all():
            raise ValueError("token vectors hold NaN or infinity: the encoder's numbers overflowed")
        codes = self.nearest(vectors, device)
        packed = np.zeros((len(vectors), self.residual_bytes), np.uint8)
        with KERNEL_LOCK:
            pack_residuals(vectors, codes, self.centroids, self.bucket_cutoffs, self.nbits, packed)
        return codes, packed

    def decompress(self, codes: np.ndarray, residuals: np.ndarray) -> np.ndarray:
        """Codes int32 [E] and residuals uint8 [E, dim * nbits / 8] -> vectors float32 [E, dim]."""
        vectors = self.centroids[codes] + self.byte_weights[residuals].reshape(len(codes), self.dim)
        if self.renormalise:
            vectors /= np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
        return vectors

    def save(self, folder: Path) -> None:
        """Write colbert-ai's three codec files, and `codec.json` and `cells.npy` with what it has no place for."""
        import torch

        folder.mkdir(parents=True, exist_ok=True)
        save_tensor(folder / "centroids.pt", torch.from_numpy(self.centroids).half())
        buckets = (torch.from_numpy(self.bucket_cutoffs), torch.from_numpy(self.bucket_weights))
        save_tensor(folder / "buckets.pt", buckets)
        save_tensor(folder / "avg_residual.pt", torch.tensor(self.avg_residual, dtype=torch.float32))
        facts = {
            "dim": self.dim,
            "nbits": self.nbits,
            "partitions": self.num_centroids,
            "renormalise": self.renormalise,
        }
        if self.cells is not None:
            np.save(folder / _CELLS, self.cells)
        (folder / "codec.json").write_text(json.dumps(facts, indent=2, sort_keys=True) + "\n")

    @classmethod
    def load(cls, folder: Path) -> "Codec":
        """Read a codec folder or a shard; without `codec.json` it is colbert-ai's own, which re-normalises."""
        cutoffs, weights = load_tensor(folder / "buckets.pt")
        facts, cells = folder / "codec.json", folder / _CELLS
        return cls(
            centroids=load_tensor(folder / "centroids.pt").numpy(),
            bucket_cutoffs=cutoffs.float().numpy(),
            bucket_weights=weights.float().numpy(),
            avg_residual=float(load_tensor(folder / "avg_residual.pt")),
            renormalise=json.loads(facts.read_text())["renormalise"] if facts.exists() else True,
            cells=np.load(cells) if cells.exists() else None,
        )
