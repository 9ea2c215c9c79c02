"""A home on a file system that has hard links and atomic renames."""

import os
import shutil
import socket
import time
import uuid
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pipeline.storage.files import create_file, sync, write_file
from pipeline.storage.home import Home, Record

ATTEMPTS = "attempts"
PIECES = "pieces"
_STALE = 24 * 3600  # seconds after which an attempt of another machine counts as left behind


class LocalHome(Home):
    """`place` is a folder."""

    def __init__(self, place: str) -> None:
        super().__init__(place)
        self.root = Path(place).absolute()  # workers have working directories of their own

    def read(self, name: str) -> bytes:
        return (self.root / name).read_bytes()

    def write(self, name: str, data: bytes) -> None:
        write_file(self.root / name, data, self._attempt())

    def create(self, name: str, data: bytes) -> bool:
        return create_file(self.root / name, data, self._attempt())

    def remove(self, name: str) -> None:
        (self.root / name).unlink(missing_ok=True)

    def exists(self, name: str) -> bool:
        return (self.root / name).is_file()

    def entries(self, folder: str = "") -> list[str]:
        place = self.root / folder
        return sorted(entry.name for entry in place.iterdir()) if place.is_dir() else []

    @contextmanager
    def attempt(self) -> Iterator[Path]:
        folder = self._attempt()
        folder.mkdir()
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def _attempt(self) -> Path:
        """A fresh name under `attempts`, on the file system of the final place; it says whose it is."""
        (self.root / ATTEMPTS).mkdir(parents=True, exist_ok=True)
        return self.root / ATTEMPTS / f"{socket.gethostname()}.{os.getpid()}.{uuid.uuid4().hex}"

    def publish(self, folder: Path, target: str, files: Mapping[str, Mapping[str, Any]]) -> None:
        home = self.root / target
        home.parent.mkdir(parents=True, exist_ok=True)
        for path in sorted(folder.rglob("*")):
            sync(path)
        try:
            os.rename(folder, home)
        except OSError:
            if not home.is_dir():
                raise  # the disk is full or read-only: not a race that somebody else has won
        sync(home.parent)

    def fetch(self, record: Record, only: Collection[str] | None = None) -> Path:
        return self.root / record["folder"]

    def damage(self, record: Record) -> list[str]:
        problems = []
        for name, facts in record["files"].items():
            path = self.root / facts.get("in", record["folder"]) / name
            if not path.is_file():
                problems.append(f"{path} is missing")
            elif (size := path.stat().st_size) != facts["bytes"]:
                problems.append(f"{path} has {size} bytes, its commit says {facts['bytes']}")
        return problems

    def discard(self, folder: str) -> None:
        shutil.rmtree(self.root / folder, ignore_errors=True)

    def scratch(self) -> Path:
        return self.root / PIECES

    def clean(self) -> None:
        """Attempts of living processes stay: another driver may be about to find that it lost."""
        shutil.rmtree(self.scratch(), ignore_errors=True)
        for entry in self.entries(ATTEMPTS):
            path = self.root / ATTEMPTS / entry
            if not _alive(path):
                _remove(path)


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def _alive(attempt: Path) -> bool:
    host, _, rest = attempt.name.rpartition(".")[0].rpartition(".")
    if host == socket.gethostname() and rest.isdecimal():
        return Path(f"/proc/{rest}").exists() if Path("/proc").is_dir() else _answers(int(rest))
    try:
        return time.time() - attempt.stat().st_mtime < _STALE
    except FileNotFoundError:
        return False


def _answers(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
