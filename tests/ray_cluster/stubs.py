"""Engines, shards, environments and stages small enough to follow by hand, importable by Ray's workers."""

import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
from pydantic import PrivateAttr

from pipeline.env import (
    LLM,
    ChatRequest,
    Completion,
    EngineError,
    Env,
    Reading,
    ReadRequest,
    Searcher,
    SearchRequest,
)
from pipeline.errors import InputError
from pipeline.plaid.meter import Counts
from pipeline.profile import ModelSpec
from pipeline.schema import PASSAGE, STRINGS, question_table
from pipeline.stage import Stage
from ray_cluster.pools import Makers
from ray_cluster.replicas import ReplicaLost

SHARDS = {"s0": [0, 1, 2], "s1": [3, 4], "s2": [5]}  # shard -> pids
SCORES = [3.0, 9.0, 1.0, 9.0, 5.0, 9.0]  # by pid


def first(path: Path) -> bool:
    """Whether nobody has been here before."""
    try:
        path.touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


def wait_for(path: Path, most_s: float = 30) -> None:
    end = time.monotonic() + most_s
    while not path.exists() and time.monotonic() < end:
        time.sleep(0.02)


class StubEngine:
    """Answers like an engine, an embedder and an encoder; `source` says how it misbehaves."""

    max_model_len = 128

    def __init__(self, spec: ModelSpec) -> None:
        self.spec = spec
        if spec.source == "absent":
            raise InputError("models.m: no folder 'absent'; give a folder or a hub id")
        if spec.source == "broken":
            raise ValueError("the weights have\nanother shape")
        if spec.source == "slow":
            time.sleep(60)
        if spec.source.startswith("late:") and not first(Path(spec.source[5:]) / "first"):
            wait_for(Path(spec.source[5:]) / "go")
        self._ended = False
        self.finished = 0

    def alive(self) -> bool:
        return not self._ended

    def chat(self, requests: Sequence[ChatRequest]) -> list[Completion]:
        if any(request.messages[0]["content"] == "die" for request in requests):
            os._exit(1)
        if any(request.messages[0]["content"] == "sleep" for request in requests):
            time.sleep(30)
        said = [request.messages[0]["content"] for request in requests]
        for order, _, path in (text.partition(":") for text in said):
            if order == "die once" and first(Path(path)):
                os._exit(1)
            if order == "break once" and first(Path(path)):
                self._ended = True
                raise EngineError("the engine died: out of memory")
            if order == "hold":
                wait_for(Path(path))
        if "refuse" in said:
            raise ValueError("cannot say that")
        self.finished += len(said)
        return [Completion(f"{text}|{os.getpid()}", text, "stop", len(text), 1) for text in said]

    def count_tokens(self, messages: Sequence[dict[str, str]]) -> int:
        return len(messages[0]["content"])

    def embed(self, texts: Sequence[str]) -> np.ndarray:
        if "die" in texts:
            os._exit(1)
        return np.array([[len(text), os.getpid()] for text in texts], np.float32)

    def log_likelihoods(self, pairs: Sequence[tuple[str, str]]) -> list[np.ndarray]:
        return [np.full(len(continuation), -len(context), np.float32) for context, continuation in pairs]

    def divergences(self, triples: Sequence[tuple[str, str, str]]) -> np.ndarray:
        if self.spec.engine == "vllm":
            raise EngineError("no divergences here")
        return np.array([len(other) - len(context) for context, other, _ in triples], np.float32)

    def next_token(self, prompts: Sequence[str], options: Sequence[str]) -> np.ndarray:
        return np.array([[-len(prompt + option) for option in options] for prompt in prompts], np.float32)

    def cuts(self, pairs: Sequence[tuple[str, str]]) -> list[int]:
        return [max(0, len(context) - 3) for context, _ in pairs]

    def read(self, requests: Sequence[ReadRequest]) -> list[Reading]:
        return [Reading(" ".join(request.inputs), "stop", 1, request.max_tokens) for request in requests]

    def encode_queries(self, texts: Sequence[str]) -> list[np.ndarray]:
        return [np.full((2, 3), len(text), np.float32) for text in texts]


