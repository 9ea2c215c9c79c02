"""`tartan judge-check`: is a judge worth asking?"""

import json
from pathlib import Path
from typing import Annotated, Literal

import typer
from rich.console import Console

from jobs.options import JsonOption, ProfileOption, SetOption, out_option
from jobs.score import judge_of

Scale = Literal["similarity", "groundedness", "relation"]


def judge_check(
    labels: Annotated[Path, typer.Argument(help="JSONL: what was judged, and `label`, by people or gold.")],
    judge: Annotated[str, typer.Option(metavar="ROLE", help="Role of the profile that judges.")] = "judge",
    scale: Annotated[
        Scale, typer.Option(help="similarity and groundedness: 0 to 10; relation: 1, 0, -1.")
    ] = "similarity",
    repeats: Annotated[int, typer.Option(min=1, help="Times the judge is asked the same.")] = 3,
    temperature: Annotated[
        float, typer.Option(min=0, help="Of the repeats; labels are compared at 0, as scores are made.")
    ] = 0.7,
    out: Annotated[Path | None, out_option("Write the table here, Parquet, and CSV beside it.")] = None,
    profile: ProfileOption = "embedded",
    sets: SetOption = [],  # noqa: B006 - typer reads the default, nobody changes it
    as_json: JsonOption = False,
) -> int:
    """Agreement of a judge with labels, with itself over repeats, and with the texts in the other order.

    Lines hold the slots of the scale's prompt and `label`: {"question", "reference", "answer", "label"} for similarity,
    {"source", "statement", "label"} for groundedness, {"text", "claim", "label"} for relation.

    Example:

        tartan judge-check labels.jsonl --judge judge --profile paper
    """
    from rich.table import Table

    from pipeline.scoring.judge import MARK, Judge
    from pipeline.scoring.judge_check import check_judge, read_labels
    from pipeline.scoring.table import write_table

    labelled = read_labels(labels, scale)
    with judge_of(judge, profile, sets) as model:
        assert model is not None  # a role is always given
        llm = model.llm()
        table, _ = check_judge(
            labelled,
            scale,
            lambda repeat: Judge(llm, temperature=temperature if repeat else 0.0, repeat=repeat),
            repeats,
        )
    if out is not None:
        write_table(table, out)
    if as_json:
        print(json.dumps({"judge": f"{MARK}: {model.name}", "agreement": table.to_pylist()}, indent=2))
        return 0
    shown = Table(title=f"{MARK}: {model.name}, {scale}, {len(labelled)} items")
    for heading in ("comparison", "statistic", "value", "interval", "n", "excluded", "method"):
        shown.add_column(heading)
    for row in table.to_pylist():
        value = "undefined" if row["value"] is None else f"{row['value']:.3f}"
        interval = "" if row["low"] is None else f"{row['low']:.3f} to {row['high']:.3f}"
        numbers = (value, interval, str(row["n"]), str(row["excluded"]))
        shown.add_row(row["comparison"], row["statistic"], *numbers, row["method"])
    Console().print(shown)
    return 0


if __name__ == "__main__":
    from jobs.cli import run_alone

    run_alone("judge-check")
