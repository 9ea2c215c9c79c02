"""What a stage may ask for: searchers by index name, models by role. `LocalEnv` answers in this process; the Ray
environment (ray_cluster/pools.py) answers with clients of actor pools. A stage cannot tell which it has.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

import numpy as np

Method = Literal["plaid", "bm25", "dense"]  # how an index is searched
BY_PLAID: tuple[Method, ...] = ("plaid",)


@dataclass(frozen=True)
class ChatRequest:
    """One generation: what to say and how to sample. `seed` derives from the question id, never from the batch."""

    messages: tuple[dict[str, str], ...]  # [{"role": "user", "content": ...}, ...]
    max_tokens: int
    temperature: float = 0.0
    top_p: float = 1.0
    seed: int | None = None


@dataclass(frozen=True)
class Completion:
    """One generation's outcome. `prompt` is the text that reached the model, template and all."""

    text: str
    prompt: str
    finish_reason: str  # "stop" | "length" | "error"
    prompt_tokens: int = 0
    generated_tokens: int = 0
    error: str | None = None  # set where this request alone failed (over-long prompt, ...)


@dataclass(frozen=True)
class SearchRequest:
    """A batch of queries against one index. `settings` override the method's presets, for this call only."""

    queries: Sequence[str]
    k: int
    settings: dict[str, Any] = field(default_factory=dict)
    method: Method = "plaid"


class Searcher(Protocol):
    def search(self, request: SearchRequest) -> list[list[dict[str, Any]]]:
        """Per query at most k passages (schema.PASSAGE as dicts), by (score descending, pid ascending).

        By "bm25" only passages that hold a term of the query: perhaps none.
        """
        ...


class LLM(Protocol):
    max_model_len: int  # tokens of prompt and answer together

    def chat(self, requests: Sequence[ChatRequest]) -> list[Completion]:
        """One completion per request, in order. One that cannot be served has `error` set; the rest are served."""
        ...

    def count_tokens(self, messages: Sequence[dict[str, str]]) -> int:
        """Tokens of the prompt that `chat` would send, template included."""
        ...


class Embedder(Protocol):
    def embed(self, texts: Sequence[str]) -> np.ndarray:
        """float32 [len(texts), dim], rows of unit length."""
        ...


class Scorer(Protocol):
    def log_likelihoods(self, pairs: Sequence[tuple[str, str]]) -> list[np.ndarray]:
        """Per (context, continuation): float32 [tokens of the continuation], natural log p of each token given the
        context and those before it."""
        ...

    def divergences(self, triples: Sequence[tuple[str, str, str]]) -> np.ndarray:
        """float32 [n]: per (context, other, continuation) the mean over the continuation's tokens of
        KL(p(. | context, before) || p(. | other, before)) over the whole vocabulary, nats. Models of kind "divergence"
        have it; vLLM, which keeps the likeliest tokens only, does not."""
        ...

    def next_token(self, prompts: Sequence[str], options: Sequence[str]) -> np.ndarray:
        """float32 [n, options]: natural log p of each option's first token as the next one. The prompts are a user's
        turn: an instruction-tuned model reads them in its chat template."""
        ...

    def cuts(self, pairs: Sequence[tuple[str, str]]) -> list[int]:
        """Tokens that `log_likelihoods` leaves out at the left of each context, because the model reads no more."""
        ...


@dataclass(frozen=True)
class ReadRequest:
    """What a fusion-in-decoder model reads for one question: its encoder inputs, best first; how it then decodes."""

    inputs: tuple[str, ...]
    max_tokens: int
    beams: int = 1  # 1 is greedy


@dataclass(frozen=True)
class Reading:
    """What it wrote. `cut`: inputs whose end the encoder did not read."""

    text: str
    finish_reason: str  # "stop" | "length"
    prompt_tokens: int
    generated_tokens: int
    cut: int = 0


class Reader(Protocol):
    def read(self, requests: Sequence[ReadRequest]) -> list[Reading]:
        """One reading per request, in order. Raises ValueError where a request has no input."""
        ...


class Env(Protocol):
    def searcher(self, index: str) -> Searcher: ...

    def llm(self, role: str) -> LLM: ...

    def embedder(self, role: str) -> Embedder: ...

    def scorer(self, role: str) -> Scorer: ...

    def reader(self, role: str) -> Reader: ...


class EngineError(Exception):
    """A model or searcher is gone: nobody's question is at fault, so no row is blamed and the job ends."""