class StubShards:
    """`pipeline.plaid.index.IndexShards` over SCORES; a query's vectors shift all scores by their first value."""

    def __init__(self, manifest: "StubManifest", names: Sequence[str], methods: Sequence[str]) -> None:
        self.pids = [pid for name in names for pid in SHARDS[name]]
        self.methods = methods

    def bm25(self, queries: Sequence[np.ndarray], k: int) -> list[Any]:
        """A passage a term, if its pid is that of a shard opened for bm25."""
        assert "bm25" in self.methods
        found = [np.array([pid for pid in self.pids if pid < len(query)], np.int64) for query in queries]
        return [(pids, np.full(len(pids), 2.0, np.float32)) for pids in found]

    def search(self, vectors: Sequence[np.ndarray], k: int, settings: dict[str, Any]) -> list[Any]:
        ranked = sorted(self.pids, key=lambda pid: (-SCORES[pid], pid))[:k]
        scores = np.array([SCORES[pid] * settings.get("times", 1) for pid in ranked], np.float32)
        return [(np.array(ranked, np.int64), scores + vector[0, 0]) for vector in vectors]

    def passages(self, pids: Sequence[int]) -> dict[int, dict[str, Any]]:
        held = {
            pid: {"pid": pid, "doc_id": f"d{pid}", "url": None, "text": f"text {pid}", "start": 0} for pid in self.pids
        }
        return {pid: {**held[pid], "url": str(os.getpid())} for pid in pids if pid in held}


class StubManifest:
    home = "stub"

    def shard_names(self) -> list[str]:
        return list(SHARDS)


MANIFEST: Any = StubManifest()
MAKERS = Makers(
    model="tests.ray_cluster.stubs:StubEngine",
    shards="tests.ray_cluster.stubs:StubShards",
)


class LocalStubEnv:
    """Deterministic answers in whatever process it is in: text depends on the request alone."""

    def llm(self, role: str) -> "LocalStubEnv":
        if role == "missing":
            raise InputError("role 'missing' is not in the profile")
        return self

    max_model_len = 64

    def chat(self, requests: Sequence[ChatRequest]) -> list[Completion]:
        if any(request.messages[0]["content"] == "engine down" for request in requests):
            raise ReplicaLost("model 'm' is gone: out of memory")  # an EngineError, as pools raise it
        return [Completion(request.messages[0]["content"][::-1], "", "stop", 3, 2) for request in requests]

    def searcher(self, index: str) -> "LocalStubEnv":
        return self

    def search(self, request: SearchRequest) -> list[list[dict[str, Any]]]:
        row = {"doc_id": "d", "url": None, "text": "t", "start": 0}
        return [
            [{**row, "pid": n, "score": 1 / (n + 1), "rank": n, "query": query} for n in range(len(query) % 3)]
            for query in request.queries
        ]


class Find(Stage):
    """passages: none, one or two for a question."""

    name: ClassVar[str] = "find"
    _searcher: Searcher = PrivateAttr()

    def reads(self) -> dict[str, pa.DataType]:
        return {"question": pa.string()}

    def writes(self) -> dict[str, pa.DataType]:
        return {"passages": pa.list_(PASSAGE), "nothing": STRINGS}

    def setup(self, env: Env) -> None:
        self._searcher = env.searcher("plaid")

    def process(self, batch: pa.Table) -> dict[str, list]:
        assert not [name for name in batch.column_names if name.startswith("__")], "a stage sees hidden columns"
        found = self._searcher.search(SearchRequest(batch["question"].to_pylist(), 3))
        return {"passages": found, "nothing": [None] * batch.num_rows, "trace": [{"kept": len(hits)} for hits in found]}


class Say(Stage):
    """answer: the question backwards; a question "bad" fails its row."""

    name: ClassVar[str] = "say"
    role: str = "answerer"
    _llm: LLM = PrivateAttr()

    def reads(self) -> dict[str, pa.DataType]:
        return {"question": pa.string()}

    def writes(self) -> dict[str, pa.DataType]:
        return {"answer": pa.string(), "batch": pa.int32()}

    def setup(self, env: Env) -> None:
        self._llm = env.llm(self.role)

    def process(self, batch: pa.Table) -> dict[str, list]:
        texts = batch["question"].to_pylist()
        if "bad" in texts:
            raise ValueError("bad question")
        said = self._llm.chat([ChatRequest(({"role": "user", "content": text},), 8) for text in texts])
        return {"answer": [completion.text for completion in said], "batch": [len(texts)] * len(texts)}


def questions(*texts: str) -> pa.Table:
    rows = len(texts)
    columns = {
        "id": pa.array([f"q{n:03}" for n in range(rows)]),
        "question": pa.array(texts, pa.string()),
        "answers": pa.array([None] * rows, STRINGS),
        "doc_ids": pa.array([["d1"]] * rows, STRINGS),
    }
    return question_table(pa.table(columns))


class Recorder:
    """`ray_cluster.progress.Watch` that remembers."""

    def __init__(self) -> None:
        self.began: list[tuple[str, int, int]] = []
        self.passages: dict[str, int] = {}
        self.failed: dict[str, int] = {}

    def begin(self, step: str, done: int, total: int) -> None:
        self.began.append((step, done, total))

    def update(self, step: str, counts: Counts, failed: int) -> None:
        self.passages[step] = max(self.passages.get(step, 0), counts.passages)
        self.failed[step] = failed
