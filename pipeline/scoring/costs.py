"""What a run cost, beside its scores: `costs.parquet`, and a table to read."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from pipeline.cost import ALL, COST, COUNTS, question_costs, stage_costs
from pipeline.scoring.table import write_table

if TYPE_CHECKING:
    from rich.table import Table

FILE = "costs.parquet"
HEADINGS = ("calls", "prompt\ntokens", "generated\ntokens", "seconds", "queue\nseconds", "device\nseconds")

CAPTION = (
    "n: questions. Calls are to models and indexes. Seconds are by the clock, from a batch's start to its end in a "
    "stage, shared by its questions: where several batches are under way at once, their sum is more than the run took. "
    "Device seconds are those that engines worked, times their GPUs, or CPUs where they have none. Empty: not measured."
)


def write_costs(rows: Iterable[Mapping[str, Any]], run: Path) -> None:
    """RUN/costs.parquet, of schema `cost.COST`: a row for each question and stage that worked on it; CSV beside."""
    write_table(pa.Table.from_pylist(question_costs(rows), schema=COST), run / FILE)


def show_costs(run: Path) -> "Table":
    """Sums a stage for a terminal, and the mean of a question below."""
    from rich import box
    from rich.table import Table

    lines = stage_costs(pq.read_table(run / FILE).to_pylist())
    asked = lines[-1]["questions"]
    table = Table(title="Cost", caption_justify="left", caption=CAPTION)
    table.box, table.collapse_padding, table.pad_edge = box.SIMPLE_HEAD, True, False  # eight columns in 80 characters
    table.add_column("stage", no_wrap=True)
    for heading in ("n", *HEADINGS):
        table.add_column(heading, justify="right", no_wrap=True)
    for line in lines:
        if line["stage"] == ALL:
            table.add_section()
        table.add_row(line["stage"], str(line["questions"]), *(_number(line[name]) for name in COUNTS))
    if asked:
        each = (_number(None if lines[-1][name] is None else lines[-1][name] / asked, digits=1) for name in COUNTS)
        table.add_row("a question", "", *each)
    return table


def _number(value: float | None, digits: int = 0) -> str:
    return "" if value is None else f"{value:,.{digits if value < 1000 else 0}f}"
