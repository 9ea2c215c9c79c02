"""LiveRAG answer files: one JSON object a line, as the SIGIR 2025 challenge wants them (arXiv 2507.04942).

The schema is `configs/schemas/liverag-answers.schema.json` (draft-07): the challenge's fields, all required, `id` an
integer; keys beyond them are allowed, as they are there.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipeline.errors import InputError
from pipeline.questions import liverag_id
from pipeline.storage import write_file

if TYPE_CHECKING:
    from jsonschema import Draft7Validator

SCHEMA = Path(__file__).parents[1] / "configs" / "schemas" / "liverag-answers.schema.json"


def answer_ids(ids: Sequence[str]) -> list[int]:
    """The integers a LiveRAG file uses for the ids of a question set, given in file order.

    If every id is written as integers are, these are the integers. If one is not (`"fb-001"`, `"007"`), all of them
    become the question's 0-based position in the file, because the schema knows integers alone and a mixture of ids and
    positions could name two questions alike.
    """
    integers = [liverag_id(id) for id in ids]
    known = [integer for integer in integers if integer is not None]
    return known if len(known) == len(integers) else list(range(len(integers)))


def renumbered(ids: Sequence[str]) -> bool:
    """Whether `answer_ids` has to number the questions because not all ids are integers."""
    return any(liverag_id(id) is None for id in ids)


def answer_line(row: Mapping[str, Any], id: int) -> dict[str, Any]:
    """The LiveRAG object of one row of a run.

    Its passages are the evidence, most important first: the snippets that were kept where the system filters snippets
    (none kept: no evidence), else the passages. Equal texts are one passage with the documents of all; a generated one
    has no document. No answer, as in a failed row, is the empty string, which the challenge counts as an abstention.
    """
    documents: dict[str, list[str]] = {}
    for item in _evidence(row):
        found = documents.setdefault(item["text"], [])
        if item["doc_id"] is not None and item["doc_id"] not in found:
            found.append(item["doc_id"])
    return {
        "id": id,
        "question": row["question"],
        "passages": [{"passage": text, "doc_IDs": found} for text, found in documents.items()],
        "final_prompt": row.get("final_prompt") or "",
        "answer": row.get("answer") or "",
    }


def _evidence(row: Mapping[str, Any]) -> list[dict[str, Any]]:
    if row.get("snippets") is None:
        return row.get("passages") or []
    return [snippet for snippet in row["snippets"] if snippet["kept"]]


def write_answers(rows: Iterable[Mapping[str, Any]], path: Path) -> None:
    """Write the rows of a whole question set, in its order, as a LiveRAG file; it appears complete or not at all.

    They are gone through twice, and may be read anew each time: there may be too many to hold.
    """
    ids = answer_ids([row["id"] for row in rows])
    lines = (json.dumps(answer_line(row, id), ensure_ascii=False) for row, id in zip(rows, ids, strict=True))
    write_file(path, (f"{line}\n".encode() for line in lines))


def validate_answers(path: Path) -> list[str]:
    """What is wrong with a LiveRAG answer file, as `line 3: ...`; an empty list if nothing is.

    Beyond the schema, a line must be strict JSON (no NaN) in UTF-8, and no id may come twice. Raises InputError if
    there is no such file.
    """
    path = Path(path)
    if not path.is_file():
        raise InputError(f"The answer file {path} does not exist or is no file; give the answers.jsonl of a run.")
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = error.object[: error.start].count(b"\n")
        return [f"line {before + 1}: not UTF-8 (byte {error.start} of the file)"]
    problems: list[str] = []
    line_of: dict[int, int] = {}
    lines = [(number, line) for number, line in enumerate(text.split("\n"), start=1) if line.strip()]
    for number, line in lines:
        try:
            record = json.loads(line, parse_constant=_refuse_constant)
        except (ValueError, RecursionError) as error:
            problems.append(f"line {number}: not JSON ({error})")
            continue
        found = [f"line {number}: {problem}" for problem in _schema_problems(record)]
        problems += found
        if not found and line_of.setdefault(record["id"], number) != number:
            problems.append(f"line {number}: the id {record['id']} is already that of line {line_of[record['id']]}")
    return problems if lines else ["line 1: the file holds no answers"]


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def _schema_problems(record: Any) -> list[str]:
    errors = sorted(_validator().iter_errors(record), key=lambda error: (error.json_path, error.message))
    # A message repeats the offending value, which can be a whole line.
    return [f"{error.json_path}: {_short(error.message)}" for error in errors]


def _short(message: str, most: int = 160) -> str:
    return message if len(message) <= most else f"{message[: most // 2]} ... {message[-most // 2 :]}"


@cache
def _validator() -> "Draft7Validator":
    from jsonschema import Draft7Validator

    schema = json.loads(SCHEMA.read_text(encoding="utf-8"))
    Draft7Validator.check_schema(schema)
    return Draft7Validator(schema)
