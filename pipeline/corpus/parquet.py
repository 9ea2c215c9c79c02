"""Parquet files, read a few rows at a time whatever the size of their row groups."""

from collections.abc import Iterator
from hashlib import sha256

import pyarrow as pa
import pyarrow.parquet as pq

from pipeline.corpus.document import (
    ROWS_PER_BATCH,
    BadFileError,
    Columns,
    CorpusFile,
    Document,
    check_columns,
    documents_of,
)
from pipeline.corpus.location import is_damage, open_file, reason_of

_BUFFER = 4 << 20  # bytes of a column chunk held at once; without it the whole chunk is read first


class Parquet:
    def describe(self, path: str, size: int, columns: Columns) -> CorpusFile:
        """Reads the footer alone."""
        try:
            with open_file(path) as source, pq.ParquetFile(source) as file:
                meta, schema = file.metadata, file.schema_arrow
                digest = sha256(_footer(source)).hexdigest()[:16]
        except (pa.ArrowException, OSError) as problem:
            raise _as_bad(path, size, problem) from problem
        check_columns(path, schema, columns)
        groups = [meta.row_group(number).num_rows for number in range(meta.num_row_groups)]
        return CorpusFile(path, size, sum(groups), groups, digest, optional=tuple(columns.there(schema.names)))

    def rows(
        self, path: str, row_group: int, start: int, stop: int, columns: Columns, offset: int
    ) -> Iterator[Document]:
        # Batches, never the whole column: string columns over 2 GiB cannot be combined into one chunk.
        try:
            with open_file(path) as source, pq.ParquetFile(source, buffer_size=_BUFFER) as file:
                there = columns.there(file.schema_arrow.names)
                first = 0
                for batch in file.iter_batches(ROWS_PER_BATCH, row_groups=[row_group], columns=there):
                    low, high = max(start - first, 0), min(stop - first, batch.num_rows)
                    first += batch.num_rows
                    if low < high:
                        yield from documents_of(batch.slice(low, high - low), columns)
                    if first >= stop:
                        return
        except (pa.ArrowException, OSError) as problem:
            raise _as_bad(path, None, problem) from problem


def _footer(source: pa.NativeFile) -> bytes:
    """The last 8 bytes of a file are its footer's length and a mark."""
    end = source.size() - 8
    length = int.from_bytes(source.read_at(4, end), "little")
    return bytes(source.read_at(length, end - length))


def _as_bad(path: str, size: int | None, problem: Exception) -> Exception:
    if not is_damage(problem):
        return problem
    held = "" if size is None else f"its {size} bytes "
    return BadFileError(path, f"is damaged: {held}cannot be read as Parquet ({reason_of(problem)})")
