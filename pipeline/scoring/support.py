"""Groundedness without a judge: the share of an answer's sentences that a piece of the evidence supports, in [0, 1].

The rule: a sentence is supported if one item of evidence holds at least `MINIMUM` of its distinct content words and all
of its numbers. Content words are terms (`lexical.terms`) that are no `FUNCTION_WORDS`; a number is a term with a digit.
One item, because words gathered from many places say nothing together. A sentence without content words ("Yes.") makes
no statement and is left out. The rule sees words, not meaning: it cannot notice a negation, and misses a paraphrase.
"""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from pipeline.evidence import kept
from pipeline.lexical.sentences import sentence_starts
from pipeline.lexical.terms import terms

MINIMUM = 0.75  # of a sentence's content words; a choice of ours, which `sentence_support` takes as a setting
EVIDENCE = ("snippets", "pairs", "passages")  # columns that an answer could rest on, the narrowest first
_ENGLISH = (
    "a about after all also an and any are as at be because been before but by can could did do does for from had has "
    "have he her his how i if in into is it its may more most no nor not of on one or other our she should so some "
    "such than that the their them then there these they this those to was we were what when where which while who "
    "will with would you your"
)
FUNCTION_WORDS = frozenset(_ENGLISH.split())


def evidence_of(row: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The items that a row's answer could rest on: kept snippets, else pairs, else passages."""
    for column in EVIDENCE:
        if row.get(column) is not None:
            return kept(row[column])
    return []


def sentence_support(answer: str, texts: Sequence[str], minimum: float = MINIMUM) -> list[tuple[str, bool | None]]:
    """(sentence, whether one of the texts supports it; None where it makes no statement), in the answer's order."""
    held = [set(terms(text)) for text in texts]
    starts = [*sentence_starts(answer).tolist(), len(answer)]
    sentences = [answer[first:last].strip() for first, last in pairwise(starts)]
    return [(sentence, _supported(set(terms(sentence)) - FUNCTION_WORDS, held, minimum)) for sentence in sentences]


def support(answer: str, texts: Sequence[str], minimum: float = MINIMUM) -> float | None:
    """Share of the answer's statements that are supported; None where it makes none."""
    judged = [good for _, good in sentence_support(answer, texts, minimum) if good is not None]
    return sum(judged) / len(judged) if judged else None


def _supported(words: set[str], held: Sequence[set[str]], minimum: float) -> bool | None:
    if not words:
        return None
    numbers = {word for word in words if any(character.isdigit() for character in word)}
    return any(numbers <= item and len(words & item) >= minimum * len(words) for item in held)
