"""An environment small enough to follow by hand: what a stage asks for, what it gets, and a record of every call."""

import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from pipeline.env import ChatRequest, Completion, EngineError, Reading, ReadRequest, SearchRequest
from pipeline.schema import question_table
from pipeline.stage import Stage

POISON = "poison"  # a batch with this word in a query, text or prompt makes the stub raise ValueError


def hit(pid: int, text: str = "", score: float = 1.0, **fields: Any) -> dict[str, Any]:
    """A passage as a searcher returns it; `rank` and `query` are the stage's to fill."""
    base = {"pid": pid, "doc_id": f"d{pid}", "url": f"http://x/{pid}", "text": text or f"passage {pid}", "start": 0}
    return {**base, "score": score, "rank": 0, "query": "?", **fields}


def draft(n: int, text: str = "", score: float | None = None, **fields: Any) -> dict[str, Any]:
    """The n-th passage that a model wrote."""
    base = {"pid": -1 - n, "doc_id": None, "url": None, "text": text or f"draft {n}", "start": None}
    return {**base, "score": score, "rank": n, "query": "?", **fields}


def snippet(text: str, kept: bool = True, **fields: Any) -> dict[str, Any]:
    base = {"pid": 1, "doc_id": "d1", "url": None, "start": 0, "score": 0.5}
    return {**base, "text": text, "kept": kept, "reason": None if kept else "cosine 0.1 < 0.35", **fields}


TIMES = ("seconds", "queue_seconds", "device_seconds")


def timeless(row: dict[str, Any]) -> dict[str, Any]:
    """The row without what its trace says of time, which alone may differ between equal runs."""
    return {**row, "trace": [{name: step[name] for name in step if name not in TIMES} for step in row["trace"]]}


def questions(*texts: str, **columns: tuple[list, pa.DataType]) -> pa.Table:
    """A question table with ids q0, q1, ... and the columns given, each as (values, type)."""
    rows = len(texts)
    table = pa.table(
        {
            "id": pa.array([f"q{n}" for n in range(rows)], pa.string()),
            "question": pa.array(texts, pa.string()),
            "answers": pa.nulls(rows, pa.list_(pa.string())),
            "doc_ids": pa.nulls(rows, pa.list_(pa.string())),
        }
    )
    table = question_table(table)
    for name, (values, kind) in columns.items():
        table = table.append_column(name, pa.array(values, kind))
    return table


class StubSearcher:
    """`hits[query]`, or two passages whose pids come from the query's length."""

    def __init__(self, hits: dict[str, list[dict[str, Any]]] | None = None) -> None:
        self.hits, self.requests = hits, list[SearchRequest]()

    def search(self, request: SearchRequest) -> list[list[dict[str, Any]]]:
        self.requests.append(request)
        _refuse(request.queries)
        if self.hits is not None:
            return [self.hits.get(query, [])[: request.k] for query in request.queries]
        return [[hit(len(query)), hit(len(query) + 1)][: request.k] for query in request.queries]


class StubLLM:
    """`reply(request)` is the text, a Completion, or an exception to raise. A token is a word; a template adds none."""

    def __init__(self, reply: Callable[[ChatRequest], Any] = lambda request: "fine", max_model_len: int = 4096) -> None:
        self.reply, self.max_model_len = reply, max_model_len
        self.batches: list[list[ChatRequest]] = []
        self.counted = 0

    def chat(self, requests: Sequence[ChatRequest]) -> list[Completion]:
        self.batches.append(list(requests))
        _refuse([said(request) for request in requests])
        return [self._completion(request) for request in requests]

    def count_tokens(self, messages: Sequence[dict[str, str]]) -> int:
        self.counted += 1
        return sum(len(message["content"].split()) for message in messages)

    def _completion(self, request: ChatRequest) -> Completion:
        text = self.reply(request)
        if isinstance(text, Exception):
            raise text
        if isinstance(text, Completion):
            return text
        tokens = self.count_tokens(request.messages)
        return Completion(text, f"<user>{said(request)}<assistant>", "stop", tokens, len(text.split()))


class StubEmbedder:
    """Unit vectors in the plane, each at its cosine with the first axis; a text without one is the axis."""

    def __init__(self, cosines: dict[str, float] | None = None) -> None:
        self.cosines, self.batches = cosines or {}, list[list[str]]()

    def embed(self, texts: Sequence[str]) -> np.ndarray:
        self.batches.append(list(texts))
        _refuse(texts)
        first = np.array([self.cosines.get(text, 1.0) for text in texts], np.float32)
        return np.stack([first, np.sqrt(1 - first**2)], axis=1).astype(np.float32)


