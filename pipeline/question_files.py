"""The records of a question file in whatever form it comes: JSONL, a JSON array, CSV, TSV, Parquet, a data set."""

import csv
import io
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from pipeline.corpus.saved import BY_NAME, named_table, saved_table
from pipeline.errors import InputError

Record = dict[str, Any]
Records = list[tuple[str, Record]]  # (where in its file, counted from 1: "line 3", "item 3" or "row 3"; the record)
FORMS = f"JSONL, a JSON array, .csv, .tsv, .parquet, a folder that save_to_disk wrote, or {BY_NAME}NAME"
LISTS = ("answers", "doc_ids", "Supporting_Documents")  # columns of CSV whose cells may hold a JSON list


def read_records(place: str | Path) -> Records:
    """Every record of a question file, in its order.

    The ending says what a file is; without one of .csv, .tsv and .parquet it is JSONL or, where it is one JSON list as
    a whole, an array. A byte-order mark, CRLF and blank lines are allowed. Cells of CSV are strings ("007", "NA"), and
    an empty one of a gold column is null. Raises InputError, naming file and line, for what cannot be read.
    """
    if str(place).startswith(BY_NAME):
        return _rows(named_table(str(place), "question set"))
    path = Path(place)
    if path.is_dir():
        table = saved_table(str(path), "question set")
        if table is None:
            raise InputError(
                f"The question file {path} is a folder, and none that save_to_disk wrote; give a file in it, or "
                f"{BY_NAME}{path} for a data set in files."
            )
        return _rows(table)
    if not path.is_file():
        raise InputError(f"The question file {path} does not exist; give {FORMS}.")
    ending = path.suffix.lower()
    if ending == ".parquet":
        try:
            return _rows(pq.read_table(path))
        except (pa.ArrowException, OSError) as problem:
            raise InputError(f"{path} cannot be read as Parquet ({str(problem).splitlines()[0]}).") from problem
    text = _text(path)
    return (
        _separated(path, text, "," if ending == ".csv" else "\t") if ending in (".csv", ".tsv") else _json(path, text)
    )


def as_object(line: str, where: str) -> Record:
    """One line of JSONL. Raises InputError where it is no JSON object or holds half a character."""
    try:
        value = json.loads(line)
    except (ValueError, RecursionError) as error:
        shown = line.strip()[:60]
        raise InputError(f"{where}: not JSON ({error}): {shown!r}; write one JSON object a line.") from None
    return _whole(value, where)


def kind_of(value: Any) -> str:
    """What a JSON or Arrow value is, in words."""
    names = {
        bool: "true or false",
        int: "a number",
        float: "a number with a fraction",
        list: "a list",
        dict: "an object",
    }
    if value is None:
        return "null"
    if isinstance(value, str):
        return "a string" if value.strip() else "a blank string"
    return names.get(type(value), f"a {type(value).__name__}")


def example() -> str:
    return '{"id": 1, "question": "Where is the Acropolis?"}'


def _rows(table: pa.Table) -> Records:
    return [(f"row {number}", record) for number, record in enumerate(table.to_pylist(), start=1)]


def _text(path: Path) -> str:
    data = path.read_bytes()
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise InputError(
            f"{path}, line {line}: not UTF-8 text (byte {error.start} of the file); save the question file as UTF-8."
        ) from None


def _json(path: Path, text: str) -> Records:
    if text.lstrip().startswith("[") and (array := _array(path, text)) is not None:
        found = enumerate(array, start=1)
        return [(f"item {number}", _whole(value, f"{path}, item {number}")) for number, value in found]
    # Only "\n" ends a line: str.splitlines would also cut at U+2028, which JSON strings may hold.
    lines = enumerate(text.split("\n"), start=1)
    return [(f"line {number}", as_object(line, f"{path}, line {number}")) for number, line in lines if line.strip()]


def _array(path: Path, text: str) -> list[Any] | None:
    """The file as one JSON array; None where it is JSONL, whose first line then is a list by itself."""
    try:
        return json.loads(text)
    except RecursionError:
        return None
    except json.JSONDecodeError as error:
        try:
            json.loads(text.lstrip().partition("\n")[0])
        except ValueError:
            raise InputError(
                f"{path}, line {error.lineno}: not JSON ({error.msg}, column {error.colno}); the file starts as one "
                "JSON array: close it, or write one object a line."
            ) from None
        return None
    except ValueError:  # a number of more digits than Python reads: the reading line by line names its line
        return None


def _whole(value: Any, where: str) -> Record:
    if not isinstance(value, dict):
        raise InputError(f"{where}: is {kind_of(value)}, not a JSON object; write one such as {example()}.")
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise InputError(f"{where}: holds half of a surrogate pair, which is no character; remove it.") from None
    return value


def _separated(path: Path, text: str, mark: str) -> Records:
    limit = csv.field_size_limit(len(text) + 1)  # by itself the module refuses a cell of more than 128 KiB
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=mark, strict=True)
    records: Records = []
    header: list[str] = []
    line = 1
    try:
        for cells in reader:
            if not header:
                header = _header(path, line, cells)
            elif cells:
                if len(cells) != len(header):
                    raise InputError(
                        f"{path}, line {line}: has {len(cells)} cells, the header has {len(header)}; a cell that holds "
                        "the separator, a quote or a line break is written in double quotes."
                    )
                records.append(
                    (f"line {line}", {name: _cell(name, cell) for name, cell in zip(header, cells, strict=True)})
                )
            line = reader.line_num + 1
    except csv.Error as error:
        raise InputError(f"{path}, line {line}: cannot be read ({error}); check its double quotes.") from None
    finally:
        csv.field_size_limit(limit)
    return records


def _header(path: Path, line: int, cells: list[str]) -> list[str]:
    if twice := next((name for name in cells if cells.count(name) > 1), None):
        raise InputError(f"{path}, line {line}: two columns are called {twice!r}; rename one.")
    return cells


def _cell(name: str, cell: str) -> Any:
    if name not in (*LISTS, "Answer"):
        return cell
    if name in LISTS and cell.lstrip().startswith("["):
        try:
            return json.loads(cell)
        except ValueError:
            return cell
    return cell or None
