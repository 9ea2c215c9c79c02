"""The rows of a run's folder, or of the files others keep runs in, and gold from elsewhere put onto them."""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from pipeline.errors import InputError, some
from pipeline.liverag import validate_answers
from pipeline.parts import Row, part_files, read_part
from pipeline.scoring.trec import read_trec


def read_run(folder: Path) -> list[Row]:
    """Every row of a run as it was done last, with every column, by part number and in the part's order.

    A LiveRAG answer file (.jsonl) and a TREC run (.trec, .run) are read too, as far as they go: they know neither gold
    nor failures. Raises InputError where there is no run, a part cannot be read or has no `id`, or two rows have one
    id.
    """
    folder = Path(folder)
    if folder.is_file() and folder.suffix in FILES:
        return FILES[folder.suffix](folder)
    parts = part_files(folder / "answers")
    if not parts:
        raise InputError(
            f"{folder} is not a run: it has no answers/part-*.parquet; {_holds(folder)}; "
            "give the folder that `tartan answer --out` wrote."
        )
    rows = [row for files in parts.values() for row in read_part(files)]
    twice = _twice([row["id"] for row in rows])
    if twice:
        raise InputError(
            f"{folder}/answers: {len(twice)} ids come more than once ({some(twice)}); a stray part is among them."
        )
    return rows


def _read_liverag(path: Path) -> list[Row]:
    """Rows of a valid LiveRAG answer file: an empty answer is an abstention, passages are in their order."""
    if problems := validate_answers(path):
        raise InputError(f"{path}, {problems[0]}")
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8-sig").split("\n") if line.strip()]
    return [
        {
            "id": str(line["id"]),
            "question": line["question"],
            "answer": line["answer"],
            "final_prompt": line["final_prompt"],
            "passages": [
                {"pid": place, "doc_id": document, "text": passage["passage"], "url": None, "score": None}
                for place, passage in enumerate(line["passages"])
                for document in passage["doc_IDs"] or [None]
            ],
            "error": None,
        }
        for line in lines
    ]


def _read_trec_run(path: Path) -> list[Row]:
    """Rows of a TREC run: its documents by falling score; no answers."""
    return [
        {"id": id, "passages": [{"doc_id": document, "score": score} for document, score in found], "error": None}
        for id, found in read_trec(path).items()
    ]


FILES: dict[str, Callable[[Path], list[Row]]] = {
    ".jsonl": _read_liverag,
    ".trec": _read_trec_run,
    ".run": _read_trec_run,
}


def scores_folder(run: Path) -> Path:
    """Where the scores of a run go: into its folder, or beside a file."""
    return run if run.is_dir() else run.with_name(f"{run.name}.scores")


def apply_gold(rows: Sequence[Row], gold: pa.Table) -> list[Row]:
    """The rows with `answers` and `doc_ids` of `gold` (as `read_questions` gives it), matched by id.

    A row that `gold` does not know has no gold afterwards. A question that only `gold` knows is added as a failed row,
    so that a run that lacks questions scores 0 on them. Raises InputError where no id is common, or where a common id
    asks another question in the two.
    """
    asked = {question["id"]: question for question in gold.to_pylist()}
    common = [row for row in rows if row["id"] in asked]
    if not common:
        raise InputError(
            f"None of the {len(asked)} ids of the gold file ({some(list(asked))}) is among the {len(rows)} ids of the "
            f"run ({some([row['id'] for row in rows])}); give the gold of the questions that were answered."
        )
    other = [row["id"] for row in common if not _same(row.get("question"), asked[row["id"]]["question"])]
    if other:
        raise InputError(
            f"{len(other)} of the {len(common)} ids that run and gold file share stand for another question "
            f"({some(other)}); give the gold of the questions that were answered."
        )
    nothing = {"answers": None, "doc_ids": None}
    judged = [row | _gold_of(asked.get(row["id"], nothing)) for row in rows]
    return [*judged, *_missing(rows, asked)]


def with_missing(rows: Sequence[Row], ids: Iterable[str]) -> list[Row]:
    """The rows, and a failed one for each of these questions that has none: a run scores 0 on what it lacks."""
    return [*rows, *_missing(rows, {id: {"id": id, "question": None, "answers": None, "doc_ids": None} for id in ids})]


def _missing(rows: Sequence[Row], asked: Mapping[str, Row]) -> list[Row]:
    known = {row["id"] for row in rows}
    error = {"stage": "run", "kind": "missing", "message": "the run has no row for this question"}
    return [question | {"error": error} for id, question in asked.items() if id not in known]


def _holds(folder: Path) -> str:
    if not folder.is_dir():
        return "it is a file" if folder.exists() else "it does not exist"
    names = sorted(entry.name for entry in folder.iterdir())
    return f"it holds {some(names)}" if names else "it is empty"


def _gold_of(question: Mapping[str, Any]) -> Row:
    return {"answers": question["answers"], "doc_ids": question["doc_ids"]}


def _same(one: str | None, other: str) -> bool:
    """White space and case aside; a run without question texts cannot be compared."""
    return one is None or one.casefold().split() == other.casefold().split()


def _twice(ids: Sequence[str]) -> list[str]:
    return [id for id, times in Counter(ids).items() if times > 1]
