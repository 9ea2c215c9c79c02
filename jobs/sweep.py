"""`tartan sweep`: variants of systems over one question set, compared with a baseline."""

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from jobs.options import (
    AddressOption,
    ClaimsOption,
    CorpusOption,
    ExecutorOption,
    IndexOption,
    JsonOption,
    JudgeOption,
    LimitOption,
    PartSizeOption,
    ProfileOption,
    QuestionFileOption,
    QuietOption,
    ScalingOption,
    SetOption,
    out_option,
    saying,
)
from jobs.variants import Asked, Graded, run_sweep
from pipeline.run import PART_SIZE


def sweep(
    file: Annotated[str, typer.Argument(metavar="SWEEP", help="A name (configs/sweeps) or a YAML file.")],
    questions: QuestionFileOption,
    out: Annotated[Path, out_option("Folder of the sweep.")],
    indexes: IndexOption = [],  # noqa: B006 - typer reads the defaults, nobody changes them
    corpus: CorpusOption = None,
    limit: LimitOption = None,
    profile: ProfileOption = "embedded",
    sets: SetOption = [],  # noqa: B006
    judge: JudgeOption = None,
    claims: ClaimsOption = None,
    scaling: ScalingOption = "signed",
    executor: ExecutorOption = "ray",
    part_size: PartSizeOption = PART_SIZE,
    address: AddressOption = None,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> int:
    """Run every variant, score it, and compare it with the baseline; run the same command again to continue.

    Stages on which variants agree run once. Leaves OUT/outcome.parquet and .csv, OUT/report.html and OUT/runs/VARIANT.
    Questions that failed are done again the next time, and make the exit code 1.

    Examples:

        tartan sweep filter-threshold --questions questions.jsonl --index plaid=idx --out sweep

        tartan sweep mine.yaml --questions q.jsonl --limit 20 --index idx --out sweep --set answer.max_tokens=96
    """
    from pipeline.report.report import write_report
    from pipeline.report.source import read_reported
    from pipeline.report.sweep_tables import read_sweep_tables
    from pipeline.scoring.compare import comparison_table

    graded = Graded(judge, claims, scaling)
    asked = Asked(
        file,
        questions,
        out,
        indexes,
        corpus,
        limit,
        profile,
        sets,
        graded,
        executor,
        part_size,
        address,
        quiet or as_json,
    )
    done = run_sweep(asked, saying(quiet, as_json))
    write_report(read_reported([done.baseline]), out / "report.html", read_sweep_tables(out))
    if as_json:
        print(json.dumps(done.outcome.to_pylist(), indent=2))
    else:
        Console().print(comparison_table(done.outcome))
        Console(highlight=False, soft_wrap=True).print(
            f"{out / 'outcome.csv'}; runs: {out / 'runs'}; curves, and the baseline's questions: {out / 'report.html'}",
            markup=False,
        )
    return done.exit_code()


if __name__ == "__main__":
    from jobs.cli import run_alone

    run_alone("sweep")
