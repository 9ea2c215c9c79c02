"""A language model as judge: claims of a text, relations between text and claim, grades from 0 to 10.

A reply that cannot be read, or that could mean two things, is asked for once more, sampled; what still cannot be read
is None: excluded and counted by whoever asked, never a score of 0. Any engine behind `env.llm` will do. Every judge but
the challenge's own is a "local judge", and its scores are marked so wherever they are shown: models that grade their
own kind are generous (RAGtifier's judge gave 1.91 where the official one gave 1.13).
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
_RELATIONS: dict[str, Relation] = {"entail": 1, "support": 1, "contradict": -1, "neutral": 0}
_RELATION = re.compile("|".join(_RELATIONS), re.IGNORECASE)
# The only words that may stand beside a relation: any other could turn it round, and there is no list of those.
_BESIDE = r"(?:\W|\b(?:yes|the|a|an|text|claim|answer|reply|relation|it|this|is|by)\b)*"
_SETTLED = re.compile(rf"{_BESIDE}\b({_RELATION.pattern})\w*{_BESIDE}", re.IGNORECASE)
_OUT_OF = re.compile(r"\s*(?:/|out of)\s*10\b", re.IGNORECASE)
# A range, another scale, a percentage, a bound: its numbers are no grade.
_NO_GRADE = re.compile(
    r"\d\s*[-\u2013/]\s*\d|\bof\s+\d|\d\s*%|(?:\bnot|n't|\bthan|\bleast|\bmost|\babove|\bbelow)(?:\s+an?)?\s+\d",
    re.IGNORECASE,
)
_NUMBER = re.compile(r"(?<![\w.\u2212-])\d+(?:\.\d+)?(?![\w])")
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
    """The relation a reply settles on; None where it names none, several, or one in a sentence that says more than
    that, such as a negation: "not entailed" is neutral or contradicted."""
    named = [sentence for sentence in re.split(r"[.!\n]", text) if _RELATION.search(sentence)]
    settled = [_SETTLED.fullmatch(sentence) for sentence in named]
    relations = {_RELATIONS[found[1].lower()] if found else None for found in settled}
    return relations.pop() if len(relations) == 1 else None


def read_grade(text: str) -> float | None:
    """The one number from 0 to 10 in a reply, `8/10` being 8; None where there is none, or several, or it is part of a
    range (`7-8`), of another scale (`5/5`) or of a bound (`less than 5`)."""
    rest = _OUT_OF.sub("", text)
    numbers = set() if _NO_GRADE.search(rest) else {float(found) for found in _NUMBER.findall(rest)}
    grade = numbers.pop() if len(numbers) == 1 else None
    return grade if grade is not None and grade <= 10 else None


_READERS: dict[str, Callable[[str], Any]] = {
    "judge_claims": read_claims,
    "judge_relation": read_relation,
    "judge_similarity": read_grade,
    "judge_groundedness": read_grade,
}


def _value(task: Task, reply: Completion) -> Any:
    return None if reply.error is not None else _READERS[task.prompt](without_thinking(reply.text))
