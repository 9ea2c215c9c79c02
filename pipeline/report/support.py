"""Which sentences of an answer its evidence supports, by a rule of words: no model, the same for every system."""

from collections.abc import Sequence
from itertools import pairwise

from pipeline.lexical.sentences import sentence_starts
from pipeline.lexical.terms import terms

SHARE = 0.7  # of a sentence's different terms, in one item of evidence
RULE = (
    f"a sentence counts as supported if one item of the evidence has at least {SHARE:.0%} of its different words, "
    "and all of its words with a digit"
)


def judged_sentences(answer: str, evidence: Sequence[str]) -> list[tuple[str, bool]]:
    """The answer's sentences, which joined give the answer, and whether the evidence supports each (`RULE`).

    A rule of words: it sees neither paraphrase nor negation. A sentence without words ("...") is supported.
    """
    starts = sentence_starts(answer).tolist()
    edges = [0, *starts[1:], len(answer)] if starts else [0, len(answer)]
    held = [frozenset(terms(text)) for text in evidence]
    sentences = [answer[first:last] for first, last in pairwise(edges)]
    return [(sentence, _supported(frozenset(terms(sentence)), held)) for sentence in sentences if sentence]


def _supported(wanted: frozenset[str], held: Sequence[frozenset[str]]) -> bool:
    numbers = {term for term in wanted if any(character.isdigit() for character in term)}
    return not wanted or any(len(wanted & one) >= SHARE * len(wanted) and numbers <= one for one in held)
