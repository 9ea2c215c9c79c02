"""Memory of a build's driver at 1x and 10x a corpus, and of each of ten like shards in one worker."""

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from pipeline.models.resolve import resolve_model
from tests.benchmarks.figures import Figure
from tests.benchmarks.index.bench import Bench

DOCUMENTS = 4_000  # of a shard, and of the corpus at 1x
WORDS = 60


def memory(bench: Bench) -> Iterator[Figure]:
    """Vectors come from a stub, a table of words: neither driver nor compression sees where they are from."""
    documents = min(DOCUMENTS, bench.documents or DOCUMENTS)
    once, ten = (_peaks(bench, "driver", documents * times, documents) for times in (1, 10))
    note = f"peak {once[0]:.0f} and {ten[0]:.0f} MiB; {documents:,} and {10 * documents:,} documents"
    yield Figure("driver memory, 10x / 1x", ten[0] / once[0], ("at most", 1.1), note)
    peaks = _peaks(bench, "worker", documents * 10, documents)
    note = "peaks " + ", ".join(f"{peak:.0f}" for peak in peaks) + " MiB"
    yield Figure("worker memory, last shard / first", peaks[-1] / peaks[0], ("at most", 1.2), note)


class TableEncoder:
    """One unit vector a word, from a table of 4,096."""

    dtype, device = "float32", "cpu"

    def __init__(self) -> None:
        table = np.random.default_rng(0).normal(size=(4096, 384)).astype(np.float32)
        self._table = table / np.linalg.norm(table, axis=1, keepdims=True)

    def tokenise_documents(self, texts: list[str]) -> list[list[int]]:
        return [[int(word[1:]) for word in text.split()] for text in texts]

    def encode_tokens(self, tokens: list[list[int]]) -> tuple[np.ndarray, np.ndarray]:
        lengths = np.array([len(ids) for ids in tokens], np.int32)
        return self._table[np.concatenate(tokens)], lengths


def make_encoder(_: Any) -> TableEncoder:
    return TableEncoder()


def write_corpus(folder: Path, documents: int) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    rng = np.random.default_rng(0)
    for first in range(0, documents, DOCUMENTS):
        words = rng.integers(0, 4096, (min(DOCUMENTS, documents - first), WORDS))
        texts = [" ".join(f"w{word}" for word in row) for row in words]
        table = pa.table({"id": [f"d{first + n}" for n in range(len(texts))], "text": texts})
        pq.write_table(table, folder / f"docs-{first:08}.parquet")


def _peaks(bench: Bench, role: str, documents: int, shard: int) -> list[float]:
    """MiB, from a process of its own: of the driver one, of the worker one a shard."""
    corpus, out = bench.work / "corpora" / f"words-{documents}", bench.work / "memory"
    write_corpus(corpus, documents)
    shutil.rmtree(out, ignore_errors=True)
    command = [sys.executable, "-m", __name__, role, str(corpus), str(out), str(shard)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"the {role} failed: {done.stderr[-3000:]}")
    return [float(peak) for peak in done.stdout.splitlines()[-1].split()]


def peak_mib() -> float:
    """The largest resident set of this process, MiB, since it was last asked for."""
    status = Path("/proc/self/status").read_text()
    peak = next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM"))
    Path("/proc/self/clear_refs").write_text("5")
    return peak / 1024


def main(role: str, corpus: str, out: str, shard: str) -> None:
    from pipeline.plaid.build import codec_step, encode_step, open_codec, passages_step
    from pipeline.plaid.plan import freeze_plan
    from pipeline.storage import open_home

    bench = Bench(Path(out).parent)
    plan = bench.plan(Path(corpus), f"shards.documents={shard}", "codec.sample_memory_gib=0.05")
    home, tokenizer = open_home(out), resolve_model(bench.spec.source)
    freeze_plan(plan, home)
    if role == "driver":
        from jobs.bars import BuildBars
        from ray_cluster.build import build
        from ray_cluster.connect import connect

        connect(None, 2, 0)
        with BuildBars(quiet=True) as bars:
            build(plan, plan.names(), home, bench.spec, tokenizer, bars, maker=f"{_module()}:make_encoder")
        print(peak_mib())
        return
    encoder, peaks = TableEncoder(), []
    for name in plan.names():
        passages_step(plan, name, home, tokenizer)
    codec_step(plan, home, encoder)
    opened = open_codec(home, encoder)
    for name in plan.names():
        peak_mib()
        encode_step(plan, name, home, encoder, *opened)
        peaks.append(peak_mib())
    print(*peaks)


def _module() -> str:
    return "tests.benchmarks.index.memory"


if __name__ == "__main__":
    main(*sys.argv[1:])
