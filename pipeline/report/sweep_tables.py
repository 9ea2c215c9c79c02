"""What a sweep left: its outcome table, and what was tuned on it."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from pipeline.errors import InputError

NEEDED = ("run", "metric", "settings", "mean", "low", "high", "n")
Line = dict[str, Any]


@dataclass(frozen=True)
class SweepTables:
    """Lines of `sweep.outcome.OUTCOME`, `settings` read, and of `sweep.tune.TUNED`."""

    outcome: list[Line]
    tuned: list[Line]

    @property
    def warning(self) -> str | None:
        """That the report is on the questions which settings were chosen on."""
        return next((f"{line['objective']}: {line['warning']}" for line in self.tuned if line["warning"]), None)


def read_sweep_tables(path: Path) -> SweepTables:
    """Of the folder of a sweep, or of its outcome table alone, Parquet or CSV.

    A line of the outcome is one metric of one variant (`run`), with the mean's interval; `settings` is JSON, what the
    variant sets. InputError where the file cannot be read or lacks one of the columns `NEEDED`.
    """
    file = path / "outcome.parquet" if path.is_dir() else path
    table = _read(file)
    if missing := [name for name in NEEDED if name not in table.column_names]:
        raise InputError(
            f"--sweep {file} has no column '{missing[0]}'; it has {', '.join(table.column_names)}; an outcome table "
            f"needs {', '.join(NEEDED)}"
        )
    try:
        outcome = [{**line, "settings": json.loads(line["settings"] or "{}")} for line in table.to_pylist()]
    except (TypeError, ValueError) as problem:
        raise InputError(f"--sweep {file}: its column 'settings' is not JSON: {problem}") from None
    tuned = file.with_name("tuned.parquet")
    return SweepTables(outcome, _read(tuned).to_pylist() if tuned.exists() else [])


def _read(file: Path) -> pa.Table:
    try:
        return pyarrow.csv.read_csv(file) if file.suffix == ".csv" else pq.read_table(file)
    except (pa.ArrowInvalid, OSError) as problem:
        raise InputError(f"--sweep {file} cannot be read as Parquet or CSV: {problem}") from None
