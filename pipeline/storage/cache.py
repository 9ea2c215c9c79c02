"""What a node keeps of homes that are elsewhere: folders downloaded once, verified, shared by its processes."""

import os
import shutil
import uuid
from collections.abc import Callable, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

from pipeline.errors import UnfinishedError
from pipeline.storage.files import sha256_file

WAIT_S = 3600  # for another process of this node that downloads the same folder
TRIES = 3  # at a file that arrives with another sha256


def cache_root() -> Path:
    """What Tartan keeps on a node: `$TARTAN_CACHE`, by default `~/.cache/tartan`; perhaps not there yet."""
    return Path(os.environ.get("TARTAN_CACHE") or Path.home() / ".cache" / "tartan").expanduser()


def node_folder(name: str) -> Path:
    """The folder `name` of the node's cache, made."""
    folder = cache_root() / name
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def cached_folder(source: str, files: Mapping[str, Mapping[str, Any]], download: Callable[[str, Path], None]) -> Path:
    """The local folder with `files` (name -> bytes, sha256) of `source`, whose name says its contents: downloaded where
    it is not here yet. Raises UnfinishedError where a file keeps arriving damaged."""
    from filelock import FileLock

    folder = node_folder("indexes") / sha256(source.encode()).hexdigest()[:32]
    if _whole(folder, files):
        return folder
    with FileLock(f"{folder}.lock", timeout=WAIT_S):
        if not _whole(folder, files):
            shutil.rmtree(folder, ignore_errors=True)
            partial = folder.with_name(f".{folder.name}.{uuid.uuid4().hex}")
            try:
                for name, facts in files.items():
                    _download(source, name, str(facts["sha256"]), partial / name, download)
                partial.rename(folder)
            finally:
                shutil.rmtree(partial, ignore_errors=True)
    return folder


def _download(source: str, name: str, digest: str, path: Path, download: Callable[[str, Path], None]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    for _ in range(TRIES):
        download(name, path)
        if sha256_file(path) == digest:
            return
    raise UnfinishedError(f"{source}/{name}: its sha256 is not the one of its commit, {TRIES} times; restore the file")


def _whole(folder: Path, files: Mapping[str, Mapping[str, Any]]) -> bool:
    return all(
        (folder / name).is_file() and (folder / name).stat().st_size == facts["bytes"] for name, facts in files.items()
    )
