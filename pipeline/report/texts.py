"""The texts of a report, each once, in blocks that the page unpacks when a question needs them."""

import base64
import gzip
import json
from collections.abc import Iterator
from typing import Any

BLOCK = 1 << 20  # characters of text in a block, before compression: some ms to unpack on a telephone
Reference = list[int]  # [text, start, end]; start and end in UTF-16 units, as JavaScript counts


class Texts:
    """Texts by number. Those of evidence that was kept lie in blocks of their own: they are the last to be left out."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self._blocks: dict[bool, list[list[int]]] = {True: [[]], False: [[]]}
        self._room: dict[bool, int] = {True: BLOCK, False: BLOCK}
        self._texts: list[str] = []

    def add(self, text: str, kept: bool) -> int:
        """The number of a text; new ones join the block that is being filled."""
        number = self._numbers.get(text)
        if number is None:
            number = self._numbers[text] = len(self._texts)
            self._texts.append(text)
            if self._room[kept] <= 0:
                self._blocks[kept].append([])
                self._room[kept] = BLOCK
            self._blocks[kept][-1].append(number)
            self._room[kept] -= len(text)
        return number

    def reference(self, number: int, start: int = 0, end: int | None = None) -> Reference:
        """A span of a text, given in Python's characters."""
        text = self._texts[number]
        end = len(text) if end is None else end
        return [number, start, end] if text.isascii() else [number, _units(text[:start]), _units(text[:end])]

    def blocks(self) -> Iterator[tuple[list[int], list[str]]]:
        """(numbers, texts) of each block, kept evidence first."""
        for numbers in [*self._blocks[True], *self._blocks[False]]:
            if numbers:
                yield numbers, [self._texts[number] for number in numbers]


def packed(value: Any) -> str:
    """A JSON value as gzip in base64: letters that mean nothing to an HTML parser, whatever the value says.

    The same value gives the same letters. Lone surrogates survive as escapes.
    """
    data = json.dumps(value, ensure_ascii=True, separators=(",", ":"), allow_nan=False).encode()
    return base64.b64encode(gzip.compress(data, 6, mtime=0)).decode()


def _units(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-16-le", "surrogatepass")) // 2
