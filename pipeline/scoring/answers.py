"""Answer metrics: an answer against its gold answers, the best gold counting. Each is in [0, 1].

`golds` is one gold answer or several, at least one. An answer without words scores 0 on every metric.
"""

import re
import string
import unicodedata
from collections import Counter
from collections.abc import Callable, Sequence
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rouge_score.rouge_scorer import RougeScorer

ARTICLES = re.compile(r"\b(a|an|the)\b")
LETTERS = re.compile(r"[^\W_]+")
NULL_RESPONSES = ("I don't know", "I do not know")


def normalise_answer(text: str) -> str:
    """Lower case, without punctuation and English articles, white space single (SQuAD, arXiv 1606.05250, evaluation).

    Punctuation is `string.punctuation`, as there, and any other character Unicode calls punctuation, so that a curly
    apostrophe or a long dash does not turn a right answer into a wrong one (MLQA, arXiv 1910.07475, does the same).
    """
    return " ".join(ARTICLES.sub(" ", text.lower().translate(_WITHOUT_PUNCTUATION)).split())


class _Unpunctuated(dict[int, int | None]):
    """A table for `str.translate`, which is many times faster than a look at each character: filled as they come."""

    def __missing__(self, code: int) -> int | None:
        char = chr(code)
        punctuation = char in string.punctuation or unicodedata.category(char)[0] == "P"
        self[code] = None if punctuation else code
        return self[code]


_WITHOUT_PUNCTUATION = _Unpunctuated()


def exact_match(answer: str, golds: Sequence[str] | str) -> float:
    """1 if the normalised answer equals a normalised gold, else 0 (SQuAD, arXiv 1606.05250)."""
    return _best(lambda gold: float(bool(_words(answer)) and _words(answer) == _words(gold)), golds)


def f1(answer: str, golds: Sequence[str] | str) -> float:
    """Harmonic mean of precision and recall of the answer's normalised words, as bags (SQuAD, arXiv 1606.05250)."""
    return _best(lambda gold: _bag_f1(_words(answer), _words(gold)), golds)


def containment(answer: str, golds: Sequence[str] | str) -> float:
    """1 if a gold's normalised words stand in the answer, next to each other and in order, else 0.

    The accuracy of open-ended question answering (PopQA, arXiv 2212.10511), on whole words: "14" does not contain "4".
    """
    return _best(lambda gold: float(_stands_in(_words(gold), _words(answer))), golds)


def rouge_l(answer: str, golds: Sequence[str] | str) -> float:
    """ROUGE-L F-measure: longest common subsequence of words, precision and recall weighing the same (Lin 2004).

    Computed by rouge-score, without stemming. Words are runs of letters and digits of any script: rouge-score's own
    tokenizer keeps a-z and 0-9 alone, would score a Greek answer 0, and agrees on ASCII text.
    """
    return _best(lambda gold: _rouge().score(gold, answer)["rougeL"].fmeasure, golds)


def abstained(answer: str, texts: Sequence[str] = NULL_RESPONSES) -> bool:
    """Whether an answer declines: it has no words, or begins with the words of a null response.

    A prefix, because models go on to apologise; "I don't know, but it may be Paris" is therefore an abstention too.
    Compared after `normalise_answer`, so case, punctuation and the kind of apostrophe do not matter.
    """
    words = _words(answer)
    return not words or any(start and words[: len(start)] == start for start in map(_words, texts))


def answer_words(answer: str) -> int:
    """Length of an answer in words separated by white space, as the challenge's limits count them."""
    return len(answer.split())


def _best(metric: Callable[[str], float], golds: Sequence[str] | str) -> float:
    # A bare string is one gold: as a sequence it would be its letters.
    return max(map(metric, [golds] if isinstance(golds, str) else golds))


def _words(text: str) -> list[str]:
    """Normalised words; a text that is articles or punctuation alone ("A", "+") keeps itself, so as to equal itself."""
    return normalise_answer(text).split() or text.lower().split()


def _bag_f1(answer: list[str], gold: list[str]) -> float:
    common = (Counter(answer) & Counter(gold)).total()
    return 2 * common / (len(answer) + len(gold)) if common else 0.0


def _stands_in(gold: list[str], answer: list[str]) -> bool:
    # Words have no blanks in them, so a search in the text finds what a search among the words would.
    return len(gold) > 0 and f" {' '.join(gold)} " in f" {' '.join(answer)} "


class _Words:
    """rouge-score's tokenizer interface."""

    def tokenize(self, text: str) -> list[str]:
        return LETTERS.findall(text.lower())


@cache
def _rouge() -> "RougeScorer":
    # rouge-score imports nltk, which takes seconds; ROUGE-L uses none of nltk's downloads.
    from rouge_score.rouge_scorer import RougeScorer

    return RougeScorer(["rougeL"], use_stemmer=False, tokenizer=_Words())
