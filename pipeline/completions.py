"""Asking a model, and reading what it wrote: thinking taken out, query lists found in whatever surrounds them."""

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any

from pipeline.env import LLM, ChatRequest, Completion

_LISTED = re.compile(r"^\s*(?:\d+\s*[.):]\s|[-*•–]\s|(?=(?:search )?query ?\d*:))\s*(?P<item>.+)$", re.IGNORECASE)
_QUOTED = re.compile(r"""^\s*(?:"(?P<item>[^"]+)"|“(?P<curly>[^“”]+)”)\s*,?\s*$""")
_LABEL = re.compile(r"^(?:search )?query ?\d*:\s*", re.IGNORECASE)
_OPENS = re.compile(r"[\[{]")
_YES_OR_NO = re.compile(r"\b(?:(yes)|no)\b", re.IGNORECASE)
_LIST_CHARACTERS = 4000  # of a completion that are read as a query list; repairing takes quadratic time


def seed(stage: str, question_id: str) -> int:
    """A sampling seed (32 bit) that depends on the question alone, never on its batch or worker."""
    return int.from_bytes(hashlib.sha256(f"{stage}\0{question_id}".encode()).digest()[:4], "big")


def ask(llm: LLM, requests: Sequence[ChatRequest]) -> list[list[Completion]]:
    """Per request its completions: one, or a second one, drawn with the next seed, where the first said nothing."""
    calls = [[first] for first in llm.chat(requests)] if requests else []
    silent = [n for n, (first,) in enumerate(calls) if first.error is None and not without_thinking(first.text)]
    again = [replace(requests[n], seed=(requests[n].seed or 0) + 1) for n in silent]
    for n, second in zip(silent, llm.chat(again) if again else [], strict=True):
        calls[n].append(second)
    return calls


def without_thinking(text: str) -> str:
    """The text after a model's `<think>...</think>`; empty where the thinking was cut off before it ended.

    Some chat templates open the thinking themselves, so the opening tag may be missing.
    """
    answer = text.rpartition("</think>")[2]
    return "" if "<think>" in answer else answer.strip()


def read_yes(text: str) -> bool | None:
    """Whether the first `yes` or `no` that a completion says is `yes`; None where it says neither."""
    found = _YES_OR_NO.search(without_thinking(text))
    return found[1] is not None if found else None


def first_words(text: str, number: int) -> str:
    """The text up to the end of its word `number` (whitespace separates words), spacing as it was."""
    word = next(islice(re.finditer(r"\S+", text), number - 1, None), None)
    return text[: word.end()] if word else text


def read_queries(text: str) -> tuple[list[str], bool]:
    """The queries in a completion, and whether they had to be repaired out of it; ([], True) where there are none.

    In turn: a JSON list as asked for; JSON lists, or objects with a `query` key, in whatever surrounds them; the same
    where brackets or quotes are missing; lines that are numbered, bulleted, labelled or quoted.
    """
    text = without_thinking(text)[:_LIST_CHARACTERS]
    try:
        strict = json.loads(text)
    except (ValueError, RecursionError):
        strict = None
    if isinstance(strict, list) and strict and all(isinstance(item, str) and item.strip() for item in strict):
        return _clean(strict), False
    return _clean(_embedded(text)) or _clean(_repaired(text)) or _clean(_lines(text)), True


def _embedded(text: str) -> Iterator[str]:
    """Strings of every well-formed JSON list and object in the text."""
    decoder, position = json.JSONDecoder(), 0
    while found := _OPENS.search(text, position):
        try:
            value, position = decoder.raw_decode(text, found.start())
        except (ValueError, RecursionError):
            position = found.end()
        else:
            yield from _strings(value)


def _repaired(text: str) -> Iterator[str]:
    """Strings of the first list or object, put right where it is broken."""
    from json_repair import loads

    found = _OPENS.search(text)
    try:
        yield from _strings(loads(text[found.start() :])) if found else ()
    except (ValueError, RecursionError):  # beyond repair
        return


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for item in value:
            yield from _strings(item)
    elif isinstance(value, dict):
        for key, item in value.items():
            if any(
                word in str(key).casefold() for word in ("quer", "keyword")
            ):  # query, queries, query_1, search_query
                yield from _strings(item)


def _lines(text: str) -> Iterator[str]:
    for line in text.splitlines():
        if listed := _LISTED.match(line):
            yield listed["item"].strip(" \t\"'“”‘’,*")
        elif quoted := _QUOTED.match(line):
            yield quoted["item"] or quoted["curly"]


def _clean(items: Iterable[str]) -> list[str]:
    """Items on one line each, without the label "Query 1:"; blank ones left out."""
    return [item for item in (_LABEL.sub("", " ".join(item.split())) for item in items) if item]
