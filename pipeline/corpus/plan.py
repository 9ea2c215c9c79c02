"""Cutting a corpus into shards: which rows of which file belong to which shard, fixed before any work starts."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipeline.corpus.document import CorpusFile
from pipeline.errors import InputError, some


@dataclass(frozen=True)
class Slice:
    """Rows [start, stop) of one row group of one file, counted within the row group. `offset`: the byte at which the
    row group starts, where the file's format needs it."""

    path: str
    row_group: int
    start: int
    stop: int
    offset: int = 0


@dataclass(frozen=True)
class ShardPlan:
    """A shard's name ("00000") and its slices in corpus order. `dataclasses.asdict` and `from_dict` are inverse."""

    shard: str
    slices: list[Slice]

    @property
    def documents(self) -> int:
        return sum(piece.stop - piece.start for piece in self.slices)

    def place(self, most: int = 2) -> str:
        """Its documents in words: "documents 0 to 3 of part-000.parquet, ..."; rows count within a row group."""
        named = [
            f"documents {piece.start} to {piece.stop - 1} of {Path(piece.path).name}"
            + (f", row group {piece.row_group}" if piece.row_group else "")
            for piece in self.slices
        ]
        return some(named, most, "; ")

    @classmethod
    def from_dict(cls, fields: dict[str, Any]) -> "ShardPlan":
        return cls(fields["shard"], [Slice(**piece) for piece in fields["slices"]])


def plan_shards(files: Sequence[CorpusFile], documents_per_shard: int) -> list[ShardPlan]:
    """Fill shards with `documents_per_shard` rows each in corpus order; the last takes the rest.

    A pure function of the files' order, paths and row groups and of the setting, so files appended to the end leave
    every full shard as it was. Raises InputError where the setting is below 1.
    """
    if documents_per_shard < 1:
        raise InputError(f"shards.documents is {documents_per_shard}; a shard needs at least 1 document.")
    shards: list[list[Slice]] = []
    room = 0
    for file in files:
        for number, rows in enumerate(file.row_groups):
            start = 0
            while start < rows:
                if room == 0:
                    shards.append([])
                    room = documents_per_shard
                stop = min(rows, start + room)
                shards[-1].append(Slice(file.path, number, start, stop, file.offsets[number] if file.offsets else 0))
                room -= stop - start
                start = stop
    return [ShardPlan(f"{number:05d}", slices) for number, slices in enumerate(shards)]
