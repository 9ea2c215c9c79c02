"""rerank: passages ordered by how surely a language model calls them useful for the question."""

from typing import Annotated, Any, ClassVar

import numpy as np
import pyarrow as pa
from pydantic import Field, PrivateAttr, model_validator

from pipeline.env import Env, Scorer
from pipeline.prompts import PromptField, PromptUse
from pipeline.schema import PASSAGE
from pipeline.stage import Stage

Passage = dict[str, Any]


class Rerank(Stage):
    """Passages by score = p(first option) / (p(first) + p(second)), each asked about alone; ties in old order.

    p is the model's for the next token after the prompt, so the score is in [0, 1] and .5 is undecided. Those at
    `floor` or above stay. Where fewer than `at_least` do, the best `at_least` stay: a weak judge that says no to
    everything then costs order, not the evidence. At most k stay.
    """

    name: ClassVar[str] = "rerank"
    scorer: str = Field(description="role of the model")
    prompt: PromptField
    passages: str = "passages"
    into: str = "passages"
    options: Annotated[list[str], Field(min_length=2, max_length=2)] = Field(
        ["Yes", "No"], description="what the prompt lets the model say: useful, not useful"
    )
    floor: float | None = Field(0.5, ge=0, le=1, description="the least score that stays; null: no floor")
    at_least: int = Field(0, ge=0, description="passages that stay even below the floor")
    k: int | None = Field(None, gt=0, description="passages that stay at most")
    _scorer: Scorer = PrivateAttr()

    @model_validator(mode="after")
    def _limits_agree(self) -> "Rerank":
        if self.k is not None and self.at_least > self.k:
            raise ValueError(f"at_least {self.at_least} must not exceed k {self.k}")
        return self

    def reads(self) -> dict[str, pa.DataType]:
        return {"question": pa.string(), self.passages: pa.list_(PASSAGE)}

    def writes(self) -> dict[str, pa.DataType]:
        return {self.into: pa.list_(PASSAGE)}

    def models(self) -> dict[str, str]:
        return {self.scorer: "scorer"}

    def prompts(self) -> list[PromptUse]:
        slots = {"question", "passage"}
        return [PromptUse(self.prompt, slots, slots)]

    def setup(self, env: Env) -> None:
        self._scorer = env.scorer(self.scorer)

    def process(self, batch: pa.Table) -> dict[str, list]:
        rows = batch.select(list(self.reads())).to_pylist()
        lists = [row[self.passages] or [] for row in rows]
        prompts = [
            self.prompt.render(question=row["question"], passage=passage["text"])
            for row, found in zip(rows, lists, strict=True)
            for passage in found
        ]
        scores = iter(_share(self._scorer.next_token(prompts, self.options)) if prompts else [])
        ranked = [self._ranked([{**passage, "score": float(next(scores))} for passage in found]) for found in lists]
        trace = []
        for found, (passages, below) in zip(lists, ranked, strict=True):
            notes = [f"passages: {below} of {len(found)} below the floor"] if below else []
            saved = len(found) - below < len(passages)
            notes += ["passages: the floor gave way to at_least"] if saved else []
            trace.append({"kept": len(passages), "calls": len(found), "notes": notes})
        return {self.into: [passages for passages, _ in ranked], "trace": trace}

    def _ranked(self, scored: list[Passage]) -> tuple[list[Passage], int]:
        """The passages that stay, best first, and how many of all are below the floor."""
        scored = sorted(scored, key=lambda passage: -passage["score"])
        above = len(scored) if self.floor is None else sum(passage["score"] >= self.floor for passage in scored)
        best = scored[: max(above, self.at_least)][: self.k]
        return [{**passage, "rank": rank} for rank, passage in enumerate(best)], len(scored) - above


def _share(logs: np.ndarray) -> np.ndarray:
    """float64 [n] from natural log p [n, 2]: the first's share of the two."""
    with np.errstate(over="ignore"):
        return 1 / (1 + np.exp(logs[:, 1].astype(np.float64) - logs[:, 0]))
