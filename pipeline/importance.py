"""How much a model's answer depends on a passage: a heuristic, from what character noise in the passage changes.

ELITE (arXiv 2505.11908) calls a passage important where noise in it moves the model's output distribution:
    Imp = E_{lambda ~ U(0,1]} KL( p(. | question, passage) || p(. | question, noised(passage, lambda)) )
Two estimates over `samples` draws of lambda:
    embedding    the paper's: 1 - mean cosine of the embeddings of the output texts, with and without noise
    divergence   the KL itself, exact from local logits: mean over the tokens of the output without noise, nats a token
Neither proves that a passage holds the answer: one that misleads is important too, and one that only repeats what the
model knows is not.
"""

import hashlib
import random
import string
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, model_validator

from pipeline.completions import seed
from pipeline.env import LLM, ChatRequest, Completion, Embedder, Env, Scorer
from pipeline.evidence import Item
from pipeline.prompts import PromptField, PromptUse


class Chunk(NamedTuple):
    """A passage to weigh for a question."""

    id: str
    question: str
    text: str


class Importance(BaseModel):
    """Settings, and which models they need."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)
    form: Literal["embedding", "divergence"]
    prompt: PromptField
    embedder: str | None = Field(None, description="role that embeds the output texts; form embedding")
    scorer: str | None = Field(None, description="role that gives the exact KL; form divergence")
    samples: int = Field(gt=0, description="draws of lambda a passage")
    max_tokens: int = Field(gt=0, description="of an output text")
    minimum: float | None = Field(None, description="passages below are left out; null: none is")

    @model_validator(mode="after")
    def _has_its_model(self) -> "Importance":
        role = "embedder" if self.form == "embedding" else "scorer"
        if getattr(self, role) is None:
            raise ValueError(f"importance of form {self.form} needs {role}, the role of a model")
        return self

    def models(self) -> dict[str, str]:
        if self.form == "embedding":
            return {self.embedder: "embedder"} if self.embedder else {}
        return {self.scorer: "divergence"} if self.scorer else {}

    def above(self, passages: list[Item]) -> list[Item]:
        """Those that are important enough; one that was not measured stays."""
        if self.minimum is None:
            return passages
        return [item for item in passages if item["importance"] is None or item["importance"] >= self.minimum]

    def use(self) -> PromptUse:
        return PromptUse(self.prompt, {"question", "context"}, {"question", "context"})


class Weigher:
    """Weighs passages of many questions together: one chat call, then one call of the embedder or scorer."""

    def __init__(self, settings: Importance, llm: LLM, env: Env) -> None:
        self._settings, self._llm = settings, llm
        self._embedder: Embedder | None = None
        self._scorer: Scorer | None = None
        if settings.form == "embedding" and settings.embedder:
            self._embedder = env.embedder(settings.embedder)
        elif settings.scorer:
            self._scorer = env.scorer(settings.scorer)

    def weigh(self, chunks: Sequence[Chunk]) -> list[tuple[float | None, list[Completion]]]:
        """Per chunk its importance, null where an output failed, and the completions it took."""
        asked = [self._prompts(chunk) for chunk in chunks]
        if self._scorer is not None:
            outputs = self._outputs(chunks, [prompts[:1] for prompts in asked])
            weights = _divergences(self._scorer, asked, outputs)
        else:
            outputs = self._outputs(chunks, asked)
            assert self._embedder is not None  # Importance._has_its_model
            weights = _dissimilarities(self._embedder, outputs)
        return list(zip(weights, outputs, strict=True))

    def _prompts(self, chunk: Chunk) -> list[str]:
        """The prompt with the passage as it is, then with each noise. Noise depends on the question and the text."""
        key = f"{chunk.id}\0{hashlib.sha256(chunk.text.encode('utf-8', 'surrogatepass')).hexdigest()}"
        texts = [chunk.text, *noises(chunk.text, key, self._settings.samples)]
        return [self._settings.prompt.render(question=chunk.question, context=text) for text in texts]

    def _outputs(self, chunks: Sequence[Chunk], asked: list[list[str]]) -> list[list[Completion]]:
        """Greedy, so that what differs is the passage's doing."""
        requests = [
            ChatRequest(({"role": "user", "content": prompt},), self._settings.max_tokens, seed=seed("weigh", chunk.id))
            for chunk, prompts in zip(chunks, asked, strict=True)
            for prompt in prompts
        ]
        completions = iter(self._llm.chat(requests) if requests else [])
        return [[next(completions) for _ in prompts] for prompts in asked]


def noised(text: str, strength: float, rng: random.Random) -> str:
    """The text with each visible character altered with probability `strength`: replaced by a letter or digit other
    than itself, left out, or followed by another one. White space stays, so that words keep their places."""
    written = string.ascii_lowercase + string.digits
    out = []
    for character in text:
        if character.isspace() or rng.random() >= strength:
            out.append(character)
            continue
        kind = rng.randrange(3)
        if kind == 0:
            out.append(rng.choice(written.replace(character.lower(), "")))
        elif kind == 1:
            out.append(character + rng.choice(written))
    return "".join(out)


def noises(text: str, key: str, samples: int) -> list[str]:
    """The text under `samples` noises of strength U(0, 1], drawn from the key alone."""
    rng = random.Random(seed("noise", key))
    return [noised(text, 1 - rng.random(), rng) for _ in range(samples)]


def one_minus_similarity(output: np.ndarray, noised_outputs: np.ndarray) -> float:
    """1 - mean cosine of unit vectors: output [dim], noised_outputs [samples, dim]. Equal vectors are at cosine 1."""
    cosines = [
        1.0 if np.array_equal(output, other) else float(np.dot(output.astype(np.float64), other))
        for other in noised_outputs
    ]
    return 1.0 - sum(cosines) / len(cosines)


def _dissimilarities(embedder: Embedder, outputs: list[list[Completion]]) -> list[float | None]:
    usable = [all(completion.error is None for completion in row) for row in outputs]
    texts = list(dict.fromkeys(c.text for row, fine in zip(outputs, usable, strict=True) if fine for c in row))
    vector: dict[str, Any] = dict(zip(texts, embedder.embed(texts), strict=True)) if texts else {}
    return [
        one_minus_similarity(vector[row[0].text], np.stack([vector[c.text] for c in row[1:]])) if fine else None
        for row, fine in zip(outputs, usable, strict=True)
    ]


def _divergences(scorer: Scorer, asked: list[list[str]], outputs: list[list[Completion]]) -> list[float | None]:
    """Mean over the noises of the KL at the tokens that the model wrote without noise; 0 where it wrote nothing."""
    written = [row[0].text if row[0].error is None else None for row in outputs]
    triples = [(p[0], other, text) for p, text in zip(asked, written, strict=True) if text for other in p[1:]]
    found = iter(scorer.divergences(triples) if triples else [])
    weights: list[float | None] = []
    for prompts, text in zip(asked, written, strict=True):
        nats = [float(next(found)) for _ in prompts[1:]] if text else [0.0]
        weights.append(None if text is None else sum(nats) / len(nats))
    return weights
