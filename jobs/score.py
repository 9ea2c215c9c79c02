"""`tartan score`: a run's metrics with intervals."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from jobs.options import JsonOption

if TYPE_CHECKING:
    from pipeline.scoring.table import ScoreTable


def score(
    run: Annotated[Path, typer.Argument(help="Folder that `tartan answer --out` wrote.")],
    gold: Annotated[Path | None, typer.Option("--gold", help="Question file whose answers and doc_ids to use.")] = None,
    by: Annotated[
        str | None, typer.Option("--by", metavar="KEY", help="Refusals by kind of question: a key of --gold's lines.")
    ] = None,
    as_json: JsonOption = False,
) -> int:
    """Score a run against its gold: retrieval and answers, with n and 95% intervals.

    Writes RUN/scores.parquet (the table), RUN/question-scores.parquet (every question), and RUN/costs.parquet: calls,
    tokens and seconds of every question in every stage.

    Examples:

        tartan score demo/runs/hltcoe

        tartan score run --gold questions.jsonl --json

        tartan score run --gold configs/questions/negative.jsonl --by kind
    """
    table = score_run(run, gold, by)
    if as_json:
        print(json.dumps(table.summary.to_pylist(), indent=2))
    else:
        from pipeline.scoring.costs import show_costs

        Console().print(table.to_rich())
        Console().print(show_costs(run))
    return 0


def score_run(run: Path, gold: Path | None = None, by: str | None = None) -> "ScoreTable":
    """Scores a run's rows and writes the Parquet files into its folder."""
    from pipeline.errors import InputError
    from pipeline.questions import read_kinds, read_questions
    from pipeline.scoring.costs import write_costs
    from pipeline.scoring.run import apply_gold, read_run
    from pipeline.scoring.score import score_rows

    if by is not None and gold is None:
        raise InputError(f"--by {by}: give the question file too, --gold FILE; a run does not keep its other keys")
    rows = read_run(run)
    write_costs(rows, run)
    if gold is not None:
        rows = apply_gold(rows, read_questions(gold))
    table = score_rows(rows, kinds=read_kinds(gold, by) if gold and by else None)
    table.to_parquet(run / "scores.parquet")
    return table


if __name__ == "__main__":
    from jobs.cli import run_alone

    run_alone("score")
