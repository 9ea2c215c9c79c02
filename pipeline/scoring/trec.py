"""TREC run files: `qid Q0 docid rank score tag`, one retrieved document a line."""

import math
import re
from collections.abc import Iterable, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

from pipeline.scoring.retrieval import document_ranking
from pipeline.storage import write_file

UNSAFE = re.compile(r"[\s%]")


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


def _falls(scores: list[float | None]) -> bool:
    finite = [score for score in scores if score is not None and math.isfinite(score)]
    return len(finite) == len(scores) and all(above > below for above, below in pairwise(finite))


def _field(text: str) -> str:
    return UNSAFE.sub(lambda match: "".join(f"%{byte:02X}" for byte in match[0].encode()), text)
