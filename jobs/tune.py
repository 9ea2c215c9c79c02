"""`tartan tune`: settings chosen on some questions, reported on others."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

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

if TYPE_CHECKING:
    import pyarrow as pa
    from rich.table import Table


def tune(
    file: Annotated[str, typer.Argument(metavar="SWEEP", help="The settings to choose from: a sweep.")],
    questions: QuestionFileOption,
    out: Annotated[Path, out_option("Folder of the sweep; one that `tartan sweep` left is continued.")],
    objective: Annotated[str, typer.Option(help="Metric to choose by, such as nDCG@3 or F1.")] = "nDCG@10",
    folds: Annotated[int, typer.Option(min=2, help="Of the nested cross-validation.")] = 5,
    held_out: Annotated[
        float | None, typer.Option(min=0, max=1, help="Instead of folds: the share of questions that is reported on.")
    ] = None,
    on_tuned: Annotated[
        bool, typer.Option("--report-on-tuned-questions", help="Instead: choose and report on the same, marked so.")
    ] = False,
    seed: Annotated[int, typer.Option(help="Of the shuffle into folds.")] = 0,
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
    """Choose the best variant of a sweep without reporting on the questions it was chosen on.

    By default k-fold: each fold is scored with the variant that was best on the others. Leaves OUT/tuned.parquet, .csv.

    Examples:

        tartan tune boosts --objective nDCG@3 --questions questions.jsonl --index chunks=idx --out tuned

        tartan tune boosts --objective F1 --held-out 0.4 --questions q.jsonl --index chunks=idx --out tuned
    """
    from pipeline.errors import InputError
    from pipeline.scoring.score import JUDGED_METRICS
    from pipeline.scoring.table import write_table
    from pipeline.sweep.tune import How, objective_scores
    from pipeline.sweep.tune import tune as choose_and_report

    if on_tuned and held_out is not None:
        raise InputError("--held-out and --report-on-tuned-questions exclude each other; give one")
    if judge is not None:
        objective = JUDGED_METRICS.get(objective, objective)
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
    done = run_sweep(asked, saying(quiet, as_json), objective)
    scores, excluded = objective_scores(done.scores, objective)
    how: How = "tuned" if on_tuned else "nested" if held_out is None else "held_out"
    table = choose_and_report(scores, done.sweep.baseline, objective, how, folds, held_out or 0.0, seed, excluded)
    write_table(table, out / "tuned.parquet")
    if as_json:
        print(json.dumps(table.to_pylist(), indent=2))
    else:
        Console().print(tuned_table(table))
    return done.exit_code()


def tuned_table(table: "pa.Table") -> "Table":
    """For a terminal: what was chosen, and the gap between the questions it was chosen on and the others."""
    from rich.table import Table

    rows = table.to_pylist()
    last = rows[-1]
    title = f"{last['objective']}" + (f"\n{last['warning']}" if last["warning"] else "")
    caption = f"n: questions reported on; excluded: {last['excluded']} without the objective. {last['method']}."
    shown = Table(title=title, caption=caption, caption_justify="left")
    for heading in ("fold", "chosen"):
        shown.add_column(heading)
    for heading in ("tuned on", "reported", "interval", "gap", "to baseline", "p", "n"):
        shown.add_column(heading, justify="right", no_wrap=True)
    for row in rows:
        interval = "" if row["low"] is None else f"{row['low']:.3f} to {row['high']:.3f}"
        numbers = [f"{row['tuned_mean']:.3f}", f"{row['mean']:.3f}", interval, f"{row['gap']:+.3f}"]
        shown.add_row(
            row["fold"], row["chosen"], *numbers, f"{row['difference']:+.3f}", f"{row['p']:.4f}", str(row["n"])
        )
    return shown


if __name__ == "__main__":
    from jobs.cli import run_alone

    run_alone("tune")
