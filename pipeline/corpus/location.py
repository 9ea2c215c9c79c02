"""Where corpus files lie: local paths, `s3://bucket/...` and `hf://datasets/org/name/...`, found and opened alike."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from fnmatch import fnmatchcase
from functools import lru_cache

import pyarrow as pa
from pyarrow import fs

from pipeline.errors import InputError

_WILD = "*?["


@lru_cache
def _filesystem(scheme: str, bucket: str) -> fs.FileSystem:
    if scheme == "":
        return fs.LocalFileSystem()
    if scheme == "hf":
        from huggingface_hub import HfFileSystem

        return fs.PyFileSystem(fs.FSSpecHandler(HfFileSystem()))
    endpoint = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")
    region = os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")
    if region is None:
        region = "us-east-1" if endpoint else fs.resolve_s3_region(bucket)
    return fs.S3FileSystem(
        endpoint_override=endpoint, region=region, retry_strategy=fs.AwsStandardS3RetryStrategy(max_attempts=8)
    )


def split_address(path: str) -> tuple[str, str]:
    """(scheme, path inside): ("", path) of a local one. Raises InputError where the scheme is unknown."""
    scheme, mark, inside = path.partition("://")
    if not mark:
        return "", path
    if scheme not in ("s3", "hf"):
        raise InputError(f"corpus {path!r}: '{scheme}://' is not known; give a local path, s3:// or hf://.")
    return scheme, inside


def open_file(path: str) -> pa.NativeFile:
    """A file for random access. Raises OSError where it is not there or the service fails."""
    scheme, inside = split_address(path)
    return _filesystem(scheme, inside.split("/")[0]).open_input_file(inside)


def failures(path: str) -> tuple[type[Exception], ...]:
    """What may be raised in listing or opening an address."""
    if not path.startswith("hf://"):
        return OSError, pa.ArrowException
    from huggingface_hub.errors import HfHubHTTPError

    return OSError, pa.ArrowException, *HfHubHTTPError.__bases__  # the errors of whichever HTTP library the hub's uses


def is_damage(problem: Exception) -> bool:
    """Whether what was raised in reading speaks of a file's contents, not of a missing file, a right or a network."""
    if isinstance(problem, OSError):  # Arrow raises plain OSErrors for broken compression
        return type(problem) is OSError and problem.errno is None and "AWS Error" not in str(problem)
    return isinstance(problem, (pa.ArrowException, EOFError))


def reason_of(problem: Exception) -> str:
    """The first line of what a library said, at most 200 characters of it."""
    lines = str(problem).strip().splitlines() or [type(problem).__name__]
    return lines[0].rstrip(".")[:200]


def list_folder(path: str, recursive: bool = True) -> list[tuple[str, int]] | None:
    """(path relative to the folder, bytes) of the files in it, by path; None where it is no folder."""
    scheme, inside = split_address(path)
    with _named(path):
        store = _filesystem(scheme, inside.split("/")[0])
        inside = store.normalize_path(inside.rstrip("/") or "/")
        if store.get_file_info(inside).type != fs.FileType.Directory:
            return None
        infos = store.get_file_info(fs.FileSelector(inside, recursive=recursive))
    prefix = len(inside.rstrip("/")) + 1
    return sorted((info.path[prefix:], info.size) for info in infos if info.type == fs.FileType.File)


def find_files(pattern: str) -> list[tuple[str, int]]:
    """(address, bytes) of the files that a path or a glob names, by address; local ones absolute. `**` crosses folders;
    wildcards leave names that start with a dot alone. A file whose own name holds * or [ is still that file."""
    scheme, inside = split_address(pattern if "://" in pattern else os.path.abspath(pattern))
    prefix = f"{scheme}://" if scheme else ""
    with _named(pattern):
        info = _filesystem(scheme, inside.split("/")[0]).get_file_info(inside)
    if info.type == fs.FileType.File:
        return [(prefix + inside, info.size)]
    parts = inside.split("/")
    fixed = next((n for n, part in enumerate(parts) if any(mark in part for mark in _WILD)), len(parts))
    base = prefix + ("/".join(parts[:fixed]) or "/")
    wanted = parts[fixed:]
    if not wanted or (files := list_folder(base, recursive=len(wanted) > 1 or "**" in wanted)) is None:
        return []
    found = [(name, size) for name, size in files if _matches(name.split("/"), wanted)]
    return [(f"{base.rstrip('/')}/{name}", size) for name, size in found]


def _matches(names: list[str], wanted: list[str]) -> bool:
    if not wanted:
        return not names
    if wanted[0] == "**":
        return _matches(names, wanted[1:]) or (
            bool(names) and not names[0].startswith(".") and _matches(names[1:], wanted)
        )
    hidden = bool(names) and names[0].startswith(".") and not wanted[0].startswith(".")
    return bool(names) and not hidden and fnmatchcase(names[0], wanted[0]) and _matches(names[1:], wanted[1:])


@contextmanager
def _named(address: str) -> Iterator[None]:
    """Turns what a file system says into a sentence with the address."""
    try:
        yield
    except failures(address) as problem:
        raise InputError(
            f"corpus {address!r} cannot be listed ({reason_of(problem)}); check the address, the access rights and the "
            "endpoint."
        ) from problem
