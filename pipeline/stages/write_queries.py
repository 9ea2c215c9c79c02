"""write_queries: search queries for a question, written by a language model."""

from datetime import date as Date
from re import fullmatch
from typing import Annotated, Any, ClassVar

import pyarrow as pa
from pydantic import BeforeValidator, Field, PrivateAttr

from pipeline.completions import read_queries, seed
from pipeline.cost import spent
from pipeline.env import LLM, ChatRequest, Completion, Env
from pipeline.evidence import Item, Messages, fitted, joined, kept
from pipeline.prompts import PromptField, PromptUse
from pipeline.schema import ITEM, STRINGS
from pipeline.stage import Stage


def _date_text(value: Any) -> Any:
    """2025-05-12 as May 12, 2025; other words as they are. YAML's dates arrive as text where some library that was
    imported has taken timestamps out of PyYAML's loader."""
    if isinstance(value, str) and fullmatch(r"\d{4}-\d\d-\d\d", value):
        value = Date.fromisoformat(value)
    return f"{value:%B %d, %Y}" if isinstance(value, Date) else value


DateText = Annotated[str, BeforeValidator(_date_text)]


class WriteQueries(Stage):
    """At most n queries a question, none equal to another or to the question; what cannot be read becomes no query.

    That is the fallback: a later search over the question and these queries searches the question alone. Repairs,
    fallbacks and short lists are notes in the trace; nothing a model writes fails a row.
    """

    name: ClassVar[str] = "write_queries"
    llm: str = Field(description="role of the model")
    prompt: PromptField
    n: int = Field(ge=0, description="queries asked for; 0 asks for none")
    into: str
    context: str | None = Field(None, description="column of passages or snippets shown to the model")
    date: DateText | None = Field(None, description="the day the model is told; null leaves it untold")
    temperature: float = Field(0.0, ge=0)
    top_p: float = Field(1.0, gt=0, le=1)
    max_tokens: int = Field(256, gt=0)
    _llm: LLM = PrivateAttr()

    def reads(self) -> dict[str, pa.DataType]:
        context = {self.context: pa.list_(ITEM)} if self.context else {}
        return {"id": pa.string(), "question": pa.string(), **context}

    def writes(self) -> dict[str, pa.DataType]:
        return {self.into: STRINGS}

    def models(self) -> dict[str, str]:
        return {self.llm: "llm"} if self.n else {}

    def prompts(self) -> list[PromptUse]:
        requires = {"n", "question"} | ({"context"} if self.context else set()) | ({"date"} if self.date else set())
        return [PromptUse(self.prompt, {"n", "question", "date", "context", "example"}, requires)]

    def setup(self, env: Env) -> None:
        if self.n:
            self._llm = env.llm(self.llm)

    def process(self, batch: pa.Table) -> dict[str, list]:
        if self.n == 0:
            return {self.into: [[] for _ in range(batch.num_rows)], "trace": [{"kept": 0, "calls": 0}] * batch.num_rows}
        rows = batch.select(list(self.reads())).to_pylist()
        requests, dropped = zip(*(self._request(row) for row in rows), strict=True)
        queries, trace = [], []
        for row, note, completion in zip(rows, dropped, self._llm.chat(requests), strict=True):
            written, notes = self._read(completion, row["question"])
            queries.append(written)
            notes += ["queries: stopped at max_tokens"] * (completion.finish_reason == "length")
            trace.append({"kept": len(written), **spent([completion]), "notes": note + notes})
        return {self.into: queries, "trace": trace}

    def _request(self, row: dict[str, Any]) -> tuple[ChatRequest, list[str]]:
        slots = {"n": self.n, "question": row["question"], "date": self.date, "example": ", ".join(self._examples())}

        def messages(items: list[Item]) -> Messages:
            return ({"role": "user", "content": self.prompt.render(**slots, context=joined(items))},)

        items = kept(row[self.context]) if self.context else []
        prompt, left = fitted(items, messages, self._llm, self.max_tokens)
        lost = len(items) - len(left)
        notes = [f"context: dropped {lost} of {len(items)}"] if lost else []
        return ChatRequest(prompt, self.max_tokens, self.temperature, self.top_p, seed(self.name, row["id"])), notes

    def _examples(self) -> list[str]:
        return [f'"query {number}"' for number in range(1, self.n + 1)]

    def _read(self, completion: Completion, question: str) -> tuple[list[str], list[str]]:
        """The queries to search with, and notes on how they came about."""
        if completion.error is not None:
            return [], ["queries: generation error", "queries: fallback"]
        written, repaired = read_queries(completion.text)
        echoes = {example.strip('"') for example in self._examples()}  # small models repeat the example they were shown
        usable = [query for query in written if query.casefold() not in echoes]
        if not usable:
            return [], ["queries: fallback"]
        unique = {_key(query): query for query in reversed(usable)}  # of equal queries the first one's spelling stays
        wanted = [unique.pop(key) for key in map(_key, usable) if key in unique and key != _key(question)]
        outcomes = {
            "queries: repaired": repaired,
            "queries: duplicate removed": len(wanted) < len(usable),
            f"queries: cut to {self.n}": len(wanted) > self.n,
            f"queries: {len(wanted)} of {self.n}": len(wanted) < self.n,
        }
        return wanted[: self.n], [note for note, happened in outcomes.items() if happened]


def _key(query: str) -> str:
    return " ".join(query.casefold().split())
