"""What the measurements share: their data, the model, and a folder to work in."""

import json
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from pipeline.compose import load_profile
from pipeline.local import make_model
from pipeline.plaid.codec import Codec
from pipeline.plaid.config import load_index_config
from pipeline.plaid.encoder import LateInteractionEncoder, batches
from pipeline.plaid.manifest import read_manifest
from pipeline.plaid.passages import open_passages
from pipeline.plaid.plan import Plan, make_plan
from pipeline.profile import RETRIEVER, ModelSpec
from pipeline.storage import Home, open_home

DATA = Path(__file__).resolve().parents[4] / "shared" / "data"
NBITS, ITERATIONS = 2, 4


@dataclass(frozen=True)
class Bench:
    """`work`: a cache folder; `documents`: of a corpus at most, for a trial; `fresh`: nothing cached counts."""

    work: Path
    documents: int | None = None
    fresh: bool = False
    runs: int = 3

    @cached_property
    def spec(self) -> ModelSpec:
        return load_profile("embedded").model(RETRIEVER)

    @cached_property
    def encoder(self) -> LateInteractionEncoder:
        return make_model(self.spec)

    def corpus(self, name: str) -> Path:
        """The folder of a collection in DATA, or its first documents in one file."""
        source = DATA / name
        if self.documents is None:
            return source
        table = pq.ParquetDataset(sorted(source.glob("docs-*.parquet"))).read().slice(0, self.documents)
        folder = self.work / "corpora" / f"{name}-{self.documents}"
        folder.mkdir(parents=True, exist_ok=True)
        pq.write_table(table, folder / "docs-0000.parquet")
        return folder

    def texts(self, name: str) -> list[str]:
        files = sorted(self.corpus(name).glob("docs-*.parquet"))
        return [text for file in files for text in pq.read_table(file)["text"].to_pylist()]

    def questions(self, name: str) -> list[dict[str, Any]]:
        return [json.loads(line) for line in (DATA / name / "questions.jsonl").read_text().splitlines()]

    def plan(self, corpus: Path, *sets: str) -> Plan:
        fixed = [f"codec.nbits={NBITS}", f"codec.kmeans_iterations={ITERATIONS}", "lexical.bm25=false"]
        return make_plan(load_index_config("default", str(corpus), [*fixed, *sets]), self.spec)

    def raw_vectors(self, home: Home) -> tuple[np.ndarray, np.ndarray]:
        """The token vectors of an index's passages, float32 [E, dim], in order of pid; doclens int32 [passages]."""
        found = []
        for shard in read_manifest(home).shards:
            store = open_passages(home, shard["shard"])
            found += [self.encoder.encode_documents(store.piece(number)) for number in range(store.pieces)]
        return np.concatenate([vectors for vectors, _ in found]), np.concatenate([lens for _, lens in found])

    @property
    def index(self) -> Home:
        """The index of vaswani that the measurement `build` leaves."""
        return open_home(self.work / f"vaswani-{self.documents or 'all'}")

    @property
    def codec(self) -> Codec:
        return Codec.load(self.index.folder("codec"))


def token_batches(encoder: LateInteractionEncoder, tokens: Sequence[list[int]]) -> list[list[list[int]]]:
    """The batches that `encode_tokens` makes of tokenised texts."""
    lengths = [len(ids) for ids in tokens]
    return [[tokens[row] for row in rows] for rows in batches(lengths, encoder.batch_tokens)]


def median(values: Sequence[float]) -> float:
    return statistics.median(values)
