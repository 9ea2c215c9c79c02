"""Local files that are either complete or absent."""

import hashlib
import json
import os
import uuid
from collections.abc import Iterable
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


def from_json(data: bytes, place: str) -> Any:
    """The value JSON bytes hold. Raises InputError, with place and size, where they are damaged."""
    try:
        return json.loads(data)
    except ValueError as problem:
        raise InputError(
            f"{place} is not JSON ({len(data)} bytes: {problem}); it has been damaged, restore it"
        ) from problem


def read_json(path: Path) -> Any:
    """The value a JSON file holds; raises as `from_json` does."""
    return from_json(path.read_bytes(), str(path))


def write_file(path: Path, data: bytes | Iterable[bytes], temporary: Path | None = None) -> None:
    """Replaces `path` in one step: readers see the old contents or the new, never a part. `data` may come in pieces,
    so that it need not be in memory at once. `temporary`: where it is written first, on the same file system; none:
    beside it."""
    temporary = _write(path, data, temporary)
    os.replace(temporary, path)


def create_file(path: Path, data: bytes, temporary: Path | None = None) -> bool:
    """Creates `path` if it does not exist; False where it does (its contents stay). One of many racing callers wins."""
    temporary = _write(path, data, temporary)
    try:
        os.link(temporary, path)
    except FileExistsError:
        return False
    finally:
        temporary.unlink()
    return True


def sync(path: Path) -> None:
    """Forces a file or a folder's entries to the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _write(path: Path, data: bytes | Iterable[bytes], temporary: Path | None) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = temporary or path.with_name(f".{path.name}.{uuid.uuid4().hex}")
    try:
        with temporary.open("wb") as file:
            file.writelines([data] if isinstance(data, bytes) else data)
            file.flush()
            os.fsync(file.fileno())
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    return temporary
