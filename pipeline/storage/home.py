"""The operations every home of an index has, and what follows from them."""

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from pipeline.errors import InputError, UnfinishedError
from pipeline.storage.files import from_json, sha256_file, to_json

Record = dict[str, Any]  # a commit: its counts, `folder` and `files` (name -> bytes, sha256)


class ChangedError(Exception):
    """A step that was done again has other bytes than those which other steps have used."""


class Home(ABC):
    """A folder of small files and committed folders, here or on S3. Names are relative, with `/`. Picklable."""

    def __init__(self, place: str) -> None:
        self.place = place

    def __str__(self) -> str:
        return self.place

    @abstractmethod
    def read(self, name: str) -> bytes:
        """A small file's bytes. Raises FileNotFoundError."""

    @abstractmethod
    def write(self, name: str, data: bytes) -> None:
        """Replaces a small file in one step: readers see the old contents or the new, never a part."""

    @abstractmethod
    def create(self, name: str, data: bytes) -> bool:
        """Creates a small file if it does not exist; False where it does. One of many racing callers wins."""

    @abstractmethod
    def remove(self, name: str) -> None:
        """Removes a small file; fine where it is gone."""

    @abstractmethod
    def exists(self, name: str) -> bool: ...

    @abstractmethod
    def entries(self, folder: str = "") -> list[str]:
        """Names of the files and folders directly in `folder`, sorted; none where it does not exist."""

    @abstractmethod
    def attempt(self) -> AbstractContextManager[Path]:
        """A fresh local folder to write into, removed at the end unless a commit has moved it."""

    @abstractmethod
    def publish(self, folder: Path, target: str, files: Mapping[str, Mapping[str, Any]]) -> None:
        """Brings an attempt's `files` to the folder `target` of this home, whole or not at all; fine if it is there."""

    @abstractmethod
    def fetch(self, record: Record, only: Collection[str] | None = None) -> Path:
        """A local folder with a commit's files, or with `only` some: itself, or a verified copy that this node's
        processes share."""

    @abstractmethod
    def damage(self, record: Record) -> list[str]:
        """What is wrong with a commit's files: missing, or of another size."""

    @abstractmethod
    def discard(self, folder: str) -> None:
        """Removes a folder that nothing refers to."""

    @abstractmethod
    def scratch(self) -> Path:
        """A local folder for what may be lost, the same one for all processes of a node; not made yet, perhaps."""

    @abstractmethod
    def clean(self) -> None:
        """Removes scratch and what killed processes have left."""

    def commit(
        self,
        name: str,
        folder: Path,
        record: Mapping[str, Any],
        shared: Record | None = None,
        expected: str | None = None,
    ) -> Record:
        """Commits an attempt under `name` ("shards/00003"): its files, their sizes and sha256, and `record`'s counts.

        `shared`: another commit; a file that it has, too, refers to it (`in`) where this home would store a second
        copy. `expected`: the folder of an earlier commit of that name, whose bytes others have used. Returns the commit
        that holds, which is another worker's where that one came first. Raises ChangedError where the bytes are not the
        expected ones.
        """
        paths = [path for path in sorted(folder.rglob("*")) if path.is_file()]
        files: dict[str, dict[str, Any]] = {
            str(path.relative_to(folder)): {"bytes": path.stat().st_size, "sha256": sha256_file(path)} for path in paths
        }
        digest = hashlib.sha256(to_json(files)).hexdigest()[:16]
        target = f"{name}-{digest}"
        if expected not in (None, target):
            raise ChangedError(f"{self}: {name}, done again, is not what it was")
        if shared is not None:
            for file, facts in files.items():
                if shared["files"].get(file) == facts and self.refers():
                    facts["in"] = shared["folder"]
        self.publish(folder, target, files)
        body = {**record, "folder": target, "files": files}
        self.create(f"commit/{name}.json", to_json(body))
        held = self.need(name)
        if held["folder"] != target:
            self.discard(target)
        return held

    def forget(self, name: str) -> None:
        """Takes a damaged commit back, so that its step is done again."""
        self.discard(self.need(name)["folder"])
        self.remove(f"commit/{name}.json")

    def refers(self) -> bool:
        """Whether a file that two commits have is stored once, by reference; a file system has links for that."""
        return False

    def committed(self, name: str) -> Record | None:
        """The commit called `name`, or None where that step has not finished."""
        try:
            return self.json(f"commit/{name}.json")
        except FileNotFoundError:
            return None

    def need(self, name: str) -> Record:
        """The commit called `name`. Raises UnfinishedError where that step has not finished."""
        if (record := self.committed(name)) is None:
            raise UnfinishedError(f"{self}: its step {name} is not done. Run the command again to continue")
        return record

    def done(self, step: str) -> set[str]:
        """What is committed under `step`: {"00000", "00001"} for "shards"."""
        return {entry.removesuffix(".json") for entry in self.entries(f"commit/{step}") if entry.endswith(".json")}

    def folder(self, name: str) -> Path:
        """The local folder with the files of the commit called `name`. Raises UnfinishedError as `need` does."""
        return self.fetch(self.need(name))

    def json(self, name: str) -> Any:
        """The value a small JSON file holds. Raises FileNotFoundError; InputError where it is damaged."""
        return from_json(self.read(name), f"{self}/{name}")


def open_home(place: "str | Path | Home") -> Home:
    """The home at a local path or an `s3://bucket/prefix` address; it need not exist yet.

    Raises InputError for another scheme, or an S3 address without bucket or prefix.
    """
    if isinstance(place, Home):
        return place
    text = str(place)
    if text.startswith("s3://"):
        from pipeline.storage.s3 import S3Home

        return S3Home(text)
    if "://" in text:
        raise InputError(f"{text}: an index lives in a local folder or at s3://BUCKET/PREFIX")
    from pipeline.storage.local import LocalHome

    return LocalHome(text)
