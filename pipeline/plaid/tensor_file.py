"""Tensors in torch's file format, which colbert-ai reads: the same values always give the same bytes."""

import os
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

from pipeline.errors import InputError


def save_tensor(path: Path, value: Any) -> None:
    """Write a tensor, or a tuple of them, and force it to the disk."""
    import torch

    with path.open("wb") as file:
        # Given a path, torch would write the file's name into the file.
        torch.save(value, file)
        file.flush()
        os.fsync(file.fileno())


def load_tensor(path: Path) -> Any:
    """Map a file written by `torch.save` into memory; nothing is read until it is used.

    Raises InputError, with path and size, if the file is absent, empty or cut short.
    """
    import torch

    if not path.is_file():
        raise InputError(f"{path}: not there, so this is not a whole PLAID shard; build the shard again.")
    size = path.stat().st_size
    try:
        return torch.load(str(path), map_location="cpu", mmap=True, weights_only=True)
    except (RuntimeError, EOFError, OSError, ValueError, UnpicklingError) as error:
        # torch's words on a damaged pickle advise to load it unsafely: not for users.
        unsafe = isinstance(error, UnpicklingError) or not str(error)
        reason = type(error).__name__ if unsafe else str(error).splitlines()[0]
        raise InputError(f"{path}: {size} bytes that torch cannot read ({reason}); build the shard again.") from error
