"""`tartan validate`: LiveRAG answer files, TREC runs and qrels, line by line."""

from pathlib import Path
from typing import Annotated, Literal

import typer

Kind = Literal["liverag", "run", "qrels"]
KINDS: dict[Kind, str] = {"liverag": "LiveRAG answers", "run": "TREC run", "qrels": "TREC qrels"}


def validate(
    file: Annotated[Path, typer.Argument(help="answers.jsonl, run.trec or qrels.txt")],
    kind: Annotated[Kind | None, typer.Option("--as", help="What it is; else its name says so.")] = None,
) -> int:
    """Check a file line by line; exit code 1 with every problem listed: its line, and the rule it breaks.

    A name that ends in .trec or .run is a TREC run, one with "qrels" in it qrels, any other a LiveRAG answer file.

    Examples:

        tartan validate run/answers.jsonl

        tartan validate run/run.trec

        tartan validate judgements.txt --as qrels
    """
    from pipeline.errors import InputError
    from pipeline.liverag import validate_answers
    from pipeline.scoring.trec import trec_problems

    if not file.is_file():
        raise InputError(f"{file}: no such file; a run's answers are in RUN/answers.jsonl")
    kind = kind or _kind(file)
    problems = validate_answers(file) if kind == "liverag" else trec_problems(file, kind)
    for problem in problems:
        print(f"{file}: {problem}")
    if not problems:
        print(f"{file}: valid ({KINDS[kind]})")
    return 1 if problems else 0


def _kind(file: Path) -> Kind:
    if "qrels" in file.name:
        return "qrels"
    return "run" if file.suffix in (".trec", ".run") else "liverag"


if __name__ == "__main__":
    from jobs.cli import run_alone

    run_alone("validate")
