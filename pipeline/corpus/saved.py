"""Hugging Face data sets: a folder that `save_to_disk` wrote (Arrow files), and one named as on the hub.

By name: `hf-dataset:NAME[@REVISION][:CONFIG[:SPLIT]]`, the split being train where none is given; NAME is a name on the
hub or a local folder, whatever `datasets.load_dataset` takes. Each machine prepares it in its own cache.
"""

import json
import posixpath
from collections.abc import Iterator
from functools import lru_cache
from hashlib import file_digest, sha256
from typing import Any

import pyarrow as pa

from pipeline.corpus.document import (
    ROWS_PER_BATCH,
    BadFileError,
    Columns,
    CorpusFile,
    Document,
    check_columns,
    documents_of,
)
from pipeline.corpus.location import is_damage, list_folder, open_file, reason_of
from pipeline.errors import InputError

BY_NAME = "hf-dataset:"


class ArrowFile:
    """An Arrow file as `datasets` writes them: one stream of record batches, in which batches are skipped unread."""

    def describe(self, path: str, size: int, columns: Columns) -> CorpusFile:
        rows = 0
        for batch in _batches(path):
            rows += batch.num_rows
        schema = _schema(path)
        check_columns(path, schema, columns)
        with open_file(path) as file:
            digest = file_digest(file, "sha256").hexdigest()[:16]
        return CorpusFile(path, size, rows, [rows], digest, optional=tuple(columns.there(schema.names)))

    def rows(
        self, path: str, row_group: int, start: int, stop: int, columns: Columns, offset: int
    ) -> Iterator[Document]:
        first = 0
        for batch in _batches(path):
            low, high = max(start - first, 0), min(stop - first, batch.num_rows)
            first += batch.num_rows
            for row in range(low, high, ROWS_PER_BATCH):
                yield from documents_of(batch.slice(row, min(ROWS_PER_BATCH, high - row)), columns)
            if first >= stop:
                return


class NamedDataset:
    """A data set by name, as one file with one row group."""

    def describe(self, path: str, size: int, columns: Columns) -> CorpusFile:
        data = _load(path)
        check_columns(path, data.features.arrow_schema, columns)
        held = data.dataset_size or data.data.nbytes
        names = tuple(columns.there(data.column_names))
        return CorpusFile(path, held, len(data), [len(data)], _digest(data), optional=names)

    def rows(
        self, path: str, row_group: int, start: int, stop: int, columns: Columns, offset: int
    ) -> Iterator[Document]:
        data = _load(path)
        data = data.select_columns(columns.there(data.column_names)).select(range(start, stop))
        for table in data.with_format("arrow").iter(ROWS_PER_BATCH):
            yield from documents_of(table, columns)


def _digest(data: Any) -> str:
    """Of the files that the data set was made from: on the hub addresses with their commit, else names and sizes. Its
    own fingerprint has times of this machine's cache in it."""
    made_from = (data.info.download_checksums or {}).items()
    names = [(place if "://" in place else posixpath.basename(place), facts["num_bytes"]) for place, facts in made_from]
    return sha256(repr(sorted(names)).encode()).hexdigest()[:16]


def saved_table(folder: str, what: str) -> pa.Table | None:
    """All rows of a data set saved in this folder; None where it is none. `what` it is, for errors."""
    found = saved_files(folder, list_folder(folder) or [], what)
    if found is None:
        return None
    try:
        return pa.concat_tables([_reader(posixpath.join(folder, name)).read_all() for name, _ in found])
    except (pa.ArrowException, OSError) as problem:
        raise InputError(f"{what} {folder!r} is damaged ({reason_of(problem)}); save it again.") from problem


def named_table(path: str, what: str) -> pa.Table:
    """All rows of the data set that `hf-dataset:...` names."""
    return _load(path, what).with_format("arrow")[:]


def saved_files(folder: str, files: list[tuple[str, int]], what: str = "corpus") -> list[tuple[str, int]] | None:
    """Of a folder's files, those that hold the rows of a saved data set; None where it is none.

    Raises InputError where the folder holds several splits: which one is meant must be said.
    """
    sizes = dict(files)
    if "dataset_dict.json" in sizes:
        splits = json.loads(_read(posixpath.join(folder, "dataset_dict.json")))["splits"]
        if len(splits) != 1:
            raise InputError(
                f"{what} {folder!r} is a saved data set of {len(splits)} splits ({', '.join(splits)}); name one of "
                f"them, such as {posixpath.join(folder, splits[0])!r}."
            )
        inside = [(name.split("/", 1)[1], size) for name, size in files if name.startswith(f"{splits[0]}/")]
        found = saved_files(posixpath.join(folder, splits[0]), inside, what)
        return found and [(f"{splits[0]}/{name}", size) for name, size in found]
    if "state.json" not in sizes:
        return None
    state = json.loads(_read(posixpath.join(folder, "state.json")))
    names = [part["filename"] for part in state.get("_data_files") or []]
    if absent := [name for name in names if name not in sizes]:
        raise InputError(f"{what} {folder!r}: its state.json names {absent[0]}, which is not there; save it again.")
    return sorted((name, sizes[name]) for name in names)


def _read(path: str) -> bytes:
    with open_file(path) as file:
        return file.read()


def _reader(path: str) -> pa.RecordBatchReader:
    source = open_file(path) if "://" in path else pa.memory_map(path)
    return pa.ipc.open_stream(source)


def _schema(path: str) -> pa.Schema:
    return _reader(path).schema


def _batches(path: str) -> Iterator[pa.RecordBatch]:
    try:
        yield from _reader(path)
    except (pa.ArrowException, OSError) as problem:
        if is_damage(problem):
            raise BadFileError(path, f"is damaged: not an Arrow stream ({reason_of(problem)})") from problem
        raise


@lru_cache(maxsize=4)
def _load(path: str, what: str = "corpus") -> Any:
    import datasets

    name, _, rest = path.removeprefix(BY_NAME).partition(":")
    name, _, revision = name.partition("@")
    config, _, split = rest.partition(":")
    try:
        data = datasets.load_dataset(name, config or None, split=split or "train", revision=revision or None)
    except (OSError, ValueError, datasets.exceptions.DatasetsError) as problem:
        raise InputError(
            f"{what} {path!r}: the data set cannot be loaded ({reason_of(problem)}); give "
            f"{BY_NAME}NAME[@REVISION][:CONFIG[:SPLIT]] of one that is on the hub or in a local folder."
        ) from problem
    return data
