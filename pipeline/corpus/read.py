"""Finding a corpus's files and streaming its documents.

A format is a module-level class in `_FORMATS`, by file suffix: another one says how to describe a file and how to
read a range of one of its row groups.
"""

import glob
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import pyarrow as pa
import pyarrow.parquet as pq

from pipeline.errors import InputError

_ROWS_PER_BATCH = 1024


@dataclass(frozen=True)
class CorpusFile:
    """One file: absolute path, size in bytes, rows in all, and rows of each row group."""

    path: str
    size: int
    rows: int
    row_groups: list[int]


@dataclass(frozen=True, slots=True)
class Document:
    """One row. `id` is verbatim as a string, None where null (the caller counts it); a null text is ''."""

    id: str | None
    url: str | None
    text: str


class _Format(Protocol):
    def describe(self, path: str, text: str, id: str) -> CorpusFile: ...
    def rows(self, path: str, row_group: int, start: int, stop: int, text: str, id: str) -> Iterator[Document]: ...


def corpus_files(pattern: str, text: str = "text", id: str = "id") -> list[CorpusFile]:
    """The files of a glob (`**` allowed), a folder (searched in depth) or one file, sorted by absolute path.

    Only footers are read. Names that start with `.` or `_` are left out of a folder. Raises InputError where nothing
    matches, a file has no known format or cannot be read, a column is missing or of a wrong type, or no row exists.
    """
    paths = _matches(pattern)
    files = []
    for path in paths:
        if (kind := _FORMATS.get(Path(path).suffix)) is None:
            formats = " or ".join(_FORMATS)
            raise InputError(
                f"corpus {pattern!r}: {path} is not a {formats} file; name such files, a folder or a glob."
            )
        files.append(kind.describe(path, text, id))
    if not any(file.rows for file in files):
        raise InputError(f"corpus {pattern!r}: its {len(files)} files hold no rows; name a corpus with documents.")
    return files


def read_rows(
    path: str, row_group: int, start: int, stop: int, text: str = "text", id: str = "id"
) -> Iterator[Document]:
    """Stream rows [start, stop) of one row group, a record batch at a time; without a `url` column urls are None."""
    return _FORMATS[Path(path).suffix].rows(path, row_group, start, stop, text, id)


def _matches(pattern: str) -> list[str]:
    target = Path(pattern)
    if target.is_dir():
        inside = [path for path in target.rglob("*") if path.suffix in _FORMATS and path.is_file()]
        found = [str(path) for path in inside if not _hidden(path.relative_to(target))]
        if not found:
            names = ", ".join(sorted(path.name for path in target.iterdir())[:8]) or "nothing"
            raise InputError(
                f"corpus {pattern!r}: the folder has no {' or '.join(_FORMATS)} file; it holds {names}. "
                "Name the folder that holds the documents."
            )
    else:
        found = [path for path in glob.glob(pattern, recursive=True) if os.path.isfile(path)]
        found = [pattern] if target.is_file() else found  # A file whose own name holds * or [ is still that file.
        if not found:
            raise InputError(
                f"corpus {pattern!r}: no file matches (seen from {os.getcwd()}); "
                "give a Parquet file, a folder of them, or a quoted glob such as 'docs/*.parquet'."
            )
    return sorted(os.path.abspath(path) for path in found)


def _hidden(path: Path) -> bool:
    return any(part.startswith((".", "_")) for part in path.parts)


class _Parquet:
    def describe(self, path: str, text: str, id: str) -> CorpusFile:
        try:
            with pq.ParquetFile(path) as file:
                meta, schema = file.metadata, file.schema_arrow
        except (pa.ArrowException, OSError) as error:
            reason = str(error).strip().splitlines()[0].rstrip(".")
            raise InputError(
                f"corpus file {path} cannot be read as Parquet ({reason}); replace or remove it."
            ) from error
        for setting, name, accepted in (("text", text, _is_string), ("id", id, _is_id)):
            if name not in schema.names:
                raise InputError(
                    f"corpus file {path} has no column {name!r} for '{setting}'; its columns are "
                    f"{', '.join(schema.names) or 'none'}. Set corpus.{setting} to one of them."
                )
            if not accepted(schema.field(name).type):
                raise InputError(
                    f"corpus file {path}: column {name!r} holds {schema.field(name).type}, which cannot serve as "
                    f"'{setting}'; set corpus.{setting} to a string column."
                )
        groups = [meta.row_group(number).num_rows for number in range(meta.num_row_groups)]
        return CorpusFile(path, os.path.getsize(path), sum(groups), groups)

    def rows(self, path: str, row_group: int, start: int, stop: int, text: str, id: str) -> Iterator[Document]:
        with pq.ParquetFile(path) as file:
            has_url = "url" in file.schema_arrow.names
            columns = list(dict.fromkeys([id, text, *(["url"] if has_url else [])]))
            first = 0
            # Batches, never the whole column: string columns over 2 GiB cannot be combined into one chunk.
            for batch in file.iter_batches(_ROWS_PER_BATCH, row_groups=[row_group], columns=columns):
                low, high = max(start - first, 0), min(stop - first, batch.num_rows)
                first += batch.num_rows
                if low < high:
                    part = batch.slice(low, high - low)
                    texts, ids = part.column(text).to_pylist(), part.column(id).to_pylist()
                    urls = part.column("url").to_pylist() if has_url else [None] * len(ids)
                    for key, url, body in zip(ids, urls, texts, strict=True):
                        yield Document(None if key is None else str(key), None if url is None else str(url), body or "")
                if first >= stop:
                    return


def _is_string(kind: pa.DataType) -> bool:
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    return pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)


def _is_id(kind: pa.DataType) -> bool:
    return _is_string(kind) or pa.types.is_integer(kind)


_FORMATS: dict[str, _Format] = {".parquet": _Parquet()}
