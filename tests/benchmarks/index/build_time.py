"""The whole build, by `tartan index` in a process of its own, against colbert-ai's; and what the index weighs."""

import json
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator

from pipeline.plaid.manifest import read_manifest
from pipeline.plaid.meter import timings
from tests.benchmarks.figures import Figure
from tests.benchmarks.index.baseline import baseline
from tests.benchmarks.index.bench import ITERATIONS, NBITS, Bench, median

CODEC_FILES = ("centroids.pt", "buckets.pt", "avg_residual.pt", "codec.json")


def build(bench: Bench) -> Iterator[Figure]:
    """Wall seconds with everything: interpreter, Ray, loading the model, BM25. The peer's are of `Indexer.index` alone,
    its model loaded within and its C++ compiled before."""
    peer = baseline(bench.work, bench.texts("vaswani"), bench.fresh)
    out = bench.work / f"vaswani-{bench.documents or 'all'}"
    command = [sys.executable, "-m", "jobs.index", "--corpus", str(bench.corpus("vaswani")), "--out", str(out)]
    command += ["--json", "--set", f"codec.nbits={NBITS}", "--set", f"codec.kmeans_iterations={ITERATIONS}"]
    seconds = []
    for _ in range(bench.runs):
        shutil.rmtree(out, ignore_errors=True)
        started = time.perf_counter()
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(f"tartan index failed: {done.stderr[-3000:]}")
        seconds.append(time.perf_counter() - started)
    spent = {step: found["phases"] for step, found in timings(bench.index).items()}
    yield Figure("tartan index, s", median(seconds), note=json.dumps(spent), runs=bench.runs)
    yield Figure("colbert-ai Indexer, s", peer["seconds"], note=f"measured {peer['measured']}")
    yield Figure("whole build, times faster", peer["seconds"] / median(seconds), ("at least", 5), runs=bench.runs)


def size(bench: Bench) -> Iterator[Figure]:
    """Bytes a token vector, of what grows with the collection. Payload: a code and the residual."""
    home = bench.index
    manifest = read_manifest(home)
    parts: dict[str, int] = {}
    for shard in manifest.shards:
        for name, facts in home.need(f"shards/{shard['shard']}")["files"].items():
            kind = (
                "codec" if name in CODEC_FILES else name.removesuffix(".pt").removesuffix(".json").strip("0123456789.")
            )
            parts[kind] = parts.get(kind, 0) + (facts["bytes"] if kind != "codec" else 0)
    tokens = sum(shard["embeddings"] for shard in manifest.shards)
    payload = 4 + bench.codec.dim * NBITS / 8
    split = ", ".join(f"{kind} {size / tokens:.2f}" for kind, size in sorted(parts.items()) if size)
    total = sum(parts.values()) / tokens
    yield Figure("index bytes a token", total, ("at most", payload + 3), f"payload {payload:.0f}; {split}")
    codec = sum(facts["bytes"] for name, facts in home.need("codec")["files"].items() if name in CODEC_FILES)
    yield Figure("codec bytes a token", codec / tokens, note=f"one codec an index: {codec / 1e6:.1f} MB in all")
