"""TREC files: runs, `qid Q0 docid rank score tag`, and qrels, `qid 0 docid grade`; one document a line."""

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal
from urllib.parse import unquote

from pipeline.errors import InputError
from pipeline.scoring.retrieval import Gold, document_ranking, grades
from pipeline.storage import write_file

UNSAFE = re.compile(r"[\s%]")
INTEGER = re.compile(r"-?[0-9]+")
Kind = Literal["run", "qrels"]
FIELDS: dict[Kind, str] = {"run": "qid Q0 docid rank score tag", "qrels": "qid 0 docid grade"}


def write_trec(rows: Iterable[Mapping[str, Any]], path: Path, tag: str = "tartan") -> None:
    """Write the documents of the rows' `passages`, in their order, each at its best passage; rank counts from 1.

    Evaluators sort by score, not by rank, so the scores must fall strictly. If the passages' own scores do in every
    question, they are written; if not in one (passages of several queries, ties), the whole file has 1 / rank, because
    one file with two kinds of score misleads whoever fuses it. The fields are separated by blanks, so white space and
    `%` in ids are percent-encoded (`urllib.parse.unquote` reads them back); nothing else is changed.
    """
    rankings = [(row["id"], document_ranking(row.get("passages") or [])) for row in rows]
    own = all(_falls([score for _, score in ranking]) for _, ranking in rankings)
    lines = [
        f"{_field(id)} Q0 {_field(document)} {rank} {score if own else 1 / rank!r} {_field(tag)}\n"
        for id, ranking in rankings
        for rank, (document, score) in enumerate(ranking, start=1)
    ]
    write_file(path, "".join(lines).encode())


def write_qrels(gold: Mapping[str, Gold], path: Path) -> None:
    """Write the documents of questions with gold, in their order, with their grades (1 where there are none)."""
    lines = [
        f"{_field(id)} 0 {_field(document)} {grade}\n"
        for id, documents in gold.items()
        for document, grade in grades(documents).items()
    ]
    write_file(path, "".join(lines).encode())


def read_trec(path: Path) -> dict[str, list[tuple[str, float]]]:
    """question id -> (document id, score), by falling score, equal ones by falling id, as trec_eval sorts them.

    Raises InputError with the first problem.
    """
    found: dict[str, list[tuple[str, float]]] = {}
    for id, _, document, _, score, _ in _checked(path, "run"):
        found.setdefault(unquote(id), []).append((unquote(document), float(score)))
    return {id: sorted(hits, key=lambda hit: (hit[1], hit[0]), reverse=True) for id, hits in found.items()}


def read_qrels(path: Path) -> dict[str, dict[str, int]]:
    """question id -> document id -> grade. Raises InputError with the first problem."""
    found: dict[str, dict[str, int]] = {}
    for id, _, document, grade in _checked(path, "qrels"):
        found.setdefault(unquote(id), {})[unquote(document)] = int(grade)
    return found


def trec_problems(path: Path, kind: Kind) -> list[str]:
    """What is wrong with a TREC file, as `line 3: ...`, with the rule; an empty list if nothing is.

    Every line has its number of fields; rank is an integer from 0, score a finite number, grade an integer; a document
    comes once a question. Raises InputError if there is no such file.
    """
    problems: list[str] = []
    line_of: dict[tuple[str, str], int] = {}
    for number, fields in _lines(path):
        if len(fields) != len(FIELDS[kind].split()):
            wants = FIELDS[kind]
            problems.append(f"line {number}: has {len(fields)} fields; a line of a {kind} file is `{wants}`")
            continue
        problems += [f"line {number}: {problem}" for problem in _wrong(fields, kind)]
        first = line_of.setdefault((fields[0], fields[2]), number)
        if first != number:
            problems.append(f"line {number}: document {fields[2]} of question {fields[0]} is already in line {first}")
    return problems if line_of or problems else ["line 1: the file holds nothing"]


def _wrong(fields: list[str], kind: Kind) -> Iterator[str]:
    if kind == "qrels":
        if not INTEGER.fullmatch(fields[3]):
            yield f"the grade {fields[3]!r} is no integer"
        return
    if not fields[3].isdecimal():
        yield f"the rank {fields[3]!r} is no integer from 0"
    try:
        finite = math.isfinite(float(fields[4]))
    except ValueError:
        finite = False
    if not finite:
        yield f"the score {fields[4]!r} is no finite number"


def _checked(path: Path, kind: Kind) -> list[list[str]]:
    if problems := trec_problems(path, kind):
        raise InputError(f"{path}, {problems[0]}.")
    return [fields for _, fields in _lines(path)]


def _lines(path: Path) -> list[tuple[int, list[str]]]:
    if not path.is_file():
        raise InputError(f"The file {path} does not exist or is no file; give a TREC file, such as a run's run.trec.")
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as problem:
        raise InputError(f"{path} is not UTF-8 text (byte {problem.start}).") from None
    return [(number, line.split()) for number, line in enumerate(text.split("\n"), start=1) if line.strip()]


def _falls(scores: list[float | None]) -> bool:
    finite = [score for score in scores if score is not None and math.isfinite(score)]
    return len(finite) == len(scores) and all(above > below for above, below in pairwise(finite))


def _field(text: str) -> str:
    return UNSAFE.sub(lambda match: "".join(f"%{byte:02X}" for byte in match[0].encode()), text)
