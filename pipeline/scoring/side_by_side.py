"""The scores of several runs over the same questions, a column each."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from pipeline.scoring.table import ScoreTable

if TYPE_CHECKING:
    from rich.table import Table


def side_by_side(tables: Mapping[str, ScoreTable], extra: Mapping[str, Mapping[str, str]] | None = None) -> "Table":
    """A row a metric, a column a run; `extra`: rows of other facts, name -> run -> words. A run without a metric has a
    dash. Which run is better is not said here: that needs a paired test."""
    from rich.table import Table

    table = Table(title="side by side", caption="Means over each run's questions; see scores.parquet for intervals.")
    table.add_column("metric")
    for run in tables:
        table.add_column(run, justify="right")
    means = {run: {row["metric"]: row["mean"] for row in held.summary.to_pylist()} for run, held in tables.items()}
    for metric in dict.fromkeys(metric for held in means.values() for metric in held):
        table.add_row(metric, *(_number(held.get(metric)) for held in means.values()))
    for name, words in (extra or {}).items():
        table.add_row(name, *(words.get(run, "-") for run in tables))
    return table


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}" if value < 10 else f"{value:.1f}"
