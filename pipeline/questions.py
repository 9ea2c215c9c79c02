"""Question files: read whole, checked whole, refused with the line that is wrong."""

import hashlib
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from pipeline.errors import InputError
from pipeline.question_files import Record, example, kind_of, read_records
from pipeline.schema import STRINGS

QUESTIONS = pa.schema([("id", pa.string()), ("question", pa.string()), ("answers", STRINGS), ("doc_ids", STRINGS)])
LIVERAG = {"id": "Index", "question": "Question", "answers": "Answer", "doc_ids": "Supporting_Documents"}
CANONICAL_INTEGER = re.compile(r"0|-?[1-9][0-9]*")


def read_questions(place: str | Path, id_column: str = "id", question_column: str = "question") -> pa.Table:
    """The questions of a file (`question_files.read_records`), in file order, as `QUESTIONS`.

    An id is an integer or a string and is kept verbatim as a string: `"007"` stays `"007"`, `12` becomes `"12"`,
    however many digits it has. `answers` and `doc_ids` are optional: a string and a list of one string mean the same,
    null or no such key gives null (no gold known), and `[]` stays `[]` (known to have none: an unanswerable question).
    Ids in `doc_ids` may be integers too, or objects with a `doc_id`. Other keys are ignored. The public LiveRAG
    benchmark's columns (`LIVERAG`) are taken where a file has them and neither `id` nor `question`.

    Raises InputError, naming file and line, for anything else.
    """
    rows: list[dict[str, Any]] = []
    first: dict[str, str] = {}
    for at, record in read_records(place):
        where = f"{place}, {at}"
        names = _names(record, id_column, question_column)
        id = _id(record, names["id"], where)
        row = {
            "id": id,
            "question": _question(record, names["question"], where),
            "answers": _gold(record, names["answers"], where, ids=False),
            "doc_ids": _gold(record, names["doc_ids"], where, ids=True),
        }
        if first.setdefault(id, at) != at:
            raise InputError(f"{where}: the id {id!r} is already that of {first[id]}; give each question its own id.")
        rows.append(row)
    if not rows:
        raise InputError(f"{place} holds no questions; write one JSON object a line, such as {example()}.")
    return pa.Table.from_pylist(rows, schema=QUESTIONS)


def read_question_set(
    places: Sequence[str | Path], id_column: str = "id", question_column: str = "question"
) -> pa.Table:
    """One or more files as one question set, in the order given.

    A question that files share (same id, same text) is asked once, at its first place; gold that it lacks there comes
    from the later file. Raises InputError where an id has another text in another file, naming both.
    """
    held: dict[str, tuple[str | Path, dict[str, Any]]] = {}
    for place in places:
        for row in read_questions(place, id_column, question_column).to_pylist():
            before, known = held.setdefault(row["id"], (place, row))
            if known["question"] != row["question"]:
                raise InputError(
                    f"the id {row['id']!r} is {known['question'][:60]!r} in {before} and {row['question'][:60]!r} in "
                    f"{place}; give each question its own id."
                )
            for gold in ("answers", "doc_ids"):
                known[gold] = row[gold] if known[gold] is None else known[gold]
    return pa.Table.from_pylist([row for _, row in held.values()], schema=QUESTIONS)


def fingerprint(questions: pa.Table) -> str:
    """sha256 (16 hex digits) of what is asked and its gold, in order; the same in every form of file."""
    lines = (json.dumps(row, sort_keys=True) for row in questions.to_pylist())
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16]


def read_kinds(place: str | Path, key: str, id_column: str = "id") -> dict[str, str]:
    """Question id -> the string under `key`, of the questions that have one. InputError where none has."""
    records = [
        (_id(record, _names(record, id_column, "question")["id"], f"{place}, {at}"), record.get(key))
        for at, record in read_records(place)
    ]
    kinds = {id: value for id, value in records if isinstance(value, str) and value.strip()}
    if not kinds:
        raise InputError(f"{place}: no question has a string under '{key}'; name another key, or leave it out.")
    return kinds


def liverag_id(id: str) -> int | None:
    """The integer an id spells as integers are spelt (`"12"`, `"-3"`), else None (`"007"`, `"fb-001"`)."""
    # Python refuses to convert more than 4,300 digits; nothing that long is a number anyone counts with.
    return int(id) if CANONICAL_INTEGER.fullmatch(id) and len(id) <= 1000 else None


def _names(record: Record, id_column: str, question_column: str) -> dict[str, str]:
    """What the columns are called in this record."""
    if {"Index", "Question"} <= set(record) and not {"id", "question"} & set(record):
        given = {"id": id_column, "question": question_column}
        return LIVERAG | {column: name for column, name in given.items() if name != column}
    return {"id": id_column, "question": question_column, "answers": "answers", "doc_ids": "doc_ids"}


def _id(record: Record, column: str, where: str) -> str:
    value = _required(record, column, where)
    if not _is_id(value):
        raise InputError(f"{where}: '{column}' is {kind_of(value)}; an id is an integer or a string that is not blank.")
    return str(value)


def _question(record: Record, column: str, where: str) -> str:
    value = _required(record, column, where)
    if not isinstance(value, str) or not value.strip():
        raise InputError(f"{where}: '{column}' is {kind_of(value)}; write the question as a string that is not blank.")
    return value


def _required(record: Record, column: str, where: str) -> Any:
    if column not in record:
        has = ", ".join(record) or "nothing"
        raise InputError(
            f"{where}: has no '{column}'; it has {has}; name the right one: --id-column, --question-column."
        )
    return record[column]


def _gold(record: Record, column: str, where: str, ids: bool) -> list[str] | None:
    value = record.get(column)
    if value is None:
        return None
    if ids:
        value = _parsed(value)
    items = _as_list(value)
    items = [item["doc_id"] if ids and isinstance(item, dict) and "doc_id" in item else item for item in items]
    for item in items:
        if not (_is_id(item) if ids else isinstance(item, str) and item.strip()):
            place = f"an item of '{column}'" if isinstance(value, list) else f"'{column}'"
            raise InputError(
                f"{where}: {place} is {kind_of(item)}; '{column}' is a string or a list of strings that are not blank "
                "([] where there is none)."
            )
    return [str(item) for item in items]


def _parsed(value: Any) -> Any:
    """Documents spelt as JSON: a list, or objects with commas between, in one string or in the strings of a list."""
    if isinstance(value, list):
        spelt = [isinstance(item, str) and item.lstrip().startswith("{") for item in value]
        found = [_parsed(item) if of_objects else item for item, of_objects in zip(value, spelt, strict=True)]
        return found if not any(spelt) else [part for item in found for part in _as_list(item)]
    if isinstance(value, str) and value.lstrip().startswith(("{", "[")):
        try:
            return json.loads(f"[{value}]" if value.lstrip().startswith("{") else value)
        except ValueError:
            return value
    return value


def _as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _is_id(value: Any) -> bool:
    """bool is a kind of int in Python, but `true` is not an id."""
    return (isinstance(value, int) and not isinstance(value, bool)) or (isinstance(value, str) and bool(value.strip()))
