"""score_passages: passages ranked by a language model's likelihoods, of the question or of the passage."""

from typing import Any, ClassVar, Literal

import numpy as np
import pyarrow as pa
from pydantic import Field, PrivateAttr

from pipeline.env import Env, Scorer
from pipeline.prompts import PromptField, PromptUse
from pipeline.schema import PASSAGE
from pipeline.stage import Stage

Passage = dict[str, Any]


class ScorePassages(Stage):
    """Every passage stays; its score becomes log p (natural), the list is sorted by it, ties and nulls in old order.

    UPR (arXiv 2204.07496) scores a retrieved passage by log p(question | passage); BRMGR (arXiv 2412.18800) also a
    generated one by log p(passage | question). `mean` divides by the tokens: (1/|x|) sum_t log p(x_t | x_<t, y).
    By Bayes' rule p(passage | question) is proportional to p(question | passage) * prior(passage). The condition is the
    prompt and a line end; where it is longer than the model reads it loses its beginning, which is noted. A passage
    without text has no log p given the question: its score is null, and it is last.
    """

    name: ClassVar[str] = "score_passages"
    scorer: str = Field(description="role of the model")
    direction: Literal["question_given_passage", "passage_given_question"]
    prompt: PromptField
    passages: str = "passages"
    into: str = "passages"
    normalise: Literal["mean", "sum"] = "mean"
    prior: Literal["uniform", "score", "length"] = Field(
        "uniform",
        description="its log is added. score: softmax of the list's scores so far; length: share of the list's words",
    )
    _scorer: Scorer = PrivateAttr()

    def reads(self) -> dict[str, pa.DataType]:
        return {"question": pa.string(), self.passages: pa.list_(PASSAGE)}

    def writes(self) -> dict[str, pa.DataType]:
        return {self.into: pa.list_(PASSAGE)}

    def models(self) -> dict[str, str]:
        return {self.scorer: "scorer"}

    def prompts(self) -> list[PromptUse]:
        slot = {"passage"} if self.direction == "question_given_passage" else {"question"}
        return [PromptUse(self.prompt, slot, slot)]

    def setup(self, env: Env) -> None:
        self._scorer = env.scorer(self.scorer)

    def process(self, batch: pa.Table) -> dict[str, list]:
        rows = batch.select(list(self.reads())).to_pylist()
        lists = [row[self.passages] or [] for row in rows]
        pairs = [[self._pair(row["question"], p) for p in found] for row, found in zip(rows, lists, strict=True)]
        flat = [pair for row in pairs for pair in row]
        logs, cuts = iter(self._scorer.log_likelihoods(flat)), iter(self._scorer.cuts(flat))
        ranked, trace = [], []
        for found in lists:
            values = [self._likelihood(next(logs)) for _ in found]
            shortened = sum(next(cuts) > 0 for _ in found)
            ranked.append(_ranked(found, values, self._priors(found)))
            notes = [f"passages: {shortened} of {len(found)} lost their beginning to the model's length"]
            notes += [f"passages: {values.count(None)} without text"] if None in values else []
            trace.append({"kept": len(found), "calls": len(found), "notes": notes if shortened else notes[1:]})
        return {self.into: ranked, "trace": trace}

    def _pair(self, question: str, passage: Passage) -> tuple[str, str]:
        """(context, what is scored)."""
        if self.direction == "question_given_passage":
            return self.prompt.render(passage=passage["text"]) + "\n", question
        return self.prompt.render(question=question) + "\n", passage["text"]

    def _likelihood(self, logs: np.ndarray) -> float | None:
        if not len(logs):
            return None
        return float(logs.sum(dtype=np.float64)) / (len(logs) if self.normalise == "mean" else 1)

    def _priors(self, passages: list[Passage]) -> np.ndarray:
        """float64 [passages], natural log, each exp-sum 1 but for the uniform one, whose constant is left out."""
        if self.prior == "uniform" or not passages:
            return np.zeros(len(passages))
        if self.prior == "length":
            words = np.array([max(1, len(p["text"].split())) for p in passages], float)
            return np.log(words / words.sum())
        if any(p["score"] is None for p in passages):
            raise ValueError(f"prior: score wants a score of every passage in '{self.passages}', and one has none")
        scores = np.array([p["score"] for p in passages], float)
        return scores - scores.max() - np.log(np.exp(scores - scores.max()).sum())


def _ranked(passages: list[Passage], values: list[float | None], priors: np.ndarray) -> list[Passage]:
    """The passages with their new scores and ranks, best first."""
    scored = [
        {**passage, "score": None if value is None else value + float(prior)}
        for passage, value, prior in zip(passages, values, priors, strict=True)
    ]
    scored.sort(key=lambda p: (p["score"] is None, -(p["score"] or 0.0)))
    return [{**passage, "rank": rank} for rank, passage in enumerate(scored)]
