"""Finding a corpus's files and streaming its documents.

A format is a class with the methods of `Format`, in `_FORMATS` by file suffix.
"""

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Literal

from pipeline.corpus.document import BadFile, BadFileError, Columns, CorpusFile, Document, Format
from pipeline.corpus.jsonl import JsonLines
from pipeline.corpus.location import failures, find_files, list_folder, reason_of
from pipeline.corpus.parquet import Parquet
from pipeline.corpus.saved import BY_NAME, ArrowFile, NamedDataset, saved_files
from pipeline.errors import InputError, some

_DESCRIBED_AT_ONCE = 16  # files; over a network most of the time is waiting
_JSON = JsonLines()
_PACKED = ("", ".gz", ".zst")
_FORMATS: dict[str, Format] = {
    ".parquet": Parquet(),
    **{f"{suffix}{packed}": _JSON for suffix in (".jsonl", ".ndjson", ".json") for packed in _PACKED},
    ".arrow": ArrowFile(),
}
_NAMED = NamedDataset()
_IN_A_FOLDER = (
    (".parquet",),
    (".arrow",),
    tuple(f"{suffix}{packed}" for suffix in (".jsonl", ".ndjson") for packed in _PACKED),
    tuple(f".json{packed}" for packed in _PACKED),
)


@dataclass(frozen=True)
class Corpus:
    """The files of a corpus in its order, and those that were left out because they are damaged."""

    files: list[CorpusFile]
    bad_files: list[BadFile]


def corpus_files(pattern: str, columns: Columns = Columns(), on_bad_file: Literal["error", "skip"] = "error") -> Corpus:
    """The files of a glob (`**` allowed), a folder (searched in depth), one file or a data set, sorted by address.

    Addresses are local, `s3://`, `hf://` or `hf-dataset:`. Of Parquet files only footers are read, JSONL files are read
    once. Names that start with `.` or `_` are left out of a folder, and it is read in one format, the first of those it
    holds in the order of `_IN_A_FOLDER`: beside Parquet, JSON files are questions or descriptions.
    Raises InputError where nothing matches, a file has no known format, a column is missing or of a wrong type, or no
    row exists, and BadFileError naming the damaged files unless these are to be skipped.
    """
    found = [(pattern, 0)] if pattern.startswith(BY_NAME) else sorted(_matches(pattern))
    for path, _ in found:
        if _format(path) is None:
            raise InputError(
                f"corpus {pattern!r}: {path} is not a {_known()} file; name such files, a folder or a glob."
            )

    def describe(entry: tuple[str, int]) -> CorpusFile | BadFile:
        path, size = entry
        try:
            return _of(path).describe(path, size, columns)
        except BadFileError as problem:
            return problem.bad_file
        except failures(path) as problem:
            raise InputError(f"corpus file {path} cannot be opened ({reason_of(problem)}).") from problem

    with ThreadPoolExecutor(_DESCRIBED_AT_ONCE) as pool:
        described = list(pool.map(describe, found))
    files = [file for file in described if isinstance(file, CorpusFile)]
    bad = [file for file in described if isinstance(file, BadFile)]
    if bad and on_bad_file == "error":
        raise BadFileError(bad[0].path, bad[0].reason, others=[file.path for file in bad[1:]])
    if not any(file.rows for file in files):
        also = f" and {len(bad)} are damaged (the first, {bad[0].path}, {bad[0].reason})" if bad else ""
        raise InputError(
            f"corpus {pattern!r}: its {len(files)} files hold no rows{also}; name a corpus with documents."
        )
    _check_optional(pattern, files, columns)
    return Corpus(files, bad)


def read_rows(
    path: str, row_group: int, start: int, stop: int, columns: Columns = Columns(), offset: int = 0
) -> Iterator[Document]:
    """Stream rows [start, stop) of one row group, a few at a time. `offset`: the row group's, where the file has
    offsets. Raises BadFileError where the file turns out to be damaged, after the rows before the damage."""
    return _of(path).rows(path, row_group, start, stop, columns, offset)


def _of(path: str) -> Format:
    kind = _format(path)
    if kind is None:
        raise InputError(f"corpus file {path} is not a {_known()} file.")
    return kind


def _format(path: str) -> Format | None:
    if path.startswith(BY_NAME):
        return _NAMED
    return next((kind for suffix, kind in _FORMATS.items() if path.endswith(suffix)), None)


def _known() -> str:
    return ".parquet, .jsonl, .ndjson, .json (also .gz, .zst) or .arrow"


def _check_optional(pattern: str, files: list[CorpusFile], columns: Columns) -> None:
    there = {name for file in files for name in file.optional}
    for setting, name in columns.optional.items():
        if name not in there and (setting, name) != ("url", Columns.url):  # addresses are a bonus unless asked for
            raise InputError(
                f"corpus {pattern!r}: no file has a column {name!r} for '{setting}'; set corpus.{setting} to one that "
                "is there."
            )


def _matches(pattern: str) -> list[tuple[str, int]]:
    folder = pattern if "://" in pattern else os.path.abspath(pattern)
    files = list_folder(folder)
    if files is None:
        if found := find_files(pattern):
            return found
        raise InputError(
            f"corpus {pattern!r}: no file matches (seen from {os.getcwd()}); "
            "give a file, a folder of them, or a quoted glob such as 'docs/*.parquet'."
        )
    inside = saved_files(folder, files)
    if inside is None:
        shown = [(name, size) for name, size in files if not _hidden(name)]
        kinds = ([entry for entry in shown if entry[0].endswith(suffixes)] for suffixes in _IN_A_FOLDER)
        inside = next(filter(None, kinds), [])
    if not inside:
        names = some(sorted({name.split("/")[0] for name, _ in files}), 8) or "nothing"
        raise InputError(
            f"corpus {pattern!r}: the folder has no {_known()} file; it holds {names}. "
            "Name the folder that holds the documents."
        )
    return [(f"{folder.rstrip('/')}/{name}", size) for name, size in inside]


def _hidden(name: str) -> bool:
    return any(part.startswith((".", "_")) for part in name.split("/"))
