"""Keywords as models write them."""

import re
from collections.abc import Iterable

from pipeline.completions import read_queries, without_thinking
from pipeline.lexical.overlap import query_words


def read_keywords(text: str, most: int) -> list[str]:
    """The first `most` different keywords of a completion: a list however it is written, else words between commas."""
    found, _ = read_queries(text)
    if not found:
        line = without_thinking(text).strip("[]{} \t\r\n")
        found = [part.strip(" \"'“”.") for part in line.split(",")] if "," in line and "\n" not in line else []
    return distinct(word for word in found if query_words(word))[:most]


def read_keyword(said: str) -> str | None:
    """The keyword in a completion: the first of a list, what is quoted, or the whole of a line of at most 4 words."""
    said = without_thinking(said)
    quoted = re.search(r"[\"“]([^\"“”]+)[\"”]", said)
    short = said if said and "\n" not in said and len(said.split()) <= 4 else ""
    found = [*read_keywords(said, 1), *([quoted[1]] if quoted else []), short]
    return found[0].strip(" \t\r\n\"'“”‘’.,;:!?*") or None


def distinct(words: Iterable[str]) -> list[str]:
    """The words in their order, those that differ in letter case alone once, as first written."""
    first: dict[str, str] = {}
    for word in words:
        first.setdefault(word.casefold(), word)
    return list(first.values())
