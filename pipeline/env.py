"""What a stage may ask for: searchers by index name, models by role. `LocalEnv` answers in this process; the Ray
environment (ray_cluster/pools.py) answers with clients of actor pools. A stage cannot tell which it has.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, Protocol

import numpy as np

Method = Literal["plaid", "bm25", "dense"]  # how an index is searched
BY_PLAID: tuple[Method, ...] = ("plaid",)


@dataclass(frozen=True)
class ChatRequest:
    """What to say and how to sample. `seed` derives from the question id, never from the batch.

    Log-probabilities of a prompt are not asked for here: `Scorer.log_likelihoods` has them.
    """

    messages: tuple[dict[str, str], ...]  # [{"role": "user", "content": ...}, ...]
    max_tokens: int
    temperature: float = 0.0
    top_p: float = 1.0
    seed: int | None = None
    n: int = 1  # samples, where temperature is above 0; number i (from 0) is drawn with seed + i
    logprobs: bool = False  # of the generated tokens
    json_schema: dict[str, Any] | None = None  # the text is to be JSON of this schema


@dataclass(frozen=True)
class Completion:
    """A request's outcome. `prompt` is the text that reached the model, template and all; from an endpoint, which keeps
    its template to itself, it is the messages' contents.

    Tokens are counted once: the prompt's in the first sample, and where an endpoint gives one number for all samples,
    the generated ones too. Times say nothing about the answer, so two completions are equal without them.
    """

    text: str
    prompt: str
    finish_reason: str  # "stop" | "length" | "error"
    prompt_tokens: int = 0
    generated_tokens: int = 0
    error: str | None = None  # set where this request alone failed (over-long prompt, ...)
    logprobs: tuple[float, ...] | None = None  # natural log p of each generated token, before temperature and top_p
    others: tuple["Completion", ...] = ()  # the samples after the first, where n > 1
    seconds: float = field(default=0.0, compare=False)  # from the call to the answer
    queue_s: float = field(default=0.0, compare=False)  # of those, before an engine took it up
    # The request's share of its engine's time, times the GPUs (without any, the CPUs) it has; None: not known.
    device_s: float | None = field(default=None, compare=False)

    @classmethod
    def failed(cls, error: str, prompt: str = "", prompt_tokens: int = 0) -> "Completion":
        return cls("", prompt, "error", prompt_tokens, error=error)


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


class Engines(NamedTuple):
    """An environment's models that are up now, of how many (each replica counts), and the generations and scorings that
    they have finished since they were started."""

    up: int
    models: int
    finished: int


class EngineError(Exception):
    """A model or searcher is gone: nobody's question is at fault, so no row is blamed and the job ends."""
