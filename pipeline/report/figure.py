"""A figure of the report: a drawing, and the numbers it was drawn from."""

import csv
import io
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Figure:
    """`name` is its CSV file's; `columns` and `rows` are that file; `svg` is empty for a table without a drawing.

    `table`: the numbers that people look at first, shown beside the drawing: headings, then rows; a row of one cell is
    the heading of those below it.
    """

    name: str
    title: str
    caption: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]
    svg: str = field(default="", repr=False)
    table: Sequence[Sequence[str]] = ()

    def csv(self) -> str:
        """The numbers as RFC 4180 has them; a missing value is an empty field."""
        out = io.StringIO()
        writer = csv.writer(out)
        writer.writerow(self.columns)
        writer.writerows([_cell(value) for value in row] for row in self.rows)
        return out.getvalue()


def signed(value: float | None, digits: int = 3) -> str:
    """A difference as a table shows it."""
    return "" if value is None else f"{value:+.{digits}f}"


def _cell(value: Any) -> Any:
    if value is None or (isinstance(value, float) and not math.isfinite(value)):
        return ""
    return f"{value:.6g}" if isinstance(value, float) else value
