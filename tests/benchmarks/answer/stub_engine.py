"""An engine that takes as long for 32 requests as for one, as a GPU does: time, and nothing else, is made up."""

import time
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

from pipeline.env import ChatRequest, Completion
from pipeline.local import LocalEnv
from pipeline.models.batching import EngineThread
from pipeline.profile import ModelSpec
from ray_cluster.pools import Makers

STEP_S, TOGETHER, TOKENS = 0.01, 32, 64  # a step gives a token to each of the first TOGETHER requests


class Steps:
    """`pipeline.models.batching.Engine`; a request is the number of its tokens."""

    def __init__(self) -> None:
        self._left: dict[str, int] = {}

    def add_request(self, request_id: str, prompt: None, params: int) -> None:
        self._left[request_id] = 1 + params  # a step to read the prompt

    def has_unfinished_requests(self) -> bool:
        return bool(self._left)

    def step(self) -> list[Any]:
        time.sleep(STEP_S)
        for request_id in list(self._left)[:TOGETHER]:
            self._left[request_id] -= 1
        ended = [request_id for request_id, left in self._left.items() if left == 0]
        for request_id in ended:
            del self._left[request_id]
        return [SimpleNamespace(request_id=request_id, finished=True) for request_id in ended]


class StubEngine:
    """`env.LLM` on Steps, through the thread that drives vLLM; four characters are a token."""

    max_model_len = 8192

    def __init__(self) -> None:
        self._engine = EngineThread(Steps, lambda steps: None)

    def chat(self, requests: Sequence[ChatRequest]) -> list[Completion]:
        running = [self._engine.submit(None, min(TOKENS, request.max_tokens)) for request in requests]
        return [self._completion(request, sent) for request, sent in zip(requests, running, strict=True)]

    def count_tokens(self, messages: Sequence[dict[str, str]]) -> int:
        return sum(len(message["content"]) for message in messages) // 4

    def shutdown(self) -> None:
        self._engine.stop()

    def _completion(self, request: ChatRequest, running: Any) -> Completion:
        running.result()
        tokens = min(TOKENS, request.max_tokens)
        said = request.messages[-1]["content"]
        return Completion("word " * tokens, said, "stop", self.count_tokens(request.messages), tokens)


def make(spec: ModelSpec) -> StubEngine:
    return StubEngine()


BY_WORDS = ["search.method=bm25"]  # for a system whose only model is then the stub
MAKERS = Makers(model="tests.benchmarks.answer.stub_engine:make")


class StubbedEnv(LocalEnv):
    """LocalEnv whose one language model is the stub."""

    def llm(self, role: str) -> StubEngine:
        if "stub" not in self._models:
            self._models["stub"] = StubEngine()
        return self._models["stub"]
