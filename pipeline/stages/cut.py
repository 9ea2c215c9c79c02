"""cut: the head of a list of passages or snippets."""

from typing import Any, ClassVar

import pyarrow as pa
from pydantic import Field, PrivateAttr, model_validator

from pipeline.evidence import kept
from pipeline.schema import ITEM, PASSAGE
from pipeline.stage import Stage


class Cut(Stage):
    """The first k kept items, or the first whose words fit: whole items, up to the first that is too much.

    Snippets beyond stay in the list, marked as dropped with the reason; passages, which carry no mark, leave it.
    """

    name: ClassVar[str] = "cut"
    source: str = Field(alias="from")
    into: str
    k: int | None = Field(None, gt=0)
    max_words: int | None = Field(None, gt=0, description="whitespace-separated words of all items together")
    _item: pa.DataType = PrivateAttr(default=PASSAGE)

    @model_validator(mode="after")
    def _cuts_something(self) -> "Cut":
        if self.k is None and self.max_words is None:
            raise ValueError("one of k and max_words is needed")
        return self

    def bind(self, columns: dict[str, pa.DataType]) -> None:
        self._item = columns[self.source].value_type

    def reads(self) -> dict[str, pa.DataType]:
        return {self.source: pa.list_(ITEM)}

    def writes(self) -> dict[str, pa.DataType]:
        return {self.into: pa.list_(self._item)}

    def process(self, batch: pa.Table) -> dict[str, list]:
        cut = [self._cut(items or []) for items in batch[self.source].to_pylist()]
        return {self.into: cut, "trace": [{"kept": len(kept(items)), "calls": 0} for items in cut]}

    def _cut(self, items: list[dict[str, Any]]) -> list[dict[str, Any]]:
        left, taken, words, reason = [], 0, 0, None
        for item in items:
            if item.get("kept", True):
                words += len(item["text"].split())
                reason = reason or self._beyond(taken + 1, words)
                taken += 1
            if reason is None or not item.get("kept", True):
                left.append(item)
            elif "kept" in item:
                left.append({**item, "kept": False, "reason": reason})
        return left

    def _beyond(self, count: int, words: int) -> str | None:
        if self.k is not None and count > self.k:
            return f"beyond k = {self.k}"
        return f"beyond {self.max_words} words" if self.max_words is not None and words > self.max_words else None
