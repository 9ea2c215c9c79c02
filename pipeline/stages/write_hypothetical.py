"""write_hypothetical: an answer from memory, to search with."""

from typing import Any, ClassVar

import pyarrow as pa
from pydantic import Field, PrivateAttr

from pipeline.completions import seed, without_thinking
from pipeline.cost import spent
from pipeline.env import LLM, ChatRequest, Completion, Env
from pipeline.prompts import PromptField, PromptUse
from pipeline.stage import Stage


class WriteHypothetical(Stage):
    """One query a question: a hypothetical answer (HyDE, arXiv 2212.10496), the question in front where asked for.

    Whether it is true does not matter, for it is used to find passages that sound like it. Where the model fails or
    says nothing the query is the question, and the trace says so.
    """

    name: ClassVar[str] = "write_hypothetical"
    llm: str = Field(description="role of the model")
    prompt: PromptField
    into: str = "hypothetical"
    with_question: bool = Field(True, description="the query is the question and the answer; else the answer alone")
    max_tokens: int = Field(128, gt=0)
    temperature: float = Field(0.0, ge=0)
    top_p: float = Field(1.0, gt=0, le=1)
    _llm: LLM = PrivateAttr()

    def reads(self) -> dict[str, pa.DataType]:
        return {"id": pa.string(), "question": pa.string()}

    def writes(self) -> dict[str, pa.DataType]:
        return {self.into: pa.string()}

    def models(self) -> dict[str, str]:
        return {self.llm: "llm"}

    def prompts(self) -> list[PromptUse]:
        return [PromptUse(self.prompt, {"question"}, {"question"})]

    def setup(self, env: Env) -> None:
        self._llm = env.llm(self.llm)

    def process(self, batch: pa.Table) -> dict[str, list]:
        rows = batch.select(["id", "question"]).to_pylist()
        calls = self._llm.chat([self._request(row) for row in rows])
        texts = [without_thinking(call.text) if call.error is None else "" for call in calls]
        queries = [self._query(row["question"], text) for row, text in zip(rows, texts, strict=True)]
        trace = [
            {"kept": int(bool(text)), **spent([call]), "notes": _notes(call, text)}
            for call, text in zip(calls, texts, strict=True)
        ]
        return {self.into: queries, "trace": trace}

    def _request(self, row: dict[str, Any]) -> ChatRequest:
        messages = ({"role": "user", "content": self.prompt.render(question=row["question"])},)
        return ChatRequest(messages, self.max_tokens, self.temperature, self.top_p, seed(self.name, row["id"]))

    def _query(self, question: str, text: str) -> str:
        return f"{question}\n{text}" if text and self.with_question else text or question


def _notes(call: Completion, text: str) -> list[str]:
    stopped = ["hypothetical: stopped at max_tokens"] * (call.finish_reason == "length")
    if text:
        return stopped
    reason = "generation error" if call.error is not None else "empty"
    return [*stopped, f"hypothetical: {reason}", "hypothetical: fallback to the question"]
