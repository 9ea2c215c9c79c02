"""The encode step against the bare forward passes of the same model over the same batches, in turn."""

import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq

from pipeline.models.resolve import resolve_model
from pipeline.plaid.build import encode_step, open_codec, passages_step
from pipeline.plaid.meter import Meter
from pipeline.plaid.passages import open_passages
from pipeline.plaid.plan import freeze_plan
from pipeline.storage import Home, open_home
from tests.benchmarks.figures import Figure
from tests.benchmarks.index.bench import Bench, median, token_batches

DOCUMENTS = 3_000
SHARD = "00000"


def throughput(bench: Bench) -> Iterator[Figure]:
    """One shard of vaswani, compressed with the codec of the whole collection."""
    encoder, codec = bench.encoder, bench.codec
    home = _home(bench)
    store = open_passages(home, SHARD)
    pieces = [encoder.tokenise_documents(store.piece(number)) for number in range(store.pieces)]
    passes = [batch for tokens in pieces for batch in token_batches(encoder, tokens)]
    opened = open_codec(home, encoder)
    encoder.encode_tokens(pieces[0][:64])
    opened[0].compress(encoder.encode_tokens(pieces[0][:16])[0])  # compiles
    forward, whole, phases = [], [], {}
    for _ in range(bench.runs):
        started = time.perf_counter()
        for batch in passes:
            encoder._forward(batch, [len(ids) for ids in batch], "document")
        raw = time.perf_counter() - started
        meter = Meter()
        started = time.perf_counter()
        encode_step(bench.plan(_corpus(bench)), SHARD, home, encoder, *opened, meter=meter)
        whole.append(raw / (time.perf_counter() - started))
        meter.save(home, "shards", SHARD)
        phases = home.json(f"timings/shards/{SHARD}.json")["phases"]
        forward.append(raw / phases["forward"])
        home.forget(f"shards/{SHARD}")
    tokens = sum(len(ids) for piece in pieces for ids in piece)
    note = f"{len(store)} passages, {tokens:,} tokens, {raw:.1f} s of bare passes, {codec.num_centroids:,} centroids"
    yield Figure("forward passes in the step / bare ones", median(forward), ("at least", 0.9), note, bench.runs)
    yield Figure("whole step / bare passes", median(whole), ("at least", 0.75), str(phases), bench.runs)


def _corpus(bench: Bench) -> Path:
    folder = bench.work / "corpora" / "throughput"
    folder.mkdir(parents=True, exist_ok=True)
    files = sorted(bench.corpus("vaswani").glob("docs-*.parquet"))
    pq.write_table(pq.ParquetDataset(files).read().slice(0, DOCUMENTS), folder / "docs-0000.parquet")
    return folder


def _home(bench: Bench) -> Home:
    """A home whose one shard is read and which has the codec of the measurement `build`."""
    place = bench.work / "throughput"
    shutil.rmtree(place, ignore_errors=True)
    home, plan = open_home(place), bench.plan(_corpus(bench))
    freeze_plan(plan, home)
    passages_step(plan, SHARD, home, resolve_model(bench.spec.source))
    with home.attempt() as folder:
        bench.codec.save(folder)
        home.commit("codec", folder, {"centroids": bench.codec.num_centroids, "dtype": bench.encoder.dtype})
    return home
