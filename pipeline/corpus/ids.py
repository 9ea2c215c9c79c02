"""Which documents share an id, over a whole corpus, in bounded memory.

Beside a shard's passages lie its documents' ids in order, as 8-byte hashes (HASHES: uint64, little-endian) and by name
(NAMES: one string column); only the first are compared. That any two of a billion ids share a hash by chance has a
probability of 3%.
"""

import hashlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

HASHES = "ids.u64"
NAMES = "ids.arrow"
_BATCH = 4096


class IdWriter:
    """Writes a shard's ids, one document after the other."""

    def __init__(self, folder: Path) -> None:
        self._schema = pa.schema([("id", pa.string())])
        self._hashes = (folder / HASHES).open("wb")
        self._names = pa.ipc.new_file(str(folder / NAMES), self._schema)
        self._held: list[str] = []

    def __enter__(self) -> "IdWriter":
        return self

    def __exit__(self, *problem: object) -> None:
        self._flush()
        self._names.close()
        self._hashes.close()

    def add(self, id: str) -> None:
        self._held.append(id)
        if len(self._held) == _BATCH:
            self._flush()

    def _flush(self) -> None:
        if self._held:
            digests = (hashlib.blake2b(id.encode(), digest_size=8).digest() for id in self._held)
            self._hashes.write(b"".join(digests))
            self._names.write_batch(pa.record_batch([pa.array(self._held, pa.string())], self._schema))
            self._held = []


def duplicate_ids(
    hashes: Sequence[Path],
    names: Callable[[int], Path] | None = None,
    named: int = 20,
    memory: int = 256 << 20,
) -> dict[str, Any]:
    """{count, ids}: how many documents have an id that another document before them has, and up to `named` such ids in
    corpus order (of more, those with the smallest hashes).

    `hashes`: the shards' HASHES files, in order. `names(n)`: the NAMES file of the n-th, asked for only where needed;
    by default it lies beside. About `memory` bytes are held, at the cost of reading the hashes several times.
    """
    total = sum(path.stat().st_size // 8 for path in hashes)
    parts = 1 << max(0, int(np.ceil(np.log2(max(1, 3 * 8 * total / memory)))))  # a part, its copy, and the sorted one
    count = 0
    smallest = np.zeros(0, np.uint64)
    for part in range(parts):
        held = [values[_part_of(values, parts) == part] for values in map(_read, hashes)]
        values, counts = np.unique(np.concatenate([np.zeros(0, np.uint64), *held]), return_counts=True)
        count += int((counts - 1).sum())
        smallest = np.concatenate([smallest, values[counts > 1]])[:named]  # parts ascend, and so do their values
    return {"count": count, "ids": list(_names_of(smallest, hashes, names or (lambda n: hashes[n].with_name(NAMES))))}


def _read(path: Path) -> np.ndarray:
    return np.memmap(path, "<u8", "r") if path.stat().st_size else np.zeros(0, "<u8")


def _part_of(values: np.ndarray, parts: int) -> np.ndarray:
    bits = parts.bit_length() - 1
    return values >> np.uint64(64 - bits) if bits else np.zeros(len(values), np.uint64)


def _names_of(wanted: np.ndarray, hashes: Sequence[Path], names: Callable[[int], Path]) -> Iterator[str]:
    for number, path in enumerate(hashes):
        if not len(wanted):
            return
        values = _read(path)
        rows = np.flatnonzero(np.isin(values, wanted))
        if len(rows):
            _, first = np.unique(values[rows], return_index=True)
            with pa.memory_map(str(names(number))) as source:
                reader = pa.ipc.open_file(source)
                for row in np.sort(rows[first]):
                    yield reader.get_batch(int(row) // _BATCH)["id"][int(row) % _BATCH].as_py()
            wanted = wanted[~np.isin(wanted, values[rows])]
