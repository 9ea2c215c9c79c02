"""Word-overlap search over the sentences of texts, with no index (the retrieval of ELITE, arXiv 2505.11908).

A sentence's score is the number of distinct query words it holds, letter case aside. Preparing a text finds where its
sentences start and keeps nothing else; a search scans the text for each word. Ours, where the paper is silent: a
sentence also ends at a full stop of Chinese or Japanese and at a blank line, and `STOPWORDS`.
"""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from pipeline.lexical.sentences import sentence_starts
from pipeline.lexical.terms import characters, runs

_STOPWORDS = """
a about after all also am an and any are as at be because been before being but by can could did do does for from had
has have he her him his how i if in into is it its just may me might more most my no not of on or our out over shall
she should so some such than that the their them then there these they this those to too up us was we were what when
where which while who whom whose why will with would you your
"""
STOPWORDS = frozenset(_STOPWORDS.split())


@dataclass(frozen=True)
class Overlap:
    """A sentence that was found. `start` and `stop`: characters in text number `source` of those given."""

    sentence: int
    score: int
    source: int
    start: int
    stop: int


class Sentences:
    """The sentences of one text, or of several in order (pages of a document, passages of a search), numbered through.

    Beside the texts themselves it holds 4 bytes a sentence (8 in texts of more than 2^32 characters).
    """

    def __init__(self, texts: str | Sequence[str]) -> None:
        self._texts = [texts] if isinstance(texts, str) else list(texts)
        self._starts = [sentence_starts(text) for text in self._texts]
        self._first = np.concatenate([[0], np.cumsum([len(starts) for starts in self._starts])]).astype(np.int64)

    def __len__(self) -> int:
        return int(self._first[-1])

    @property
    def nbytes(self) -> int:
        """Bytes held beside the texts."""
        return sum(starts.nbytes for starts in self._starts) + self._first.nbytes

    def first(self, source: int) -> int:
        """Number of the first sentence of a text, or of the one that would follow the last text's."""
        return int(self._first[source])

    def place(self, sentence: int) -> tuple[int, int, int]:
        """(number of the text, start, stop) of a sentence, white space around it left out."""
        if not 0 <= sentence < len(self):
            raise IndexError(f"sentence {sentence} of {len(self)}")
        source = int(np.searchsorted(self._first, sentence, side="right")) - 1
        starts, number = self._starts[source], sentence - int(self._first[source])
        start = int(starts[number])
        stop = int(starts[number + 1]) if number + 1 < len(starts) else len(self._texts[source])
        return source, start, start + len(self._texts[source][start:stop].rstrip())

    def text(self, sentence: int) -> str:
        source, start, stop = self.place(sentence)
        return self._texts[source][start:stop]

    def search(self, keywords: str | Sequence[str], k: int) -> list[Overlap]:
        """The k sentences that hold most of the keywords' words, at least one; of equal scores the earlier first."""
        scores = self.scores(keywords)
        found = np.flatnonzero(scores)
        best = found[np.argsort(-scores[found], kind="stable")[: max(0, k)]]
        return [Overlap(int(sentence), int(scores[sentence]), *self.place(int(sentence))) for sentence in best]

    def scores(self, keywords: str | Sequence[str]) -> np.ndarray:
        """int32 [sentences]: distinct query words that each holds."""
        words = query_words(keywords if isinstance(keywords, str) else " ".join(keywords))
        scores = np.zeros(len(self), np.int32)
        for source, (first, starts) in enumerate(zip(self._first, self._starts, strict=False)):
            text = lowered(self._texts[source])
            places = starts.tolist()
            for word, whole in words.items():
                holding = np.fromiter(sentences_with(text, places, word, whole), np.int64)
                scores[first + holding] += 1
        return scores


def lowered(text: str) -> str:
    """Lower case, character by character: offsets stay. (İ alone would become two characters.)"""
    return text.lower() if text.isascii() else text.replace("İ", "i").lower()


def query_words(keywords: str) -> dict[str, bool]:
    """Distinct words to look for -> whether a whole word is meant. Scripts without spaces give pairs of neighbours,
    which are looked for anywhere; a character that stands alone is looked for itself."""
    words: dict[str, bool] = {}
    for run, unspaced in runs(lowered(keywords)):
        if not unspaced:
            if run not in STOPWORDS:
                words[run] = True
            continue
        single = characters(run)
        words |= dict.fromkeys((a + b for a, b in pairwise(single)) if len(single) > 1 else single, False)
    return words


def sentences_with(text: str, starts: list[int], word: str, whole: bool) -> Iterator[int]:
    """Numbers of the sentences that hold `word`, ascending; `whole`: with no part of a longer word on either side."""
    at = text.find(word)
    while at >= 0:
        following = at + len(word)
        inside = whole and (_joins(text[max(0, at - 1) : at + 1]) or _joins(text[following - 1 : following + 1]))
        if not inside:
            number = bisect_right(starts, at)  # of the next sentence, where the search goes on
            yield number - 1
            following = starts[number] if number < len(starts) else len(text)
        at = text.find(word, following)


def _joins(pair: str) -> bool:
    """Whether two neighbouring characters belong to one word."""
    if len(pair) < 2:
        return False
    if pair.isascii():
        return pair.isalnum()
    return len(list(runs(pair))) == 1 and len(next(runs(pair))[0]) == 2
