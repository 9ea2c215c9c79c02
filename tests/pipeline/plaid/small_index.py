"""An index small enough to build in a second: real splitting, codec and shards; the encoder is a stub whose vectors
depend on the text alone."""

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from pipeline.dense.build import vectors_step
from pipeline.lexical import build as lexical
from pipeline.models.resolve import resolve_model
from pipeline.plaid import build
from pipeline.plaid.config import load_index_config
from pipeline.plaid.plan import Plan, freeze_plan, make_plan
from pipeline.plaid.publish import collection, publish_step
from pipeline.profile import ModelSpec
from pipeline.storage import Home, open_home, sha256_file
from tests.pipeline.dense.shards import WordEmbedder

SPEC = ModelSpec(engine="late-interaction", source="embedded:minilm-colbert")
MINILM = ModelSpec(engine="sentence-transformers", source="embedded:minilm")
DIM = 384


class StubEncoder:
    """One unit vector a word, the same for the same word everywhere."""

    dtype = "float32"
    device = "cpu"

    def tokenise_documents(self, texts: Sequence[str]) -> Sequence[str]:
        return texts

    def encode_tokens(self, tokens: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        return self.encode_documents(tokens)

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
    return make_plan(config, SPEC, MINILM if config.dense.role else None)


def dense_plan(corpus: Path, *sets: str) -> Plan:
    return plan_of(corpus, "dense.role=dense_retriever", *sets)


def build_index(plan: Plan, out: Path | Home, encoder: StubEncoder = StubEncoder()) -> dict[str, Any]:
    """Freezes the plan, or continues, in this process."""
    home = open_home(out)
    freeze_plan(plan, home)
    return build_shards(plan, plan.names(), home, encoder)


def build_shards(plan: Plan, names: Sequence[str], home: Home, encoder: StubEncoder = StubEncoder()) -> dict[str, Any]:
    """Every step for these shards, one after the other."""
    tokenizer = resolve_model(SPEC.source)
    for name in names:
        build.passages_step(plan, name, home, tokenizer)
    build.codec_step(plan, home, encoder)
    for name in names:
        build.encode_step(plan, name, home, encoder, *build.open_codec(home, encoder))
    wanted = collection(names, home)
    if plan.config.lexical.bm25:
        build_bm25(plan, wanted, home)
    if plan.config.dense.role:
        for name in names:
            vectors_step(plan, name, home, WordEmbedder())
    return publish_step(plan, wanted, home)


def build_bm25(plan: Plan, names: Sequence[str], home: Home) -> None:
    for name in names:
        lexical.postings_step(plan, name, home)
    lexical.statistics_step(names, home)
    for name in names:
        lexical.weights_step(plan.config.lexical, lexical.collection_key(names), name, home)


TRACES = {"report.json", "timings", "attempts"}  # of how a build went, which is not part of the index


def hashes(out: Path) -> dict[str, str]:
    """sha256 of every file that makes up an index."""
    paths = [path.relative_to(out) for path in sorted(out.rglob("*")) if path.is_file()]
    return {str(path): sha256_file(out / path) for path in paths if path.parts[0] not in TRACES}
