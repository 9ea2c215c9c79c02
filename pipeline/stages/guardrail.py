"""guardrail: an answer that resembles the system prompt is replaced by a null response."""

from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
from pydantic import Field, PrivateAttr

from pipeline.env import Embedder, Env
from pipeline.prompts import PromptField, PromptUse
from pipeline.stage import Stage


class Guardrail(Stage):
    """Blocks where cosine(answer, system prompt) >= max_cosine (arXiv 2412.03736): a model that is lured away from its
    documents tells its rules, or declines in their words. What it said stays in `unguarded_answer`.

    An absent or blank answer is not compared: its similarity is null, and it is not blocked.
    """

    name: ClassVar[str] = "guardrail"
    embedder: str = Field(description="role of the model")
    system_prompt: PromptField
    max_cosine: float = Field(ge=-1, le=1, description="from here on an answer is blocked")
    null_text: str = Field(min_length=1, description="the null response")
    _embedder: Embedder = PrivateAttr()
    _rules: np.ndarray = PrivateAttr()

    def reads(self) -> dict[str, pa.DataType]:
        return {"answer": pa.string()}

    def writes(self) -> dict[str, pa.DataType]:
        return {
            "answer": pa.string(),
            "unguarded_answer": pa.string(),
            "guardrail_similarity": pa.float32(),
            "guardrail_blocked": pa.bool_(),
        }

    def models(self) -> dict[str, str]:
        return {self.embedder: "embedder"}

    def prompts(self) -> list[PromptUse]:
        return [PromptUse(self.system_prompt, set(), set())]

    def setup(self, env: Env) -> None:
        self._embedder = env.embedder(self.embedder)
        (self._rules,) = self._embedder.embed([self.system_prompt.render()])

    def process(self, batch: pa.Table) -> dict[str, list]:
        answers = batch["answer"].to_pylist()
        texts = list(dict.fromkeys(answer for answer in answers if answer and answer.strip()))
        vectors = self._embedder.embed(texts) if texts else np.empty((0, 0), np.float32)
        cosines = {text: np.float32(vector @ self._rules) for text, vector in zip(texts, vectors, strict=True)}
        rows = [self._row(answer, cosines.get(answer)) for answer in answers]
        return {column: [row[column] for row in rows] for column in [*self.writes(), "trace"]}

    def _row(self, answer: str | None, cosine: np.float32 | None) -> dict[str, Any]:
        blocked = cosine is not None and bool(cosine >= np.float32(self.max_cosine))
        return {
            "answer": self.null_text if blocked else answer,
            "unguarded_answer": answer,
            "guardrail_similarity": None if cosine is None else float(cosine),
            "guardrail_blocked": blocked,
            "trace": {
                "kept": int(not blocked),
                "calls": int(cosine is not None),
                "notes": ["guardrail: blocked"] if blocked else [],
            },
        }
