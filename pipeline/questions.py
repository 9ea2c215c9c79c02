"""Question files: read whole, checked whole, refused with the line that is wrong."""

import json
import re
from pathlib import Path
from typing import Any

import pyarrow as pa

from pipeline.errors import InputError
from pipeline.schema import STRINGS

QUESTIONS = pa.schema([("id", pa.string()), ("question", pa.string()), ("answers", STRINGS), ("doc_ids", STRINGS)])
CANONICAL_INTEGER = re.compile(r"0|-?[1-9][0-9]*")


def read_questions(path: Path, id_column: str = "id", question_column: str = "question") -> pa.Table:
    """The questions of a JSONL file, in file order, as `QUESTIONS`.

    An id is an integer or a string and is kept verbatim as a string: `"007"` stays `"007"`, `12` becomes `"12"`,
    however many digits it has. `answers` and `doc_ids` are optional: a string and a list of one string mean the same,
    null or no such key gives null (no gold known), and `[]` stays `[]` (known to have none: an unanswerable question).
    Ids in `doc_ids` may be integers too. Other keys are ignored. A byte-order mark, CRLF and blank lines are allowed.

    Raises InputError, naming file and line, for anything else.
    """
    path = Path(path)
    rows: list[dict[str, Any]] = []
    line_of: dict[str, int] = {}
    for number, record in _records(path):
        where = f"{path}, line {number}"
        id = _id(record, id_column, where)
        row = {
            "id": id,
            "question": _question(record, question_column, where),
            "answers": _gold(record, "answers", where, ids=False),
            "doc_ids": _gold(record, "doc_ids", where, ids=True),
        }
        first = line_of.setdefault(id, number)
        if first != number:
            raise InputError(f"{where}: the id {id!r} is already that of line {first}; give each question its own id.")
        rows.append(row)
    if not rows:
        raise InputError(f"{path} holds no questions; write one JSON object a line, such as {_example()}.")
    return pa.Table.from_pylist(rows, schema=QUESTIONS)


def read_kinds(path: Path, key: str, id_column: str = "id") -> dict[str, str]:
    """Question id -> the string under `key`, of the questions that have one. InputError where none has."""
    records = [(_id(record, id_column, f"{path}, line {number}"), record.get(key)) for number, record in _records(path)]
    kinds = {id: value for id, value in records if isinstance(value, str) and value.strip()}
    if not kinds:
        raise InputError(f"{path}: no question has a string under '{key}'; name another key, or leave it out.")
    return kinds


def liverag_id(id: str) -> int | None:
    """The integer an id spells as integers are spelt (`"12"`, `"-3"`), else None (`"007"`, `"fb-001"`)."""
    # Python refuses to convert more than 4,300 digits; nothing that long is a number anyone counts with.
    return int(id) if CANONICAL_INTEGER.fullmatch(id) and len(id) <= 1000 else None


def _records(path: Path) -> list[tuple[int, dict[str, Any]]]:
    """(line number from 1, object) of every line that is not blank."""
    if not path.is_file():
        kind = "is a folder, not a file" if path.is_dir() else "does not exist"
        raise InputError(f"The question file {path} {kind}; give a JSONL file with one question a line.")
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is not UTF-8 text (byte {error.start}); a question file is JSONL in UTF-8.") from None
    if text.lstrip().startswith("["):
        _refuse_array(path, text)
    # Only "\n" ends a line: str.splitlines would also cut at U+2028, which JSON strings may hold.
    lines = enumerate(text.split("\n"), start=1)
    return [(number, _object(line, f"{path}, line {number}")) for number, line in lines if line.strip()]


def _refuse_array(path: Path, text: str) -> None:
    try:
        array = json.loads(text)
    except (ValueError, RecursionError):
        return  # not one JSON array either: the line by line reading says what is wrong
    raise InputError(
        f"{path} is one JSON array of {len(array)} items, not JSONL; write one object a line (jq -c '.[]' does it)."
    )


def _object(line: str, where: str) -> dict[str, Any]:
    try:
        record = json.loads(line)
        json.dumps(record, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise InputError(f"{where}: holds half of a surrogate pair, which is no character; remove it.") from None
    except (ValueError, RecursionError) as error:
        shown = line.strip()[:60]
        raise InputError(f"{where}: not JSON ({error}): {shown!r}; write one JSON object a line.") from None
    if not isinstance(record, dict):
        raise InputError(f"{where}: is {_kind(record)}, not a JSON object; write one such as {_example()}.")
    return record


def _id(record: dict[str, Any], column: str, where: str) -> str:
    value = _required(record, column, where)
    if not _is_id(value):
        raise InputError(f"{where}: '{column}' is {_kind(value)}; an id is an integer or a string that is not blank.")
    return str(value)


def _question(record: dict[str, Any], column: str, where: str) -> str:
    value = _required(record, column, where)
    if not isinstance(value, str) or not value.strip():
        raise InputError(f"{where}: '{column}' is {_kind(value)}; write the question as a string that is not blank.")
    return value


def _required(record: dict[str, Any], column: str, where: str) -> Any:
    if column not in record:
        has = ", ".join(record) or "nothing"
        raise InputError(f"{where}: has no '{column}'; it has {has}; rename one of these keys.")
    return record[column]


def _gold(record: dict[str, Any], column: str, where: str, ids: bool) -> list[str] | None:
    value = record.get(column)
    if value is None:
        return None
    items = value if isinstance(value, list) else [value]
    for item in items:
        if not (_is_id(item) if ids else isinstance(item, str) and item.strip()):
            place = f"an item of '{column}'" if isinstance(value, list) else f"'{column}'"
            raise InputError(
                f"{where}: {place} is {_kind(item)}; '{column}' is a string or a list of strings that are not blank "
                "([] where there is none)."
            )
    return [str(item) for item in items]


def _is_id(value: Any) -> bool:
    """bool is a kind of int in Python, but `true` is not an id."""
    return (isinstance(value, int) and not isinstance(value, bool)) or (isinstance(value, str) and bool(value.strip()))


def _kind(value: Any) -> str:
    """What a JSON value is, in words."""
    names = {
        bool: "true or false",
        int: "a number",
        float: "a number with a fraction",
        list: "a list",
        dict: "an object",
    }
    if value is None:
        return "null"
    return ("a string" if value.strip() else "a blank string") if isinstance(value, str) else names[type(value)]


def _example() -> str:
    return '{"id": 1, "question": "Where is the Acropolis?"}'
