"""From a profile's `source` to a folder on this machine, and a fingerprint of what lies there."""

import os
from functools import lru_cache
from hashlib import sha256
from pathlib import Path

from pipeline.errors import InputError
from pipeline.models.embedded import RECORD, prepare

PREFIX = "embedded:"
# What decides a model's output: settings, tokenizer and weights. Not its README, licence or pictures.
_DECISIVE = {".json", ".txt", ".model", ".metadata", ".jinja", ".py", ".safetensors", ".bin", ".dnn", ".pt"}


def resolve_model(source: str, revision: str | None = None) -> Path:
    """The folder of `source`: `embedded:NAME`, an existing folder, or a Hugging Face hub id (downloaded on first use).

    Raises InputError if there is no such embedded model or folder, or the hub does not deliver it.
    """
    if source.startswith(PREFIX):
        return prepare(source.removeprefix(PREFIX))
    path = Path(source).expanduser()
    if path.is_dir():
        return path
    if source.startswith(("/", ".", "~")) or source.count("/") > 1:
        raise InputError(f"model '{source}': no such folder; give a folder, a hub id (owner/name) or embedded:NAME.")
    return _download(source, revision)


def _download(source: str, revision: str | None) -> Path:
    import huggingface_hub
    from huggingface_hub.errors import HFValidationError

    try:
        return Path(huggingface_hub.snapshot_download(source, revision=revision))
    except (OSError, HFValidationError) as problem:  # the hub's own errors and a missing network are OSErrors
        at = f" at revision {revision}" if revision else ""
        reason = " ".join(str(problem).split())[:200]
        raise InputError(
            f"model '{source}'{at} is neither a folder nor in the local Hugging Face cache, and the hub did not "
            f"deliver it ({reason}); download it beforehand (hf download {source}), set HF_HOME to a cache that has "
            "it, or use --profile embedded."
        ) from problem


def model_fingerprint(path: Path) -> str:
    """sha256 (hex) over names, sizes and contents of the config, tokenizer and weight files under `path`.

    The same for equal files wherever they lie. Within a process a file is read again only if its size or mtime change.
    """
    digest = sha256()
    for file in sorted(path.rglob("*"), key=lambda item: item.relative_to(path).as_posix()):
        if file.suffix not in _DECISIVE or file.name == RECORD or not file.is_file():
            continue
        status = os.stat(file)
        content = _content(str(file.resolve()), status.st_size, status.st_mtime_ns)
        digest.update(f"{file.relative_to(path).as_posix()}\n{status.st_size}\n{content}\n".encode())
    return digest.hexdigest()


@lru_cache(maxsize=4096)
def _content(path: str, size: int, mtime_ns: int) -> str:
    """sha256 of a file; size and mtime only make the cache's key."""
    with open(path, "rb") as file:
        digest = sha256()
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()
