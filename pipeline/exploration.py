"""Exploring a text for one question: where it stands, and how a round widens it (ELITE, arXiv 2505.11908)."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from pydantic import BaseModel, ConfigDict, Field

from pipeline.completions import read_yes, seed
from pipeline.cost import spent, summed
from pipeline.documents import Text
from pipeline.env import LLM, ChatRequest, Completion
from pipeline.evidence import Item, Messages, fitted, joined
from pipeline.lexical.neighbours import deep_side, expanded, first_class, heading_of, runs
from pipeline.lexical.overlap import query_words
from pipeline.prompts import PromptField, PromptUse
from pipeline.schema import PASSAGE, STRINGS

FOUND = pa.struct([*PASSAGE, ("importance", pa.float32())])  # importance: null where none was measured

ROUND = pa.struct(
    [
        ("round", pa.int32()),  # from 1
        ("keywords", STRINGS),  # new in this round; the search is for all so far
        ("hits", pa.list_(pa.int32())),  # numbers of the sentences found, best first
        ("first_class", pa.int32()),  # of them, those tied at the highest overlap
        ("sentences", pa.int32()),  # chosen so far, neighbours included
        ("passages", pa.int32()),  # that the evidence has after trimming
        ("verdict", pa.string()),  # "enough" | "not enough" | "unclear" | null: no judge
    ]
)


@dataclass
class Exploration:
    """One question's state. `chosen`: sentences so far; `overlap`: scores of those that were hits; `weights`:
    importance by a passage's first and last sentence; `record`: a ROUND for each round."""

    id: str
    question: str
    text: Text
    evidence: list[Item] = field(default_factory=list)
    enough: bool = False
    keywords: list[str] = field(default_factory=list)
    chosen: set[int] = field(default_factory=set)
    overlap: dict[int, int] = field(default_factory=dict)
    first: set[int] = field(default_factory=set)
    weights: dict[tuple[int, int], float | None] = field(default_factory=dict)
    record: list[dict[str, Any]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    asked: list[dict[str, float | None]] = field(default_factory=list)

    def add_keywords(self, found: list[str]) -> list[str]:
        """Those of them that are new; before any was found, the question's own words for want of better."""
        tried = {word.casefold() for word in self.keywords}
        new = [word for word in found if word.casefold() not in tried]
        if not new:
            self.notes.append("keywords: none new" if self.keywords else "keywords: fallback")
            new = [] if self.keywords else list(query_words(self.question))
        self.keywords += new
        return new

    def spans(self) -> list[tuple[int, int]]:
        """First and last sentence of each passage: runs of chosen sentences, in the order of the text."""
        return runs(self.text.sentences, self.chosen)

    def passages(self, marker: str | None) -> list[Item]:
        """FOUND of every span; `score`: the best overlap in it; `marker` goes before a text with a first-class one."""
        items = []
        for rank, (first, last) in enumerate(self.spans()):
            item, inside = self.text.passage(first, last), range(first, last + 1)
            if marker and not self.first.isdisjoint(inside):
                item["text"] = f"{marker} {item['text']}"
            score = max(self.overlap.get(number, 0) for number in inside)
            about = {"rank": rank, "query": ", ".join(self.keywords), "importance": self.weights.get((first, last))}
            items.append({**item, **about, "score": float(score)})
        return items

    def count(self, completion: Completion) -> None:
        """Adds a call to the row's trace."""
        self.asked.append(spent([completion]))

    def trace(self) -> dict[str, Any]:
        return {"kept": len(self.evidence), **summed(self.asked), "notes": self.notes}


class Reach(BaseModel):
    """How far a round looks. A later one takes more hits (breadth) and more neighbours of each (depth)."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)
    hits: int = Field(gt=0, description="sentences of the highest overlap; recall_index")
    neighbours: int = Field(ge=0, description="sentences on each side of a hit; neighbor_num")
    first_class: int = Field(gt=0, description="hits tied at the top that are first class, at most; deep_search_index")
    first_class_sentences: int = Field(gt=0, description="shared out among the first class; deep_search_num")
    more_hits: int = Field(0, ge=0, description="added in each later round")
    more_neighbours: int = Field(0, ge=0, description="on each side, added in each later round")
    heading: str | None = Field(None, description="pattern of headings; the one above a hit is chosen with it")

    def widen(self, row: Exploration, number: int) -> tuple[list[int], int]:
        """Round `number`'s search for all keywords so far. Returns the hits, best first, and how many are first class.
        Where the text has none of the keywords, the question's words are searched."""
        sentences, later = row.text.sentences, number - 1
        most = self.hits + later * self.more_hits
        found = sentences.search(row.keywords, most)
        if not found:
            row.notes.append("keywords: not in the text")
            found = sentences.search(row.question, most)
        first = first_class(found, self.first_class)
        deep = deep_side(self.first_class_sentences, len(first)) + later * self.more_neighbours
        row.chosen |= expanded(sentences, found, first, deep, self.neighbours + later * self.more_neighbours)
        if self.heading is not None:
            above = (heading_of(hit.sentence, row.text.headings(self.heading)) for hit in found)
            row.chosen |= {heading for heading in above if heading is not None}
        row.overlap |= {hit.sentence: hit.score for hit in found}
        row.first |= set(first)
        return [hit.sentence for hit in found], len(first)


class Judge(BaseModel):
    """Who says whether the evidence is enough: anything but a `yes` is not."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)
    llm: str = Field(description="role of the model")
    prompt: PromptField
    max_tokens: int = Field(8, gt=0)

    def use(self) -> PromptUse:
        return PromptUse(self.prompt, {"question", "context"}, {"question", "context"})

    def verdicts(self, llm: LLM, rows: list[Exploration], purpose: str) -> dict[str, str]:
        """By question id, all asked in one call: "enough", "not enough", or "unclear" where it says neither."""

        def prompt(row: Exploration, context: str) -> str:
            return self.prompt.render(question=row.question, context=context)

        seeds = [seed(purpose, row.id) for row in rows]
        words = {True: "enough", False: "not enough", None: "unclear"}
        said = ask_all(llm, rows, prompt, seeds, self.max_tokens, "judge")
        return {row.id: words[read_yes(text)] for row, text in zip(rows, said, strict=True)}


def trimmed(passages: list[Item], llm: LLM, reserve: int, most: int) -> list[Item]:
    """The passages that fit with `reserve` into `most` tokens, ranked anew. The last to give way: the most important
    (not measured: 0), then the highest overlap, then the earliest."""

    def messages(items: list[Item]) -> Messages:
        return ({"role": "user", "content": joined(items)},)

    best = sorted(passages, key=lambda item: (-(item["importance"] or 0.0), -item["score"], item["rank"]))
    _, left = fitted(best, messages, llm, reserve, most=most)
    return [{**item, "rank": rank} for rank, item in enumerate(sorted(left, key=lambda item: item["rank"]))]


def ask_all(
    llm: LLM,
    rows: list[Exploration],
    prompt: Callable[[Exploration, str], str],
    seeds: list[int],
    max_tokens: int,
    what: str,
) -> list[str]:
    """What the model wrote for each row, given its evidence, in one call; nothing where a request failed."""
    requests = []
    for row, number in zip(rows, seeds, strict=True):

        def messages(items: list[Item], row: Exploration = row) -> Messages:
            return ({"role": "user", "content": prompt(row, joined(items))},)

        asked, _ = fitted(row.evidence, messages, llm, max_tokens)
        requests.append(ChatRequest(asked, max_tokens, seed=number))
    texts = []
    for row, completion in zip(rows, llm.chat(requests) if requests else [], strict=True):
        row.count(completion)
        row.notes += [f"{what}: generation error"] * (completion.error is not None)
        texts.append(completion.text if completion.error is None else "")
    return texts
