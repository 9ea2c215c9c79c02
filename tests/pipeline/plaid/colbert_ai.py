"""Runs colbert-ai's own code over shards, in a process of its own, for importing it changes process-wide settings.

    python -m tests.pipeline.plaid.colbert_ai IN.npz OUT.npz FOLDER...

IN holds vectors [n, dim], and optionally queries [q, len, dim] with settings [s, 3] (ncells, threshold, ndocs).
For each folder, by name, OUT gets what `ResidualCodec` makes of the vectors as NAME.codes, NAME.residuals and
NAME.decompressed and, if there are queries, `IndexScorer`'s ranking as NAME.SETTING.QUERY: an array of pids and scores.
"""

import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace

import numpy as np

REPOSITORY = Path(__file__).parents[3]


def run(folders: Sequence[Path], scratch: Path, arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """What this script gives for shards and the arrays of IN. Its compiled C++ is kept within the environment."""
    environment = os.environ | {
        "TORCH_EXTENSIONS_DIR": str(Path(sys.prefix) / "torch_extensions"),
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",  # where pip puts ninja
        "CUDA_VISIBLE_DEVICES": "",
    }
    np.savez(scratch / "in.npz", **arrays)
    command = [sys.executable, "-m", __name__, str(scratch / "in.npz"), str(scratch / "out.npz"), *map(str, folders)]
    done = subprocess.run(command, cwd=REPOSITORY, env=environment, capture_output=True, text=True, timeout=1100)
    assert done.returncode == 0, done.stderr[-4000:]
    with np.load(scratch / "out.npz") as out:
        return dict(out)


def main(source: str, target: str, *folders: str) -> None:
    import torch
    from colbert.indexing.codecs.residual import ResidualCodec

    given = np.load(source)
    out = {}
    for folder in folders:
        codec = ResidualCodec.load(folder)
        compressed = codec.compress(torch.from_numpy(given["vectors"]))
        made = {
            "codes": compressed.codes.numpy(),
            "residuals": compressed.residuals.numpy(),
            "decompressed": codec.decompress(compressed).numpy(),
        }
        if "queries" in given:
            made |= rankings(folder, given["queries"], given["settings"])
        out |= {f"{Path(folder).name}.{key}": value for key, value in made.items()}
    np.savez(target, **out)


def compile_extensions() -> None:
    """Load colbert-ai's C++, compiling what has not been compiled yet; one process at a time."""
    from colbert.modeling.colbert import ColBERT
    from colbert.search.index_storage import IndexScorer
    from colbert.search.strided_tensor import StridedTensor
    from filelock import FileLock

    extensions = Path(os.environ["TORCH_EXTENSIONS_DIR"])
    extensions.mkdir(parents=True, exist_ok=True)
    with FileLock(extensions / "compiling"):
        for stale in extensions.glob("*/lock"):  # left by a build that was killed; torch would wait for it for ever
            stale.unlink()
        # ColBERT's, segmented_maxsim, is otherwise loaded by its constructor alone, which needs a checkpoint.
        for owner in (ColBERT, IndexScorer, StridedTensor):
            owner.try_load_torch_extensions(use_gpu=False)


def rankings(folder: str, queries: np.ndarray, settings: np.ndarray) -> dict[str, np.ndarray]:
    import torch
    from colbert.search.index_storage import IndexScorer

    compile_extensions()
    scorer = IndexScorer(folder, use_gpu=False)
    out = {}
    for s, (ncells, threshold, ndocs) in enumerate(settings):
        config = SimpleNamespace(
            ncells=int(ncells), centroid_score_threshold=float(threshold), ndocs=int(ndocs),
            query_maxlen=queries.shape[1], total_visible_gpus=0, interaction="colbert",
        )  # fmt: skip
        started = time.perf_counter()
        for q, query in enumerate(queries):
            pids, scores = scorer.rank(config, torch.from_numpy(query)[None])
            out[f"{s}.{q}"] = np.array([pids, scores])
        out[f"{s}.seconds"] = np.array(time.perf_counter() - started)
    return out


if __name__ == "__main__":
    main(*sys.argv[1:])
