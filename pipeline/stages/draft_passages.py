"""draft_passages: passages that a language model writes from memory, to stand beside retrieved ones."""

from typing import Any, ClassVar

import pyarrow as pa
from pydantic import Field, PrivateAttr, model_validator

from pipeline.completions import seed, without_thinking
from pipeline.cost import spent
from pipeline.env import LLM, ChatRequest, Completion, Env
from pipeline.prompts import PromptField, PromptUse
from pipeline.schema import PASSAGE
from pipeline.stage import Stage


class DraftPassages(Stage):
    """At most n passages a question, in the order they were asked for, each by a call with its own seed.

    A draft has no document: `doc_id` and `url` are null and `pid` is -1, -2, ..., which no index uses, so that no
    metric, run file or merge takes it for something retrieved. Its score is null until a stage gives it one. Blank
    drafts and failed calls are left out and noted; equal drafts stay, for how alike they are is a finding.
    """

    name: ClassVar[str] = "draft_passages"
    llm: str = Field(description="role of the model")
    prompt: PromptField
    n: int = Field(gt=0, description="passages asked for")
    into: str = "drafts"
    temperature: float = Field(1.0, ge=0)
    top_p: float = Field(1.0, gt=0, le=1)
    max_tokens: int = Field(256, gt=0, description="of one passage; longer ones end there")
    _llm: LLM = PrivateAttr()

    @model_validator(mode="after")
    def _drafts_can_differ(self) -> "DraftPassages":
        if self.n > 1 and self.temperature == 0:
            raise ValueError(f"temperature 0 writes one passage {self.n} times: set a temperature above 0, or n: 1")
        return self

    def reads(self) -> dict[str, pa.DataType]:
        return {"id": pa.string(), "question": pa.string()}

    def writes(self) -> dict[str, pa.DataType]:
        return {self.into: pa.list_(PASSAGE)}

    def models(self) -> dict[str, str]:
        return {self.llm: "llm"}

    def prompts(self) -> list[PromptUse]:
        return [PromptUse(self.prompt, {"question"}, {"question"})]

    def setup(self, env: Env) -> None:
        self._llm = env.llm(self.llm)

    def process(self, batch: pa.Table) -> dict[str, list]:
        rows = batch.select(["id", "question"]).to_pylist()
        written = iter(self._llm.chat([self._request(row, number) for row in rows for number in range(self.n)]))
        drafts, trace = [], []
        for row in rows:
            calls = [next(written) for _ in range(self.n)]
            found = [text for text in map(_text, calls) if text]
            drafts.append([_passage(text, rank, row["question"]) for rank, text in enumerate(found)])
            trace.append({"kept": len(found), **spent(calls), "notes": _notes(calls, found)})
        return {self.into: drafts, "trace": trace}

    def _request(self, row: dict[str, Any], number: int) -> ChatRequest:
        messages = ({"role": "user", "content": self.prompt.render(question=row["question"])},)
        sampling = self.temperature, self.top_p, seed(f"{self.name} {number}", row["id"])
        return ChatRequest(messages, self.max_tokens, *sampling)


def _text(call: Completion) -> str:
    return without_thinking(call.text) if call.error is None else ""


def _passage(text: str, rank: int, question: str) -> dict[str, Any]:
    origin = {"pid": -1 - rank, "doc_id": None, "url": None, "start": None}
    return {**origin, "text": text, "score": None, "rank": rank, "query": question}


def _notes(calls: list[Completion], found: list[str]) -> list[str]:
    failed = sum(call.error is not None for call in calls)
    counts = {
        "generation error": failed,
        "blank": len(calls) - failed - len(found),
        "like another": len(found) - len(set(found)),
        "stopped at max_tokens": sum(call.finish_reason == "length" for call in calls),
    }
    return [f"drafts: {count} {what}" for what, count in counts.items() if count]
