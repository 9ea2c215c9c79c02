"""Files that are either complete or absent: nothing is visible under its final name until it is whole, and what is
whole is never written again. Local file systems; every writer goes through these few functions.

A step's output is *committed*: it is moved to a folder named by its contents' hash, then `commit/<name>.json`, which
lists the files with sizes and sha256, is created if it does not exist yet. Whoever comes second discards its attempt.
"""

import hashlib
import json
import os
import shutil
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pipeline.errors import InputError


def sha256_file(path: Path) -> str:
    """Hex sha256 of a file's contents."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def to_json(value: Any) -> bytes:
    """JSON bytes that depend on the value alone: sorted keys, two spaces, a final newline."""
    return (json.dumps(value, indent=2, sort_keys=True, ensure_ascii=False) + "\n").encode()


def read_json(path: Path) -> Any:
    """The value a JSON file holds. Raises InputError, with path and size, where it is damaged."""
    data = path.read_bytes()
    try:
        return json.loads(data)
    except ValueError as problem:
        raise InputError(
            f"{path} is not JSON ({len(data)} bytes: {problem}); it has been damaged, restore it"
        ) from problem


def write_file(path: Path, data: bytes) -> None:
    """Replaces `path` in one step: readers see the old contents or the new, never a part."""
    temporary = _write_beside(path, data)
    os.replace(temporary, path)


def create_file(path: Path, data: bytes) -> bool:
    """Creates `path` if it does not exist; False where it does (its contents stay). One of many racing callers wins."""
    temporary = _write_beside(path, data)
    try:
        os.link(temporary, path)
    except FileExistsError:
        return False
    finally:
        temporary.unlink()
    return True


@contextmanager
def attempt(root: Path) -> Iterator[Path]:
    """A fresh folder under `root/attempts` to write into; removed at the end unless `commit` has moved it."""
    folder = root / "attempts" / uuid.uuid4().hex
    folder.mkdir(parents=True)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def commit(root: Path, name: str, folder: Path, record: dict[str, Any]) -> dict[str, Any]:
    """Commits an attempt under `name` ("shards/00003"): its files, their sizes and sha256, and `record`'s counts.

    Returns the commit that holds, which is another worker's where that one came first.
    """
    files = {
        str(path.relative_to(folder)): {"bytes": path.stat().st_size, "sha256": sha256_file(path)}
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }
    digest = hashlib.sha256(to_json(files)).hexdigest()[:16]
    home = root / f"{name}-{digest}"
    home.parent.mkdir(parents=True, exist_ok=True)
    for path in sorted(folder.rglob("*")):
        _sync(path)
    try:
        os.rename(folder, home)
    except OSError:
        if not home.is_dir():
            raise  # the disk is full or read-only: not a race that somebody else has won
    _sync(home.parent)
    body = {**record, "folder": str(home.relative_to(root)), "files": files}
    create_file(commit_path(root, name), to_json(body))
    held = read_json(commit_path(root, name))
    if held["folder"] != body["folder"]:
        shutil.rmtree(home, ignore_errors=True)
    return held


def commit_path(root: Path, name: str) -> Path:
    return root / "commit" / f"{name}.json"


def committed(root: Path, name: str) -> dict[str, Any] | None:
    """The commit called `name`, or None where that step has not finished."""
    path = commit_path(root, name)
    return read_json(path) if path.exists() else None


def damage(root: Path, record: dict[str, Any], *, hashes: bool = False) -> list[str]:
    """What is wrong with a commit's files: missing, of another size, or (with `hashes`) of another sha256."""
    problems = []
    for name, facts in record["files"].items():
        path = root / record["folder"] / name
        if not path.is_file():
            problems.append(f"{path} is missing")
        elif (size := path.stat().st_size) != facts["bytes"]:
            problems.append(f"{path} has {size} bytes, its commit says {facts['bytes']}")
        elif hashes and sha256_file(path) != facts["sha256"]:
            problems.append(f"{path} has another sha256 than its commit says")
    return problems


def _write_beside(path: Path, data: bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
    with temporary.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    return temporary


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