class StubScorer:
    """`log_p(context, continuation)`: of each word of the continuation. `yes(prompt)`: the first option's odds."""

    def __init__(
        self,
        log_p: Callable[[str, str], float] = lambda context, continuation: -1.0,
        yes: Callable[[str], float] = lambda prompt: 1.0,
        limit: int = 10**6,
    ) -> None:
        self.log_p, self.yes, self.limit = log_p, yes, limit
        self.batches: list[list[Any]] = []

    def log_likelihoods(self, pairs: Sequence[tuple[str, str]]) -> list[np.ndarray]:
        self.batches.append(list(pairs))
        _refuse([text for pair in pairs for text in pair])
        return [np.full(len(b.split()), self.log_p(a, b) if b.split() else 0.0, np.float32) for a, b in pairs]

    def divergences(self, triples: Sequence[tuple[str, str, str]]) -> np.ndarray:
        return np.array([abs(self.log_p(a, q) - self.log_p(b, q)) for a, b, q in triples], np.float32)

    def next_token(self, prompts: Sequence[str], options: Sequence[str]) -> np.ndarray:
        self.batches.append(list(prompts))
        _refuse(prompts)
        odds = np.array([self.yes(prompt) for prompt in prompts], np.float64)
        with np.errstate(divide="ignore"):
            return np.log(np.stack([odds, np.ones_like(odds)], axis=1) / 100).astype(np.float32)

    def cuts(self, pairs: Sequence[tuple[str, str]]) -> list[int]:
        return [max(0, len(a.split()) + len(b.split()) - self.limit) for a, b in pairs]


class StubReader:
    """Answers with the first word of each input; an input of more than `limit` words is cut."""

    def __init__(self, limit: int = 10**6) -> None:
        self.limit = limit
        self.batches: list[list[ReadRequest]] = []

    def read(self, requests: Sequence[ReadRequest]) -> list[Reading]:
        self.batches.append(list(requests))
        _refuse([text for request in requests for text in request.inputs])
        return [self._reading(request) for request in requests]

    def _reading(self, request: ReadRequest) -> Reading:
        words = [text.split() for text in request.inputs]
        answer = [each[0] for each in words][: request.max_tokens]
        cut = sum(len(each) > self.limit for each in words)
        return Reading(" ".join(answer), "stop", sum(map(len, words)), len(answer), cut)


class StubEnv:
    """Hands out its parts for any index or role, and records which were asked for."""

    def __init__(
        self,
        searcher: StubSearcher | None = None,
        llm: StubLLM | None = None,
        embedder: StubEmbedder | None = None,
        scorer: StubScorer | None = None,
        reader: StubReader | None = None,
    ) -> None:
        self.parts = {
            "searcher": searcher or StubSearcher(),
            "llm": llm or StubLLM(),
            "embedder": embedder or StubEmbedder(),
            "scorer": scorer or StubScorer(),
            "reader": reader or StubReader(),
        }
        self.asked: list[tuple[str, str]] = []

    def searcher(self, index: str) -> Any:
        return self._part("searcher", index)

    def llm(self, role: str) -> Any:
        return self._part("llm", role)

    def embedder(self, role: str) -> Any:
        return self._part("embedder", role)

    def scorer(self, role: str) -> Any:
        return self._part("scorer", role)

    def reader(self, role: str) -> Any:
        return self._part("reader", role)

    def _part(self, kind: str, name: str) -> Any:
        self.asked.append((kind, name))
        return self.parts[kind]


class Dead:
    """A model that is gone."""

    max_model_len = 4096

    def chat(self, requests: Sequence[ChatRequest]) -> list[Completion]:
        raise EngineError("the engine died")

    def count_tokens(self, messages: Sequence[dict[str, str]]) -> int:
        return 1


def said(request: ChatRequest) -> str:
    """What a request says to the model."""
    return request.messages[-1]["content"]


def ready(stage: Stage, env: Any) -> Stage:
    stage.setup(env)
    return stage


def notes(table: pa.Table) -> list[list[str]]:
    """Per row the notes of the last stage."""
    return [trace[-1]["notes"] or [] for trace in table["trace"].to_pylist()]


def says(message: str, expected: str) -> bool:
    """Whether the message starts as expected, `…` standing for any text."""
    return re.match(".*".join(map(re.escape, expected.split("…"))), message) is not None


def _refuse(texts: Sequence[str]) -> None:
    if any(POISON in text for text in texts):
        raise ValueError("the stub was poisoned")
