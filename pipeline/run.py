"""A run: one system x profile x question set, in a folder that is written once and can be continued.

manifest.json             what was asked (`identity`), with which versions; `finished` at the end
answers/part-00000.parquet   the question table's rows [0, size), committed once; part-00000.1.parquet and so on: those
                          of them that were done again (`pipeline.parts`)
requests/*.jsonl          what models have said so far (`pipeline.request_cache`)
answers.jsonl  run.trec   written when no part is missing, and again when rows were done again
"""

import itertools
import json
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from pipeline import storage
from pipeline.cost import question_costs, stage_costs
from pipeline.errors import InputError, UnfinishedError, some
from pipeline.parts import Row, is_undone, out_of_time, part_name, read_part
from pipeline.provenance import git_commit, versions

PART_SIZE = 16  # questions: what a kill can cost, and a step of the progress shown
COUNTED = ("id", "error", "trace", "finish_reason")  # the columns that `finished` counts from
Writer = Callable[[Iterable[Row], Path], Any]


class Run:
    """The folder of a run. `resumed` says whether it was there before."""

    def __init__(self, folder: Path, manifest: dict[str, Any], resumed: bool) -> None:
        self.folder, self.manifest, self.resumed = folder, manifest, resumed
        self._rows, self._size = manifest["parts"]["rows"], manifest["parts"]["size"]
        self._began = time.perf_counter()
        self._redo = self._undone() if resumed else {}
        self._versions: dict[int, int] = {}  # of the parts handed out for doing again

    @classmethod
    def open(cls, folder: Path, manifest: dict[str, Any], rows: int, part_size: int = PART_SIZE) -> "Run":
        """Starts a run of `rows` questions, or continues the one that is there, at that one's part size.

        `manifest["identity"]` says what the answers depend on (system, profile, questions' sha256, index fingerprints);
        all else in `manifest` is information. Raises InputError where `folder` is a file, holds something else, or is
        a run of another identity, naming the first key that differs.
        """
        folder = Path(folder)
        cls.check(folder, manifest)
        started = {
            **manifest,
            "parts": {"rows": rows, "size": part_size},
            "versions": versions(),
            "git_commit": git_commit(),
            "started": datetime.now(UTC).isoformat(timespec="seconds"),
        }
        created = storage.create_file(folder / "manifest.json", storage.to_json(started))
        cls.check(folder, manifest)
        return cls(folder, _read_manifest(folder), resumed=not created)

    @staticmethod
    def check(folder: Path, manifest: dict[str, Any]) -> None:
        """Raises InputError where `open` would; writes nothing."""
        _refuse_other_contents(folder)
        if not (folder / "manifest.json").exists():
            return
        if difference := first_difference(_read_manifest(folder)["identity"], _as_json(manifest["identity"])):
            key, old, new = difference
            raise InputError(
                f"{folder} is a run of something else: {key} was {_short(old)}, now it is {_short(new)}; choose "
                "another --out, or repeat the command that began it to continue"
            )

    @classmethod
    def ended(cls, folder: Path) -> bool:
        """Whether a run is there that has nothing left to do."""
        there = (folder / "manifest.json").exists()
        return there and cls(folder, _read_manifest(folder), resumed=True).is_complete()

    def begin(self) -> None:
        """The seconds of `finished` count from here, else from when the run was opened."""
        self._began = time.perf_counter()

    def numbers(self) -> range:
        return range(-(-self._rows // self._size) if self._rows else 1)

    def missing_parts(self) -> list[int]:
        """Numbers of the parts that are not committed yet, in order."""
        return [number for number in self.numbers() if not self.part_path(number).exists()]

    def rows_to_redo(self) -> int:
        """Rows that had failed, or that time had not reached, when this run was opened, and are not done again yet."""
        return sum(len(ids) for ids in self._redo.values())

    def rows_to_do(self) -> int:
        """Those, and the rows of the missing parts."""
        return self.rows_to_redo() + sum(self._bounds(number)[1] for number in self.missing_parts())

    def is_complete(self) -> bool:
        return not self._redo and not self.missing_parts()

    def progress(self) -> str:
        """For the user: what is there and what a re-run will redo."""
        missing, parts = self.missing_parts(), len(self.numbers())
        again = f"{redo} failed or unanswered questions to do again" if (redo := self.rows_to_redo()) else ""
        if not missing:
            return f"{self.folder}: " + (again or f"all {self._rows} questions are answered")
        rows = sum(self._bounds(number)[1] for number in missing)
        todo = f"{parts - len(missing)} of {parts} parts are there, {len(missing)} to do ({rows} questions)"
        return f"{self.folder}: {todo}" + (f", {again}" if again else "")

    def parts(self, questions: pa.Table) -> Iterator[tuple[int, pa.Table]]:
        """The missing parts of the question table (the whole of it, in file order), for an executor; then, of the parts
        that were there when the run was opened, the questions that are to be done again."""
        if questions.num_rows != self._rows:
            raise ValueError(f"{questions.num_rows} questions for a run of {self._rows}")
        yield from self.lacking(questions)
        for number, ids in list(self._redo.items()):
            part = questions.slice(*self._bounds(number))
            self._versions[number] = len(self._files(number))
            yield number, part.filter(pc.is_in(part["id"], pa.array(ids, pa.string())))

    def lacking(self, questions: pa.Table) -> Iterator[tuple[int, pa.Table]]:
        """The missing parts alone."""
        for number in self.missing_parts():
            yield number, questions.slice(*self._bounds(number))

    def part_path(self, number: int, version: int = 0) -> Path:
        return self.folder / "answers" / part_name(number, version)

    def commit_part(self, number: int, table: pa.Table) -> bool:
        """Writes a finished part, or what was done again of one; False where somebody else has, whose rows stay."""
        version = self._versions.get(number, 0)
        wanted = len(self._redo[number]) if number in self._redo else self._bounds(number)[1]
        if table.num_rows != wanted:
            raise ValueError(f"part {number} has {table.num_rows} rows, wanted {wanted}")
        buffer = pa.BufferOutputStream()
        pq.write_table(table, buffer, compression="zstd")
        created = storage.create_file(self.part_path(number, version), buffer.getvalue().to_pybytes())
        self._redo.pop(number, None)
        return created

    def rows(self, columns: Sequence[str] | None = None) -> Iterator[Row]:
        """Every committed row as it was done last, in the order of the question file; with these columns, or all."""
        for number in self.numbers():
            if files := self._files(number):
                yield from read_part(files, columns)

    def failed_rows(self) -> list[dict[str, str]]:
        """Of every committed row with an error: id, stage, kind, message."""
        return [{"id": row["id"], **row["error"]} for row in self.rows(["id", "error"]) if row["error"] is not None]

    def finish(self, write_answers: Writer | None = None, write_trec: Writer | None = None) -> dict[str, Any]:
        """Writes answers.jsonl, run.trec and the manifest's `finished`, and returns the latter.

        Raises UnfinishedError while a part is missing. A finished run stays as it is until rows are done again.
        """
        if missing := self.missing_parts():
            raise UnfinishedError(
                f"{self.folder}: {len(missing)} of {len(self.numbers())} parts are missing (first: {missing[0]}); run "
                "the same command again to continue"
            )
        files = sum(len(self._files(number)) for number in self.numbers())
        if self.manifest.get("finished", {}).get("part_files") != files:
            rows = _ReadAnew(self.rows)
            (write_answers or _default_writer("pipeline.liverag", "write_answers"))(rows, self.folder / "answers.jsonl")
            (write_trec or _default_writer("pipeline.scoring.trec", "write_trec"))(rows, self.folder / "run.trec")
            counts = _counts(list(self.rows(COUNTED)))
            seconds = round(time.perf_counter() - self._began, 3)  # of this command; others may have been killed
            self.manifest = {**self.manifest, "finished": {**counts, "seconds": seconds, "part_files": files}}
            storage.write_file(self.folder / "manifest.json", storage.to_json(self.manifest))
        return self.manifest["finished"]

    def _files(self, number: int) -> list[Path]:
        """A part's files, oldest first; none while its first one is missing."""
        if not self.part_path(number).exists():
            return []
        later = itertools.takewhile(Path.exists, (self.part_path(number, version) for version in itertools.count(1)))
        return [self.part_path(number), *later]

    def _undone(self) -> dict[int, list[str]]:
        """Ids to be done again, by part."""
        held = {n: read_part(files, ["id", "error", "trace"]) for n in self.numbers() if (files := self._files(n))}
        undone = {number: [row["id"] for row in rows if is_undone(row)] for number, rows in held.items()}
        return {number: ids for number, ids in undone.items() if ids}

    def _bounds(self, number: int) -> tuple[int, int]:
        """(first row, rows) of a part."""
        first = number * self._size
        return first, max(0, min(self._size, self._rows - first))


def first_difference(old: Any, new: Any, key: str = "") -> tuple[str, Any, Any] | None:
    """(dotted key, old value, new value) of the first leaf in which two JSON values differ, or None."""
    if isinstance(old, dict) and isinstance(new, dict):
        names = [(name, name in old, name in new) for name in dict.fromkeys([*new, *old])]
        pairs = [(str(name), old[name] if a else ABSENT, new[name] if b else ABSENT) for name, a, b in names]
    elif isinstance(old, list) and isinstance(new, list):
        pairs = [(str(n), a, b) for n, (a, b) in enumerate(itertools.zip_longest(old, new, fillvalue=ABSENT))]
    else:
        return None if old == new and isinstance(old, bool) == isinstance(new, bool) else (key, old, new)
    found = (first_difference(a, b, f"{key}.{name}" if key else name) for name, a, b in pairs)
    return next((difference for difference in found if difference), None)


class _ReadAnew:
    """Rows that are read again whenever somebody goes through them: of thousands, few are in memory."""

    def __init__(self, read: Callable[[], Iterator[Row]]) -> None:
        self._read = read

    def __iter__(self) -> Iterator[Row]:
        return self._read()


class _Absent:
    def __repr__(self) -> str:
        return "absent"


ABSENT = _Absent()


def _refuse_other_contents(folder: Path) -> None:
    if folder.exists() and not folder.is_dir():
        raise InputError(f"output folder {folder} is a file; choose another --out")
    if not folder.exists() or (folder / "manifest.json").exists():
        return
    # A manifest's temporary file is what a run killed in its first moment leaves.
    others = sorted(entry.name for entry in folder.iterdir() if not entry.name.startswith(".manifest.json."))
    if others:
        raise InputError(f"output folder {folder} holds something else: {some(others)}; choose another --out")


def _read_manifest(folder: Path) -> dict[str, Any]:
    path = folder / "manifest.json"
    held = storage.read_json(path)
    parts = held.get("parts") if isinstance(held, dict) else None
    if not isinstance(parts, dict) or not {"rows", "size"} <= set(parts) or "identity" not in held:
        raise InputError(f"{path} is not the manifest of a run (no identity or parts); choose another --out")
    return held


def _counts(rows: Sequence[Row]) -> dict[str, Any]:
    """Rows, how many failed and how many time did not reach; finish reasons; in how many rows each note of a trace
    occurs ("abstained", repairs, fallbacks); what each stage cost."""
    notes = Counter(note for row in rows for note in {note for step in row["trace"] for note in step["notes"] or []})
    reasons = Counter(row["finish_reason"] for row in rows if row.get("finish_reason"))
    return {
        "rows": len(rows),
        "failed": sum(row["error"] is not None for row in rows),
        "out_of_time": sum(map(out_of_time, rows)),
        "finish_reasons": dict(sorted(reasons.items())),
        "notes": dict(sorted(notes.items())),
        "cost": stage_costs(question_costs(rows)),
    }


def _default_writer(module: str, name: str) -> Writer:
    return getattr(import_module(module), name)


def _as_json(value: Any) -> Any:
    return json.loads(json.dumps(value))


def _short(value: Any, most: int = 100) -> str:
    text = repr(value)
    return text if len(text) <= most else f"{text[:most]} ..."
