"""merge_passages: several lists of passages into one, each passage once."""

from typing import Annotated, Any, ClassVar, Literal

import pyarrow as pa
from pydantic import Field

from pipeline.schema import PASSAGE
from pipeline.stage import Stage

Passage = dict[str, Any]


class MergePassages(Stage):
    """A passage (`pid`) stands once, as the first list that has it describes it; its rank is its new place.

    interleave: the lists' first passages, then their second ones, ...; scores stay, of whatever kind they are.
    rrf: by reciprocal rank fusion (Cormack 2009), score = sum over the lists of 1 / (60 + place), places from 1; ties
    as interleaved.
    """

    name: ClassVar[str] = "merge_passages"
    columns: Annotated[list[str], Field(min_length=2, alias="from")]
    into: str
    how: Literal["interleave", "rrf"] = "interleave"
    k: int | None = Field(None, gt=0, description="the first k stay; null: all")

    def reads(self) -> dict[str, pa.DataType]:
        return {column: pa.list_(PASSAGE) for column in self.columns}

    def writes(self) -> dict[str, pa.DataType]:
        return {self.into: pa.list_(PASSAGE)}

    def process(self, batch: pa.Table) -> dict[str, list]:
        rows = batch.select(list(self.reads())).to_pylist()
        merged = [self._merged([row[column] or [] for column in self.columns]) for row in rows]
        return {self.into: merged, "trace": [{"kept": len(passages), "calls": 0} for passages in merged]}

    def _merged(self, lists: list[list[Passage]]) -> list[Passage]:
        first: dict[int, Passage] = {}
        fused: dict[int, float] = {}
        for place in range(max(map(len, lists))):
            for passages in lists:
                if place < len(passages):
                    pid = passages[place]["pid"]
                    first.setdefault(pid, passages[place])
                    fused[pid] = fused.get(pid, 0.0) + 1 / (61 + place)
        order = list(first)
        if self.how == "rrf":
            order.sort(key=lambda pid: -fused[pid])
            first = {pid: {**first[pid], "score": fused[pid]} for pid in order}
        return [{**first[pid], "rank": rank} for rank, pid in enumerate(order[: self.k])]
