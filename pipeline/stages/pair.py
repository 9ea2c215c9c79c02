"""pair: each retrieved passage joined with a generated one, as one piece of evidence."""

from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
import pyarrow as pa
from pydantic import Field, PrivateAttr, model_validator

from pipeline.completions import seed
from pipeline.env import Env, Scorer
from pipeline.pairing import Method, pairing
from pipeline.prompts import PromptField, PromptUse
from pipeline.schema import PAIR, PASSAGE
from pipeline.stage import Stage

Passage = dict[str, Any]


class _Joint(NamedTuple):
    scores: np.ndarray  # float64 [n, n], retrieved by generated: mean log p(question | pair)
    cut: int  # pairs longer than the model reads


class Pair(Stage):
    """As many pairs as the shorter list has passages, in the order of the retrieved ones; each passage in one pair.

    A list's order is its ranking (`score_passages` leaves it by score). Of lists of unequal length the best of each are
    paired, whatever the method, so that methods differ in nothing but the pairing; what is left over is dropped
    (`truncate`) or follows, each paired with nothing (`pad`). The joint score that `hungarian` maximises is the mean
    log p(question | pair), the pair's text standing as the passage in `joint_prompt`: n * n likelihoods a question.
    """

    name: ClassVar[str] = "pair"
    retrieved: str = "passages"
    generated: str = "drafts"
    into: str = "pairs"
    how: Method = Field("rank", description="rank, random, reversed, hungarian")
    unequal: Literal["truncate", "pad"] = "truncate"
    prompt: PromptField = Field(description="a pair's text")
    seed: int = Field(0, ge=0, description="random: another number is another pairing of every question")
    scorer: str | None = Field(None, description="hungarian: role of the model")
    joint_prompt: PromptField | None = Field(None, description="hungarian: what the question's likelihood is given")
    _scorer: Scorer = PrivateAttr()

    @model_validator(mode="after")
    def _hungarian_has_joint_scores(self) -> "Pair":
        if self.how == "hungarian" and (self.scorer is None or self.joint_prompt is None):
            raise ValueError("how: hungarian needs scorer and joint_prompt")
        return self

    def reads(self) -> dict[str, pa.DataType]:
        lists = {self.retrieved: pa.list_(PASSAGE), self.generated: pa.list_(PASSAGE)}
        return {"id": pa.string(), "question": pa.string(), **lists}

    def writes(self) -> dict[str, pa.DataType]:
        return {self.into: pa.list_(PAIR)}

    def models(self) -> dict[str, str]:
        return {self.scorer: "scorer"} if self.how == "hungarian" and self.scorer else {}

    def prompts(self) -> list[PromptUse]:
        slots = {"retrieved", "generated"}
        joint = [PromptUse(self.joint_prompt, {"passage"}, {"passage"})] if self.joint_prompt else []
        return [PromptUse(self.prompt, slots, slots), *(joint if self.how == "hungarian" else [])]

    def setup(self, env: Env) -> None:
        if self.how == "hungarian" and self.scorer:
            self._scorer = env.scorer(self.scorer)

    def process(self, batch: pa.Table) -> dict[str, list]:
        rows = batch.select(list(self.reads())).to_pylist()
        joints = self._joint(rows) if self.how == "hungarian" else [None] * len(rows)
        paired = [self._paired(row, joint) for row, joint in zip(rows, joints, strict=True)]
        return {self.into: [pairs for pairs, _ in paired], "trace": [trace for _, trace in paired]}

    def _lists(self, row: dict[str, Any]) -> tuple[list[Passage], list[Passage]]:
        return row[self.retrieved] or [], row[self.generated] or []

    def _paired(self, row: dict[str, Any], joint: _Joint | None) -> tuple[list[dict[str, Any]], dict[str, Any]]:
        found, drafts = self._lists(row)
        size = min(len(found), len(drafts))
        chosen = pairing(self.how, size, seed(f"{self.name} {self.seed}", row["id"]), joint and joint.scores)
        scores = [None if joint is None else float(joint.scores[n, partner]) for n, partner in enumerate(chosen)]
        pairs = [self._pair(found[n], drafts[chosen[n]], scores[n]) for n in range(size)]
        left = [self._pair(p, None) for p in found[size:]] + [self._pair(None, p) for p in drafts[size:]]
        notes = [f"pairs: {len(left)} {'dropped' if self.unequal == 'truncate' else 'left alone'}"] if left else []
        notes += [f"pairs: {joint.cut} scored without their beginning"] if joint and joint.cut else []
        pairs += left if self.unequal == "pad" else []
        return pairs, {"kept": len(pairs), "calls": size * size if joint else 0, "notes": notes}

    def _pair(self, found: Passage | None, draft: Passage | None, score: float | None = None) -> dict[str, Any]:
        ids = {"pid": found and found["pid"], "doc_id": found and found["doc_id"], "draft": draft and draft["pid"]}
        return {**ids, "text": self._text(found, draft), "score": score}

    def _text(self, found: Passage | None, draft: Passage | None) -> str:
        return self.prompt.render(retrieved=found["text"] if found else "", generated=draft["text"] if draft else "")

    def _joint(self, rows: list[dict[str, Any]]) -> list[_Joint]:
        """One call for the batch."""
        assert self.joint_prompt is not None
        asked: list[tuple[str, str]] = []
        sizes = []
        for row in rows:
            found, drafts = self._lists(row)
            sizes.append(min(len(found), len(drafts)))
            texts = [self._text(p, draft) for p in found[: sizes[-1]] for draft in drafts[: sizes[-1]]]
            asked += [(self.joint_prompt.render(passage=text) + "\n", row["question"]) for text in texts]
        means = iter([logs.mean(dtype=np.float64) for logs in self._scorer.log_likelihoods(asked)])
        cuts = iter(self._scorer.cuts(asked))
        return [
            _Joint(
                np.array([next(means) for _ in range(size * size)], np.float64).reshape(size, size),
                sum(next(cuts) > 0 for _ in range(size * size)),
            )
            for size in sizes
        ]
