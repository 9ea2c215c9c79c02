"""The scores of several runs over the same questions, a column each."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from pipeline.scoring.table import ScoreTable

if TYPE_CHECKING:
    from rich.table import Table


CAPTION = (
    "Means over each run's questions; n: of how many. Each run's scores.parquet has intervals and what was excluded; "
    "`tartan score RUN RUN` compares two."
)


def side_by_side(tables: Mapping[str, ScoreTable], extra: Mapping[str, Mapping[str, str]] | None = None) -> "Table":
    """A row a metric, a column a run; `extra`: rows of other facts, name -> run -> words. A run without a metric has a
    dash. Which run is better is not said here: that needs a paired test."""
    from rich import box
    from rich.table import Table

    table = Table(title="side by side", caption=CAPTION)
    table.box, table.collapse_padding, table.pad_edge = box.SIMPLE_HEAD, True, False  # eight runs in 80 characters
    table.add_column("metric", no_wrap=True)
    for run in tables:
        table.add_column(run, justify="right", overflow="fold")
    table.add_column("n", justify="right")
    lines = {run: {row["metric"]: row for row in held.summary.to_pylist()} for run, held in tables.items()}
    for metric in dict.fromkeys(metric for held in lines.values() for metric in held):
        own = [held.get(metric) for held in lines.values()]
        counts = [line["n"] for line in own if line]
        n = f"{min(counts)}" + (f" to {max(counts)}" if min(counts) < max(counts) else "")
        table.add_row(metric, *(_number(line["mean"] if line else None) for line in own), n)
    for name, words in (extra or {}).items():
        table.add_row(name, *(words.get(run, "-") for run in tables), "")
    return table


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}" if value < 10 else f"{value:.1f}"
