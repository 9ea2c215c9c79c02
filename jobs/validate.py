"""`tartan validate`: a LiveRAG answer file against its schema."""

from pathlib import Path
from typing import Annotated

import typer


def validate(file: Annotated[Path, typer.Argument(help="answers.jsonl")]) -> int:
    """Check a LiveRAG answer file line by line; exit code 1 with every problem listed.

    Example:

        tartan validate run/answers.jsonl
    """
    from pipeline.errors import InputError
    from pipeline.liverag import validate_answers

    if not file.is_file():
        raise InputError(f"{file}: no such file; a run's answers are in RUN/answers.jsonl")
    problems = validate_answers(file)
    for problem in problems:
        print(f"{file}: {problem}")
    if not problems:
        print(f"{file}: valid")
    return 1 if problems else 0


if __name__ == "__main__":
    from jobs.cli import run_alone

    run_alone("validate")
