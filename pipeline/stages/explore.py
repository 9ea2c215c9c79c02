"""explore: passages of a text for a question, by keywords and word overlap, round after round until a judge is content.

ELITE's retrieval (arXiv 2505.11908), with no index and no embeddings of the text.
"""

from typing import Any, ClassVar

import pyarrow as pa
from pydantic import Field, PrivateAttr, model_validator

from pipeline.completions import seed
from pipeline.documents import Text, TextStage
from pipeline.env import LLM, Env
from pipeline.exploration import FOUND, ROUND, Exploration, Judge, Reach, ask_all, trimmed
from pipeline.importance import Chunk, Importance, Weigher
from pipeline.keywords import read_keywords
from pipeline.prompts import PromptField, PromptUse
from pipeline.schema import PASSAGE


class Explore(TextStage):
    """A round: new keywords for every question still active (one call), the sentences that share most words with all
    keywords so far, their neighbours, their importance, and whether they are enough (one call). Chosen sentences stay
    chosen; runs of neighbouring ones are passages, in the order of the text.

    What does not fit into `max_context` gives way, least important first. Keywords that cannot be read, or are not in
    the text, leave the search to the question's own words. Rows whose `given` column has passages take them and are
    not explored. Every round is recorded in `rounds_into`.
    """

    name: ClassVar[str] = "explore"
    llm: str = Field(description="role of the model that writes keywords, and the outputs that importance compares")
    prompt: PromptField = Field(description="for keywords")
    keywords: int = Field(gt=0, description="asked for in a round, and read at most")
    max_tokens: int = Field(64, gt=0, description="of the keywords")
    overlap: Reach
    importance: Importance | None = Field(None, description="null: not measured")
    judge: Judge | None = Field(None, description="null: always `rounds` rounds")
    rounds: int = Field(gt=0, description="at most")
    max_context: int = Field(gt=0, description="tokens of evidence and reserve, where the model reads as many")
    reserve: int = Field(ge=0, description="tokens kept for the question, the instructions and the answer")
    marker: str | None = Field(None, description="written before passages with a first-class sentence")
    given: str | None = Field(None, description="column of passages that some rows have already")
    into: str = "passages"
    rounds_into: str = "rounds"
    _llm: LLM = PrivateAttr()
    _judge: LLM = PrivateAttr()
    _weigher: Weigher | None = PrivateAttr(None)

    @model_validator(mode="after")
    def _evidence_has_room(self) -> "Explore":
        if self.reserve >= self.max_context:
            raise ValueError(f"reserve {self.reserve} must be below max_context {self.max_context}")
        return self

    def reads(self) -> dict[str, pa.DataType]:
        return {**super().reads(), **({self.given: pa.list_(PASSAGE)} if self.given else {})}

    def writes(self) -> dict[str, pa.DataType]:
        return {self.into: pa.list_(FOUND), self.rounds_into: pa.list_(ROUND)}

    def models(self) -> dict[str, str]:
        judge = {self.judge.llm: "llm"} if self.judge else {}
        return {self.llm: "llm", **judge, **(self.importance.models() if self.importance else {})}

    def prompts(self) -> list[PromptUse]:
        uses = [PromptUse(self.prompt, {"question", "n", "tried", "context"}, {"question", "n"})]
        return uses + [part.use() for part in (self.importance, self.judge) if part is not None]

    def setup(self, env: Env) -> None:
        self._llm = env.llm(self.llm)
        if self.judge:
            self._judge = env.llm(self.judge.llm)
        if self.importance:
            self._weigher = Weigher(self.importance, self._llm, env)

    def process(self, batch: pa.Table) -> dict[str, list]:
        rows = [self._begun(row) for row in batch.select(list(self.reads())).to_pylist()]
        active = [row for row in rows if not row.enough]
        for number in range(1, self.rounds + 1):
            if active:
                self._look(active, number)
                self._weigh(active)
                self._conclude(active, number)
                active = [row for row in active if not row.enough]
        columns = {self.into: [row.evidence for row in rows], self.rounds_into: [row.record for row in rows]}
        return {**columns, "trace": [row.trace() for row in rows]}

    def _begun(self, row: dict[str, Any]) -> Exploration:
        if given := (row[self.given] if self.given else None):
            evidence = [{**passage, "importance": None} for passage in given]
            return Exploration(row["id"], row["question"], Text([], []), evidence, enough=True)
        return Exploration(row["id"], row["question"], self.text(row))

    def _look(self, active: list[Exploration], number: int) -> None:
        def prompt(row: Exploration, context: str) -> str:
            tried = ", ".join(row.keywords)
            return self.prompt.render(question=row.question, n=self.keywords, tried=tried, context=context)

        seeds = [seed(f"{self.name} keywords {number}", row.id) for row in active]
        for row, text in zip(
            active, ask_all(self._llm, active, prompt, seeds, self.max_tokens, "keywords"), strict=True
        ):
            new = row.add_keywords(read_keywords(text, self.keywords))
            hits, first = self.overlap.widen(row, number)
            row.record.append({"round": number, "keywords": new, "hits": hits, "first_class": first})

    def _weigh(self, active: list[Exploration]) -> None:
        """Importance of the passages that are new or have grown, of all rows together."""
        if self._weigher is None:
            return
        wanted = [(row, span) for row in active for span in row.spans() if span not in row.weights]
        chunks = [Chunk(row.id, row.question, row.text.passage(*span)["text"]) for row, span in wanted]
        for (row, span), (weight, calls) in zip(wanted, self._weigher.weigh(chunks), strict=True):
            row.weights[span] = weight
            row.notes += ["importance: not measured"] * (weight is None)
            for completion in calls:
                row.count(completion)

    def _conclude(self, active: list[Exploration], number: int) -> None:
        """Trims each row's evidence, has it judged, and completes the round's record. Nothing found is not enough."""
        for row in active:
            passages = (
                self.importance.above(row.passages(self.marker)) if self.importance else row.passages(self.marker)
            )
            row.evidence = trimmed(passages, self._llm, self.reserve, self.max_context)
            if lost := len(passages) - len(row.evidence):
                row.notes.append(f"evidence: dropped {lost} of {len(passages)}")
        judged = [row for row in active if row.evidence]
        verdicts = self.judge.verdicts(self._judge, judged, f"{self.name} judge {number}") if self.judge else {}
        for row in active:
            verdict = verdicts.get(row.id, "not enough" if self.judge else None)
            row.enough = verdict == "enough"
            row.record[-1] |= {"sentences": len(row.chosen), "passages": len(row.evidence), "verdict": verdict}
