"""answer_fid: the answer to a question by Fusion-in-Decoder, every piece of evidence through the encoder by itself."""

from typing import Any, ClassVar

import pyarrow as pa
from pydantic import Field, PrivateAttr

from pipeline.env import Env, Reader, Reading, ReadRequest
from pipeline.evidence import kept
from pipeline.prompts import PromptField, PromptUse
from pipeline.schema import ITEM
from pipeline.stage import Stage


class AnswerFid(Stage):
    """One answer a question, decoded from the first k pieces of evidence at once (arXiv 2007.01282).

    `final_prompt` holds the encoder's inputs, a blank line between two. An input longer than the encoder reads loses
    its end, which is counted in the trace. Without evidence there is nothing to encode: the model is not called.
    """

    name: ClassVar[str] = "answer_fid"
    reader: str = Field(description="role of the model")
    prompt: PromptField = Field(description="one encoder input")
    evidence: str = Field(description="column of pairs, passages or snippets")
    k: int | None = Field(None, gt=0, description="encoder inputs at most; null: all")
    max_tokens: int = Field(16, gt=0)
    beams: int = Field(1, gt=0, description="1 is greedy")
    abstain_text: str = "I don't know."
    _reader: Reader = PrivateAttr()

    def reads(self) -> dict[str, pa.DataType]:
        return {"question": pa.string(), self.evidence: pa.list_(ITEM)}

    def writes(self) -> dict[str, pa.DataType]:
        return {"answer": pa.string(), "final_prompt": pa.string(), "finish_reason": pa.string()}

    def models(self) -> dict[str, str]:
        return {self.reader: "reader"}

    def prompts(self) -> list[PromptUse]:
        slots = {"question", "context"}
        return [PromptUse(self.prompt, slots, slots)]

    def setup(self, env: Env) -> None:
        self._reader = env.reader(self.reader)

    def process(self, batch: pa.Table) -> dict[str, list]:
        rows = batch.select(list(self.reads())).to_pylist()
        inputs = [self._inputs(row) for row in rows]
        readings = iter(self._reader.read([ReadRequest(each, self.max_tokens, self.beams) for each in inputs if each]))
        found = [self._row(each, next(readings) if each else None) for each in inputs]
        return {column: [row[column] for row in found] for column in [*self.writes(), "trace"]}

    def _inputs(self, row: dict[str, Any]) -> tuple[str, ...]:
        items = kept(row[self.evidence])[: self.k]
        return tuple(self.prompt.render(question=row["question"], context=item["text"]) for item in items)

    def _row(self, inputs: tuple[str, ...], reading: Reading | None) -> dict[str, Any]:
        if reading is None:
            trace: dict[str, Any] = {"kept": 0, "calls": 0, "notes": ["abstained: no evidence"]}
            return {"answer": self.abstain_text, "final_prompt": "", "finish_reason": "abstained", "trace": trace}
        outcomes = {
            f"evidence: {reading.cut} of {len(inputs)} lost their end to the encoder's length": reading.cut > 0,
            "answer: empty": not reading.text,
            "answer: stopped at max_tokens": reading.finish_reason == "length",
        }
        trace = {
            "kept": len(inputs),
            "calls": 1,
            "prompt_tokens": reading.prompt_tokens,
            "generated_tokens": reading.generated_tokens,
            "notes": [note for note, happened in outcomes.items() if happened],
        }
        prompt, reason = "\n\n".join(inputs), reading.finish_reason
        return {"answer": reading.text, "final_prompt": prompt, "finish_reason": reason, "trace": trace}
