"""An index small enough to build in a second: real splitting, codec and shards; the encoder is a stub whose vectors
depend on the text alone."""

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from pipeline import storage
from pipeline.lexical import build as lexical
from pipeline.models.resolve import resolve_model
from pipeline.plaid import build
from pipeline.plaid.config import load_index_config
from pipeline.plaid.plan import Plan, freeze_plan, make_plan
from pipeline.profile import ModelSpec

SPEC = ModelSpec(engine="late-interaction", source="embedded:minilm-colbert")
DIM = 384


class StubEncoder:
    """One unit vector a word, the same for the same word everywhere."""

    dtype = "float32"

    def encode_documents(self, texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        vectors = [self._words(text) for text in texts]
        return np.concatenate(vectors), np.array([len(v) for v in vectors], np.int32)

    def encode_queries(self, texts: Sequence[str]) -> list[np.ndarray]:
        return [self._words(text) for text in texts]

    def _words(self, text: str) -> np.ndarray:
        rows = []
        for word in text.split():
            seed = int.from_bytes(hashlib.sha256(word.encode()).digest()[:8])
            row = np.random.default_rng(seed).normal(size=DIM)
            rows.append(row / np.linalg.norm(row))
        return np.array(rows, np.float32)


def write_corpus(folder: Path, documents: list[dict[str, Any]]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    columns = [("id", pa.string()), ("url", pa.string()), ("text", pa.string())]
    for number in range(0, len(documents), 5):
        part = pa.Table.from_pylist(documents[number : number + 5], schema=pa.schema(columns))
        pq.write_table(part, folder / f"part-{number:03}.parquet")
    return folder


def documents_of(count: int = 12) -> list[dict[str, Any]]:
    return [
        {"id": f"d{n}", "url": f"https://example.org/{n}", "text": " ".join(f"word{n}x{m % 40}" for m in range(60))}
        for n in range(count)
    ]


def plan_of(corpus: Path, *sets: str) -> Plan:
    config = load_index_config("default", str(corpus), ["shards.documents=4", "split.size=100", *sets])
    return make_plan(config, SPEC)


def before_codec(plan: Plan, out: Path, tokenizer: Path) -> None:
    for shard in plan.shards:
        build.passages_step(plan, shard.shard, out, tokenizer)
    if plan.config.lexical.bm25:
        for shard in plan.shards:
            lexical.postings_step(plan, shard.shard, out)
        lexical.statistics_step(plan, out)
        for shard in plan.shards:
            lexical.weights_step(plan, shard.shard, out)


def build_index(plan: Plan, out: Path, encoder: StubEncoder = StubEncoder()) -> dict[str, Any]:
    freeze_plan(plan, out)
    tokenizer = resolve_model(SPEC.source)
    before_codec(plan, out, tokenizer)
    build.codec_step(plan, out, encoder)
    for shard in plan.shards:
        build.encode_step(plan, shard.shard, out, encoder, *build.open_codec(out, encoder))
    return build.publish_step(plan, out)


def hashes(out: Path) -> dict[str, str]:
    return {str(path.relative_to(out)): storage.sha256_file(path) for path in sorted(out.rglob("*")) if path.is_file()}
