"""Columns through a system: what each stage reads must have been written before it, with a type that serves."""

import pyarrow as pa

from pipeline.errors import InputError
from pipeline.schema import BASE, fits, type_name
from pipeline.settings import close_match
from pipeline.stage import Stage

Columns = dict[str, pa.DataType]
Writers = dict[str, tuple[int, str]]  # column -> (number, name) of the stage that wrote it last

# Gold and bookkeeping: in every table, of no use to name when a stage looks for its input.
_UNSEEN = {"answers", "doc_ids", "error", "trace"}


def check_reads(stage: Stage, columns: Columns, writers: Writers, later: list[Stage]) -> None:
    """InputError where a column that `stage` reads is not in `columns`, or has another type."""
    for column, wanted in stage.reads().items():
        if column not in columns:
            here = ", ".join(name for name in columns if name not in _UNSEEN)
            raise InputError(
                f"reads '{column}' ({type_name(wanted)}), which no earlier stage writes. Columns here: {here}."
                f"{_way_out(column, wanted, columns, writers, later)}"
            )
        if not fits(columns[column], wanted):
            number, name = writers.get(column, (0, ""))
            source = f"stage {number} ({name}) writes" if number else "the question file has"
            fitting = ", ".join(_fitting(wanted, columns)) or "none"
            raise InputError(
                f"reads '{column}' as {type_name(wanted)}, but {source} it as {type_name(columns[column])}. "
                f"Columns here that would do: {fitting}."
            )


def check_writes(stage: Stage) -> None:
    """InputError where a stage would replace a column that belongs to the question."""
    if taken := next((column for column in stage.writes() if column in BASE), None):
        names = ", ".join(BASE)
        raise InputError(f"writes '{taken}', a column of the question table ({names}). Give 'into' another name.")


def _fitting(wanted: pa.DataType, columns: Columns) -> list[str]:
    return [name for name, kind in columns.items() if name not in _UNSEEN and fits(kind, wanted)]


def _way_out(column: str, wanted: pa.DataType, columns: Columns, writers: Writers, later: list[Stage]) -> str:
    fitting = _fitting(wanted, columns)
    if match := close_match(column, fitting):
        return match
    if after := next((stage.name for stage in later if column in stage.writes()), None):
        return f" A later stage ({after}) writes it: move that one up?"
    if source := next((name for name in reversed(fitting) if name in writers), None):
        return f" Set 'into: {column}' on stage {writers[source][0]} ({writers[source][1]})?"
    return f" No stage here writes {type_name(wanted)}: add one before this."
