"""count_mentions: how often a text mentions what a counting question asks about, counted, not estimated."""

from typing import Any, ClassVar

import pyarrow as pa
from pydantic import Field, PrivateAttr

from pipeline.completions import read_yes, seed
from pipeline.cost import spent, summed
from pipeline.documents import TextStage
from pipeline.env import LLM, ChatRequest, Env
from pipeline.keywords import distinct, read_keyword, read_keywords
from pipeline.lexical.forms import count_forms
from pipeline.prompts import PromptField, PromptUse
from pipeline.schema import PASSAGE, STRINGS

MENTIONS = pa.struct([("keyword", pa.string()), ("forms", STRINGS), ("count", pa.int64())])

Row = dict[str, Any]


class CountMentions(TextStage):
    """For each counting question its keyword, the forms the keyword takes, and how often any of them is in the text.

    Three calls: is it a counting question (of all), the keyword (of those that are), its forms (`forms_prompt` null:
    the keyword alone). The count is exact for these forms: whole words, letter case aside (lexical/forms.py). It is
    written as a passage that states it, for whoever answers; other questions have none. What cannot be read makes a
    question an ordinary one.
    """

    name: ClassVar[str] = "count_mentions"
    llm: str = Field(description="role of the model")
    prompt: PromptField = Field(description="whether it is a counting question")
    keyword_prompt: PromptField
    forms_prompt: PromptField | None = None
    forms: int = Field(12, gt=0, description="read at most, the keyword among them")
    max_tokens: int = Field(64, gt=0)
    into: str = "counts"
    mentions_into: str = "mentions"
    _llm: LLM = PrivateAttr()

    def writes(self) -> dict[str, pa.DataType]:
        return {self.into: pa.list_(PASSAGE), self.mentions_into: MENTIONS}

    def models(self) -> dict[str, str]:
        return {self.llm: "llm"}

    def prompts(self) -> list[PromptUse]:
        uses = [PromptUse(self.prompt, {"question"}, {"question"})]
        uses.append(PromptUse(self.keyword_prompt, {"question"}, {"question"}))
        if self.forms_prompt:
            uses.append(PromptUse(self.forms_prompt, {"question", "keyword"}, {"keyword"}))
        return uses

    def setup(self, env: Env) -> None:
        self._llm = env.llm(self.llm)

    def process(self, batch: pa.Table) -> dict[str, list]:
        rows: list[Row] = batch.select(list(self.reads())).to_pylist()
        for row in rows:
            row["trace"], row["asked"] = {"kept": 0, "notes": []}, []
        counting = [
            row for row, said in zip(rows, self._ask(rows, self.prompt, "counting"), strict=True) if read_yes(said)
        ]
        for row, said in zip(counting, self._ask(counting, self.keyword_prompt, "keyword"), strict=True):
            row["keyword"] = read_keyword(said)
            row["forms"] = [row["keyword"]]
            row["trace"]["notes"] += ["keyword: unreadable"] * (not row["keyword"])
        counting = [row for row in counting if row["keyword"]]
        if self.forms_prompt:
            for row, said in zip(counting, self._ask(counting, self.forms_prompt, "forms"), strict=True):
                row["forms"] = distinct([row["keyword"], *read_keywords(said, self.forms)])[: self.forms]
        for row in counting:
            self._count(row)
        return {
            self.into: [row.get("passages", []) for row in rows],
            self.mentions_into: [row.get("mentions") for row in rows],
            "trace": [{**row["trace"], **summed(row["asked"])} for row in rows],
        }

    def _ask(self, rows: list[Row], prompt: Any, what: str) -> list[str]:
        """What the model wrote for each row, in one call; nothing where a request failed, which is noted."""
        requests = [
            ChatRequest(
                ({"role": "user", "content": prompt.render(question=row["question"], keyword=row.get("keyword"))},),
                self.max_tokens,
                seed=seed(f"{self.name} {what}", row["id"]),
            )
            for row in rows
        ]
        texts = []
        for row, completion in zip(rows, self._llm.chat(requests) if requests else [], strict=True):
            row["asked"].append(spent([completion]))
            row["trace"]["notes"] += [f"{what}: generation error"] * (completion.error is not None)
            texts.append(completion.text if completion.error is None else "")
        return texts

    def _count(self, row: Row) -> None:
        text = self.text(row)
        count = count_forms(text.parts, row["forms"])
        row["mentions"] = {"keyword": row["keyword"], "forms": row["forms"], "count": count}
        row["passages"] = [_statement(row["mentions"], text.about[0]["doc_id"] if text.about else row["id"])]
        row["trace"]["kept"] = 1


def _statement(mentions: Row, doc_id: str) -> Row:
    """The count as a passage, the one that is no part of its document."""
    forms = ", ".join(f'"{form}"' for form in mentions["forms"])
    text = f'The number of mentions of "{mentions["keyword"]}" in the text is {mentions["count"]}. Counted: {forms}.'
    about = {"pid": -1, "doc_id": doc_id, "url": None, "start": 0, "score": 1.0, "rank": 0}
    return {**about, "text": text, "query": mentions["keyword"]}
