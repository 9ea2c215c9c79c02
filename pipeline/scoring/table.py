"""The scores of a run: a summary to read, and every question's values to compare runs with."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import csv

from pipeline.storage import write_file

if TYPE_CHECKING:
    from rich.table import Table

SUMMARY = pa.schema(
    [
        ("group", pa.string()),  # retrieval, answers, evidence, local judge or run
        ("metric", pa.string()),
        ("mean", pa.float64()),  # null where n is 0
        ("low", pa.float64()),  # the interval; null where there is none (see pipeline.scoring.intervals)
        ("high", pa.float64()),
        ("n", pa.int64()),  # questions in the mean
        ("missing_gold", pa.int64()),  # questions left out because nobody knows what is right
        ("excluded", pa.int64()),  # questions left out because a judge's reply could not be read
        ("failed", pa.int64()),  # of n: questions that ended in an error
        ("abstained", pa.int64()),  # of n: questions the system declined to answer
        ("interval", pa.string()),  # how low and high were computed
    ]
)
QUESTION_FILE = "question-scores.parquet"


def write_table(table: pa.Table, path: Path) -> None:
    """The table as Parquet at `path` and as CSV beside it; lists are joined with `; ` in the latter."""
    buffer = pa.BufferOutputStream()
    pq.write_table(table, buffer)
    write_file(path, buffer.getvalue().to_pybytes())
    write_file(path.with_suffix(".csv"), to_csv(table))


def to_csv(table: pa.Table) -> bytes:
    """CSV with a line of names; a null is an empty field."""
    buffer = pa.BufferOutputStream()
    csv.write_csv(pa.table({name: _flat(table[name]) for name in table.column_names}), buffer)
    return buffer.getvalue().to_pybytes()


def _flat(column: pa.ChunkedArray) -> pa.ChunkedArray | pa.Array:
    if not pa.types.is_list(column.type):
        return column
    return pa.array([None if value is None else "; ".join(value) for value in column.to_pylist()], pa.string())


@dataclass(frozen=True)
class ScoreTable:
    """`summary` is of schema `SUMMARY`.

    `questions` has a row a question, in the run's order; score.py lists its columns.
    """

    summary: pa.Table
    questions: pa.Table

    def to_files(self, path: Path) -> None:
        """Write the summary to `path` (scores.parquet) and the questions to question-scores.parquet in its folder, and
        both as CSV beside."""
        path = Path(path)
        write_table(self.questions, path.with_name(QUESTION_FILE))
        write_table(self.summary, path)

    def to_rich(self) -> "Table":
        """The summary for a terminal, with n, what is missing, and the method in the caption."""
        from rich import box
        from rich.table import Table

        rows = self.summary.to_pylist()
        methods = "; ".join(dict.fromkeys(row["interval"] for row in rows))
        excluded = any(row["excluded"] for row in rows)
        names = ["n", "missing_gold", *(["excluded"] if excluded else []), "failed", "abstained"]
        title = f"{self.questions.num_rows} questions"
        table = Table(
            title=title, caption_justify="left", caption=_caption(methods, excluded), box=box.SIMPLE_HEAD, padding=0
        )
        table.add_column("metric", overflow="fold", min_width=16)
        for heading in ("mean", "interval", *(name.replace("_", "\n") for name in names)):
            table.add_column(heading, justify="right", no_wrap=True)
        for before, row in zip([None, *rows], rows, strict=False):
            if before and before["group"] != row["group"]:
                table.add_section()
            table.add_row(row["metric"], *_numbers(row), *(str(row[name]) for name in names))
        return table


def _caption(methods: str, excluded: bool) -> str:
    return (
        f"Intervals: {methods}. n: questions in the mean. Missing gold: questions left out because no gold is known; "
        "unanswerable questions have a line of their own. Excluded: a judge's reply could not be read"
        + ("" if excluded else " (none)")
        + ". Failed and abstained: how many of n, and they count as they are scored, failed ones 0."
    )


def _numbers(row: dict[str, Any]) -> tuple[str, str]:
    digits = 1 if row["metric"] == "answer words" else 3
    mean = "missing" if row["mean"] is None else f"{row['mean']:.{digits}f}"
    interval = "" if row["low"] is None else f"{row['low']:.{digits}f} to {row['high']:.{digits}f}"
    return mean, interval
