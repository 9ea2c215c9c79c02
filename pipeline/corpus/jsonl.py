"""JSONL files, plain or compressed: one JSON object a line, blank lines left out.

A row group is _LINES lines. Each is found by the byte it starts at: a plain file is read from there, a compressed one
is decompressed up to there and not parsed.
"""

import io
import json
from collections.abc import Iterator
from hashlib import sha256
from typing import Any

import pyarrow as pa

from pipeline.corpus.document import BadFileError, Columns, CorpusFile, Document, missing_column
from pipeline.corpus.location import is_damage, open_file, reason_of

_LINES = 10_000
_LOOKED_AT = 100  # rows whose keys decide which columns a file has
_BUFFER = 1 << 20
_BOM = b"\xef\xbb\xbf"
_COMPRESSIONS = {".gz": "gzip", ".zst": "zstd"}


class JsonLines:
    def describe(self, path: str, size: int, columns: Columns) -> CorpusFile:
        """Reads the file once to count rows. Lines are parsed when documents are read; here each must begin and end as
        an object does, which is what truncation breaks."""
        if size == 0:
            raise BadFileError(path, "is empty (0 bytes)")
        groups: list[int] = []
        offsets: list[int] = []
        keys: dict[str, None] = {}
        position = rows = number = 0
        digest = sha256()
        for number, line in enumerate(_lines(path, 0)):
            digest.update(line)
            if number % _LINES == 0:
                groups.append(0)
                offsets.append(position)
            position += len(line)
            if bare := _bare(line, number):
                if not (bare.startswith(b"{") and bare.endswith(b"}")):
                    raise _not_an_object(path, number, bare)
                if rows < _LOOKED_AT:
                    keys |= dict.fromkeys(_parse(path, number, bare))
                groups[-1] += 1
                rows += 1
        if rows:
            for setting, name in (("text", columns.text), ("id", columns.id)):
                if name not in keys:
                    raise missing_column(path, setting, name, list(keys))
        there = tuple(columns.there(list(keys)))
        return CorpusFile(path, size, rows, groups, digest.hexdigest()[:16], tuple(offsets), there)

    def rows(
        self, path: str, row_group: int, start: int, stop: int, columns: Columns, offset: int
    ) -> Iterator[Document]:
        row = 0
        for number, line in enumerate(_lines(path, offset), row_group * _LINES):
            if row >= stop:
                return
            if bare := _bare(line, number):
                if row >= start:
                    yield _document(path, number, _parse(path, number, bare), columns)
                row += 1


def _lines(path: str, offset: int) -> Iterator[bytes]:
    try:
        with open_file(path) as source:
            kind = next((kind for suffix, kind in _COMPRESSIONS.items() if path.endswith(suffix)), None)
            stream = source if kind is None else pa.CompressedInputStream(source, kind)
            if kind is None:
                source.seek(offset)
            else:
                for start in range(0, offset, _BUFFER):
                    stream.read(min(_BUFFER, offset - start))
            yield from io.BufferedReader(stream, _BUFFER)
    except (pa.ArrowException, OSError) as problem:
        if is_damage(problem):
            raise BadFileError(path, f"is damaged ({reason_of(problem)})") from problem
        raise


def _bare(line: bytes, number: int) -> bytes:
    return (line.removeprefix(_BOM) if number == 0 else line).strip()


def _parse(path: str, number: int, line: bytes) -> dict[str, Any]:
    """Numbers stay as they are spelt, so that an id is kept verbatim. Bytes that are not UTF-8 become surrogates."""
    try:
        row = json.loads(line.decode("utf-8", "surrogateescape"), parse_int=str, parse_float=str)
    except (ValueError, RecursionError):
        raise _not_an_object(path, number, line) from None
    if not isinstance(row, dict):
        raise _not_an_object(path, number, line)
    return row


def _document(path: str, number: int, row: dict[str, Any], columns: Columns) -> Document:
    text, id = row.get(columns.text), row.get(columns.id)
    for name, value in ((columns.text, text), (columns.id, id)):
        if not isinstance(value, str | None):
            raise BadFileError(path, f"line {number + 1}: {name!r} is no text but {json.dumps(value)[:60]}")
    title = row.get(columns.title) if columns.title else None
    return Document.of(id, row.get(columns.url), text, title)


def _not_an_object(path: str, number: int, line: bytes) -> BadFileError:
    what = "a JSON array, not JSONL" if number == 0 and line.startswith(b"[") else "not a JSON object"
    start = line[:40].decode("utf-8", "replace")
    return BadFileError(path, f"line {number + 1} is {what} ({start!r}{'...' if len(line) > 40 else ''})")
