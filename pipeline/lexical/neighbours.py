"""Sentences around the hits of an overlap search: ELITE's first class and others (arXiv 2505.11908 and its code)."""

import re
from bisect import bisect_right
from collections.abc import Iterable, Sequence

from pipeline.lexical.overlap import Overlap, Sentences


def first_class(hits: Sequence[Overlap], most: int) -> list[int]:
    """Sentences tied at the highest overlap, the first `most` of them in the order of the hits (best first)."""
    best = hits[0].score if hits else 0
    return [hit.sentence for hit in hits if hit.score == best][:most]


def deep_side(budget: int, first: int) -> int:
    """Sentences taken on each side of each of `first` first-class hits: ((budget // first) - 1) // 2, at least 0.

    The budget is shared out and counts the hit itself. With many ties a first-class hit may so get fewer neighbours
    than any other: 10 for 5 of them is 0 on each side. That is the published rule.
    """
    return max(0, (budget // first - 1) // 2) if first else 0


def expanded(sentences: Sentences, hits: Sequence[Overlap], first: Iterable[int], deep: int, side: int) -> set[int]:
    """Numbers of the hits and of their neighbours, `deep` on each side of the `first` ones, `side` of others.

    Neighbours are of the same text: an expansion stops where a page or passage ends.
    """
    wide, found = set(first), set[int]()
    for hit in hits:
        reach = deep if hit.sentence in wide else side
        low, high = bounds(sentences, hit.sentence)
        found |= set(range(max(low, hit.sentence - reach), min(high, hit.sentence + reach + 1)))
    return found


def bounds(sentences: Sentences, sentence: int) -> tuple[int, int]:
    """(first, after last) sentence of the text that a sentence belongs to."""
    source = sentences.place(sentence)[0]
    return sentences.first(source), sentences.first(source + 1)


def runs(sentences: Sentences, chosen: Iterable[int]) -> list[tuple[int, int]]:
    """(first, last) of every run of neighbouring sentences within one text, ascending."""
    found: list[tuple[int, int]] = []
    for number in sorted(chosen):
        if found and number == found[-1][1] + 1 and bounds(sentences, number)[0] != number:
            found[-1] = (found[-1][0], number)
        else:
            found.append((number, number))
    return found


def headings(sentences: Sentences, pattern: str) -> list[int]:
    """Numbers of the sentences whose beginning the pattern matches: a book's chapter headings."""
    heading = re.compile(pattern)
    return [number for number in range(len(sentences)) if heading.match(sentences.text(number))]


def heading_of(sentence: int, among: Sequence[int]) -> int | None:
    """The last of the ascending headings that stands at or before a sentence."""
    place = bisect_right(among, sentence)
    return among[place - 1] if place else None
