"""colbert-ai 0.2.22's `Indexer` over the same texts, in an environment of its own; the result is kept, with what it
depends on."""

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from pipeline.models.embedded import prepare
from tests.benchmarks.figures import machine
from tests.benchmarks.index.bench import ITERATIONS, NBITS

TORCH = "torch==2.13.0+cpu"
TORCH_INDEX = "https://download.pytorch.org/whl/cpu"
# colbert-ai cannot load a model under transformers 5; ninja compiles its C++.
PACKAGES = (
    "colbert-ai==0.2.22", "transformers==4.49.0", "faiss-cpu==1.15.1", "numpy==2.3.5", "ninja", "setuptools<81",
)  # fmt: skip
SCRIPT = Path(__file__).with_name("colbert_ai_indexer.py")


def baseline(work: Path, texts: list[str], fresh: bool) -> dict[str, Any]:
    """{"seconds": of the whole build, "measured": now or before, versions, machine}."""
    key = hashlib.sha256(json.dumps([machine(), NBITS, ITERATIONS, texts]).encode()).hexdigest()[:16]
    kept = work / f"colbert-ai-{len(texts)}-{key}.json"
    if kept.exists() and not fresh:
        return json.loads(kept.read_text()) | {"measured": "before"}
    python = environment(work / "colbert-ai")
    source = work / "texts.json"
    source.write_text(json.dumps(texts))
    command = [python, SCRIPT, prepare("minilm-colbert"), source, work / "colbert-ai-runs", NBITS, ITERATIONS]
    settings = os.environ | {
        "CUDA_VISIBLE_DEVICES": "",
        "HF_HUB_OFFLINE": "1",
        "PATH": f"{python.parent}{os.pathsep}{os.environ['PATH']}",  # ninja
        "TORCH_EXTENSIONS_DIR": str(work / "torch_extensions"),
    }
    settings.pop("PYTHONPATH", None)  # Tartan's packages are not this environment's
    done = subprocess.run([str(part) for part in command], cwd=work, env=settings, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"colbert-ai's build failed: {done.stderr[-3000:]}")
    found = json.loads(done.stdout.splitlines()[-1]) | {"machine": machine()}
    kept.write_text(json.dumps(found, indent=2))
    return found | {"measured": "now"}


def environment(folder: Path) -> Path:
    """Its Python; made where it is not yet whole."""
    python, done = folder / "bin" / "python", folder / ".installed"
    if not done.exists():
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        pip = [python, "-m", "pip", "install", "--quiet"]
        if subprocess.run([*pip, TORCH]).returncode:  # from where pip finds it, else from PyTorch's own index
            subprocess.run([*pip, "--index-url", TORCH_INDEX, TORCH], check=True)
        subprocess.run([*pip, *PACKAGES], check=True)
        done.touch()
    return python
