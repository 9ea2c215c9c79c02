"""The part files of a run: `part-00003.parquet` with all rows of part 3, then `part-00003.1.parquet`, `.2`, ... with
those that were done again. A file is written once; of a row's versions the last one counts.
"""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from pipeline.errors import InputError

Row = dict[str, Any]
_NAME = re.compile(r"part-(\d+)(?:\.([1-9]\d*))?\.parquet")
DEADLINE = "deadline"  # the stage in the trace of a question that time did not reach


def part_name(number: int, version: int = 0) -> str:
    return f"part-{number:05}.{version}.parquet" if version else f"part-{number:05}.parquet"


def part_files(folder: Path) -> dict[int, list[Path]]:
    """Per part its files in this folder, oldest first; parts by number. Files of other names are nobody's business."""
    found = []
    for path in folder.glob("part-*.parquet"):
        if name := _NAME.fullmatch(path.name):
            found.append((int(name[1]), int(name[2] or 0), path))
    files: dict[int, list[Path]] = {}
    for number, _, path in sorted(found):
        files.setdefault(number, []).append(path)
    return files


def read_part(files: Sequence[Path], columns: Sequence[str] | None = None) -> list[Row]:
    """The rows of a part, in its first file's order. Raises InputError where a file cannot be read, is no part of a
    run, or holds a row again that the part does not have."""
    rows = _read(files[0], columns)
    place = {row["id"]: number for number, row in enumerate(rows)}
    for path in files[1:]:
        for row in _read(path, columns):
            if row["id"] not in place:
                raise InputError(f"{path} holds the id {row['id']!r}, which {files[0].name} lacks; a stray file.")
            rows[place[row["id"]]] = row
    return rows


def out_of_time(row: Row) -> bool:
    """Whether the deadline came before the question's turn (`pipeline.deadline`)."""
    return any(step["stage"] == DEADLINE for step in row.get("trace") or [])


def is_undone(row: Row) -> bool:
    """Whether the same command, run again, does this row again."""
    return row["error"] is not None or out_of_time(row)


def _read(path: Path, columns: Sequence[str] | None) -> list[Row]:
    try:
        names = pq.read_schema(path).names
        if "id" in names:
            wanted = None if columns is None else [name for name in columns if name in names]
            return pq.read_table(path, columns=wanted).to_pylist()
    except (pa.ArrowInvalid, OSError) as error:
        raise InputError(
            f"{path} cannot be read as Parquet ({error}); delete it and answer its questions again."
        ) from None
    raise InputError(f"{path} has no column 'id', so it is no part of a run; it has {', '.join(names)}.")
