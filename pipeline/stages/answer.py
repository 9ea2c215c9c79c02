"""answer: the answer to a question, written by a language model from evidence or from what it knows."""

from typing import Any, ClassVar, Literal, NamedTuple

import pyarrow as pa
from pydantic import Field, PrivateAttr, model_validator

from pipeline.completions import ask, first_words, seed, without_thinking
from pipeline.cost import spent
from pipeline.env import LLM, ChatRequest, Completion, Env
from pipeline.evidence import Item, Messages, fitted, joined, kept
from pipeline.prompts import PromptField, PromptUse
from pipeline.schema import ITEM
from pipeline.stage import Stage


class Turn(NamedTuple):
    """What is asked for one row, nothing where the stage abstains; `items` of evidence are in it."""

    requests: list[ChatRequest]
    items: int
    notes: list[str]


class Answer(Stage):
    """One answer a question, with the prompt that reached the model. Without evidence, no guess: `when_empty` decides.

    An over-long prompt loses whole items of evidence, never the question; an empty answer is asked for once more and
    then noted; a request the model refuses is its row's error.
    """

    name: ClassVar[str] = "answer"
    llm: str = Field(description="role of the model")
    prompt: PromptField
    system_prompt: PromptField | None = Field(None, description="said before it, as the system's turn; no slots")
    evidence: str | None = Field(None, description="column of passages or snippets; null: closed book")
    max_words: int | None = Field(None, gt=0, description="told to the model in the prompt")
    cut_to_max_words: bool = Field(False, description="also cut what the model wrote beyond")
    max_tokens: int = Field(512, gt=0)
    temperature: float = Field(0.0, ge=0)
    top_p: float = Field(1.0, gt=0, le=1)
    when_empty: Literal["abstain", "ask"] = "abstain"
    abstain_text: str = "I don't know."
    drop: Literal["last", "first"] = Field("last", description="the end that gives way when a prompt is too long")
    _llm: LLM = PrivateAttr()

    @model_validator(mode="after")
    def _cut_has_a_length(self) -> "Answer":
        if self.cut_to_max_words and self.max_words is None:
            raise ValueError("cut_to_max_words needs max_words")
        return self

    def reads(self) -> dict[str, pa.DataType]:
        evidence = {self.evidence: pa.list_(ITEM)} if self.evidence else {}
        return {"id": pa.string(), "question": pa.string(), **evidence}

    def writes(self) -> dict[str, pa.DataType]:
        return {"answer": pa.string(), "final_prompt": pa.string(), "finish_reason": pa.string()}

    def models(self) -> dict[str, str]:
        return {self.llm: "llm"}

    def prompts(self) -> list[PromptUse]:
        slots = {"question"} | ({"context"} if self.evidence else set()) | ({"max_words"} if self.max_words else set())
        system = [PromptUse(self.system_prompt, set(), set())] if self.system_prompt else []
        return [PromptUse(self.prompt, slots, slots), *system]

    def setup(self, env: Env) -> None:
        self._llm = env.llm(self.llm)

    def process(self, batch: pa.Table) -> dict[str, list]:
        turns = [self._turn(row) for row in batch.select(list(self.reads())).to_pylist()]
        calls = iter(ask(self._llm, [request for turn in turns for request in turn.requests]))
        rows = [self._row(turn, [next(calls) for _ in turn.requests]) for turn in turns]
        return {column: [row[column] for row in rows] for column in [*self.writes(), "error", "trace"]}

    def _turn(self, row: dict[str, Any]) -> Turn:
        def messages(items: list[Item]) -> Messages:
            slots = {"question": row["question"], "context": joined(items), "max_words": self.max_words}
            return (*before, {"role": "user", "content": self.prompt.render(**slots)})

        before = [{"role": "system", "content": self.system_prompt.render()}] if self.system_prompt else []
        items = kept(row[self.evidence]) if self.evidence else []
        prompt, left = fitted(items, messages, self._llm, self.max_tokens, self.drop)
        lost = len(items) - len(left)
        notes = [f"evidence: dropped {lost} of {len(items)}"] if lost else []
        if self.evidence and not left and self.when_empty == "abstain":
            return Turn([], 0, [*notes, "abstained: no evidence"])
        requests = [
            ChatRequest(prompt, self.max_tokens, self.temperature, self.top_p, number)
            for number in self._seeds(row["id"])
        ]
        return Turn(requests, len(left), notes)

    def _seeds(self, question_id: str) -> list[int]:
        """Of the samples drawn for a question: one."""
        return [seed(self.name, question_id)]

    def _row(self, turn: Turn, samples: list[list[Completion]]) -> dict[str, Any]:
        """The columns, error and trace of a row; `samples`: per request its completions (completions.ask)."""
        return self._sampled(turn, samples[0] if samples else [])

    def _sampled(self, turn: Turn, calls: list[Completion]) -> dict[str, Any]:
        notes = [*turn.notes, *["answer: asked again"] * (len(calls) > 1)]
        trace = {"kept": turn.items, **spent(calls), "notes": notes}
        row: dict[str, Any] = {"error": None, "trace": trace}
        if not calls:
            return {**row, "answer": self.abstain_text, "final_prompt": "", "finish_reason": "abstained"}
        last = calls[-1] if calls[-1].error is None else calls[0]  # a second try that fails leaves the first as it was
        row |= {"answer": None, "final_prompt": last.prompt, "finish_reason": last.finish_reason}
        if last.error is not None:
            return {**row, "error": {"stage": self.name, "kind": "generation", "message": last.error}}
        return {**row, "answer": self._text(last, notes)}

    def _text(self, completion: Completion, notes: list[str]) -> str:
        text = without_thinking(completion.text)
        if not text:
            notes.append("answer: empty")
        if completion.finish_reason == "length":
            notes.append("answer: stopped at max_tokens")
        if not self.cut_to_max_words or self.max_words is None:
            return text
        short = first_words(text, self.max_words)
        notes += [f"answer: cut to {self.max_words} words"] if short != text else []
        return short
