"""A language model as judge: claims of a text, relations between text and claim, grades from 0 to 10.

A reply that cannot be read is asked for once more, sampled; what still cannot be read is None: excluded and counted by
whoever asked, never a score of 0. Any engine behind `env.llm` will do. Every judge but the challenge's own is a "local
judge", and its scores are marked so wherever they are shown: models that grade their own kind are generous (RAGtifier's
judge gave 1.91 where the official one gave 1.13).
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple, get_args

from pipeline.completions import seed, without_thinking
from pipeline.env import LLM, ChatRequest, Completion
from pipeline.prompts import Prompt, PromptUse, check_use, load_prompt
from pipeline.scoring.claims import Relation

MARK = "local judge"
Kind = Literal["direct", "useful", "useless"]
_CLAIM = re.compile(rf"^[\W\d]*({'|'.join(get_args(Kind))})\W+(.*\w.*)$", re.IGNORECASE)
_RELATION = re.compile(r"(\bnot\s+|n't\s+)?\b(entail|support|contradict|neutral)\w*", re.IGNORECASE)
_NEGATION = re.compile(r"\b(?:not|no|never|cannot|without|hardly|neither|nor|fail(?:s|ed)?)\b|n't\b", re.IGNORECASE)
_OUT_OF = re.compile(r"\s*(?:/|out of)\s*10\b", re.IGNORECASE)
_RANGE = re.compile(r"\d\s*[-/\u2013\u2014]\s*\d")
_NUMBER = re.compile(r"(?<![\w.-])\d+(?:\.\d+)?(?![\w])")
SLOTS = {
    "judge_claims": {"question", "answer"},
    "judge_relation": {"text", "claim"},
    "judge_similarity": {"question", "reference", "answer"},
    "judge_groundedness": {"source", "statement"},
}
ORDERED = {
    "judge_relation",
    "judge_similarity",
    "judge_groundedness",
}  # may also use the slot `swapped`: the two texts change places


class Claim(NamedTuple):
    """One claim of a text."""

    kind: Kind
    text: str


@dataclass(frozen=True)
class Task:
    """What the judge is asked: a prompt's name and slots."""

    prompt: str
    slots: dict[str, Any]


class Judge:
    """`ask` puts many tasks to the model at once; `retried` and `unread` count replies over its life."""

    def __init__(self, llm: LLM, max_tokens: int = 512, temperature: float = 0.0, repeat: int = 0) -> None:
        """`repeat`: another number, another seed for every task: judge-check asks the same again."""
        self._llm, self._max_tokens, self._temperature, self._repeat = llm, max_tokens, temperature, repeat
        self.prompts = judge_prompts()
        self.calls = self.retried = self.unread = 0

    def ask(self, tasks: Sequence[Task]) -> list[Any]:
        """Per task what was read: list[Claim], Relation, or a grade in [0, 10]; None where nothing could be read."""
        requests = [self._request(task) for task in tasks]
        values = self._read(tasks, requests)
        again = [n for n, value in enumerate(values) if value is None]
        # A greedy reply would only be the same again.
        second = [
            replace(requests[n], temperature=max(self._temperature, 0.7), seed=(requests[n].seed or 0) + 1)
            for n in again
        ]
        for n, value in zip(again, self._read([tasks[n] for n in again], second), strict=True):
            values[n] = value
        self.retried += len(again)
        self.unread += sum(value is None for value in values)
        return values

    def counts(self) -> dict[str, int]:
        return {"calls": self.calls, "asked again": self.retried, "unread": self.unread}

    def _request(self, task: Task) -> ChatRequest:
        order = {"swapped": False} if task.prompt in ORDERED else {}
        text = self.prompts[task.prompt].render(**{**order, **task.slots})
        tokens = self._max_tokens if task.prompt == "judge_claims" else min(self._max_tokens, 64)
        message = ({"role": "user", "content": text},)
        return ChatRequest(message, tokens, self._temperature, seed=seed(f"{task.prompt} {self._repeat}", text))

    def _read(self, tasks: Sequence[Task], requests: Sequence[ChatRequest]) -> list[Any]:
        self.calls += len(requests)
        replies = self._llm.chat(requests) if requests else []
        return [_value(task, reply) for task, reply in zip(tasks, replies, strict=True)]


def judge_prompts() -> dict[str, Prompt]:
    """The prompts by name, their slots checked."""
    prompts = {name: load_prompt(name) for name in SLOTS}
    for name, slots in SLOTS.items():
        check_use(PromptUse(prompts[name], slots | ({"swapped"} if name in ORDERED else set()), slots))
    return prompts


def read_claims(text: str) -> list[Claim] | None:
    """The claims of a reply, one a line as `kind: claim`; [] for a reply of `none`; None where neither is there."""
    found = [_CLAIM.match(line.replace("*", "")) for line in text.splitlines()]
    claims = [Claim(match[1].lower(), match[2].strip()) for match in found if match]  # type: ignore[arg-type]
    return claims or ([] if text.strip().strip(".").casefold() == "none" else None)


def read_relation(text: str) -> Relation | None:
    """The relation a reply settles on; None where it names none, or several, as one that repeats its instructions, or
    denies something else than the relation itself: `not entailed` is neutral, `does not directly support` anything."""
    values: dict[str, Relation] = {"entail": 1, "support": 1, "contradict": -1, "neutral": 0}
    named: set[Relation] = {0 if found[1] else values[found[2].lower()] for found in _RELATION.finditer(text)}
    if len(named) != 1 or (named != {0} and _NEGATION.search(_RELATION.sub("", text))):
        return None
    return named.pop()


def read_grade(text: str) -> float | None:
    """The one number from 0 to 10 in a reply, `8/10` being 8; None where there is none, or several, or a range, or a
    share of something else than 10."""
    alone = _OUT_OF.sub("", text)
    numbers = {float(found) for found in _NUMBER.findall(alone)}
    grade = numbers.pop() if len(numbers) == 1 and not _RANGE.search(alone) else None
    return grade if grade is not None and grade <= 10 else None


_READERS: dict[str, Callable[[str], Any]] = {
    "judge_claims": read_claims,
    "judge_relation": read_relation,
    "judge_similarity": read_grade,
    "judge_groundedness": read_grade,
}


def _value(task: Task, reply: Completion) -> Any:
    return None if reply.error is not None else _READERS[task.prompt](without_thinking(reply.text))
