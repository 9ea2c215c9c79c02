"""Passages of whole sentences."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from pipeline.corpus.split import Span, TokenSplitter, stripped
from pipeline.lexical.sentences import sentence_starts


class SentenceSplitter(TokenSplitter):
    """Sentences packed in order while they have at most `size` tokens together, as LlamaIndex's sentence splitter does.

    A sentence of more tokens is cut as TokenSplitter cuts, and what is left of it is packed with the sentences that
    follow. At most `overlap` tokens, whole sentences of them, are shared by neighbours. Where sentences start is told
    by punctuation and white space alone, in any language (pipeline/lexical/sentences.py). Spans and errors are
    TokenSplitter's.
    """

    def _spans(self, text: str, encoding: Any) -> Iterator[Span]:
        words, edges = encoding.word_ids, self._edges(text, encoding)
        count = len(words)
        # A sentence starts with the first token that starts at or after its first character.
        starts = np.unique(np.searchsorted(edges[:count], sentence_starts(text)))
        stops = np.append(starts[starts > 0], count) if count else starts
        first = done = 0
        while first < count:
            last = self._last_stop(text, words, edges, first, stops) or self._end(text, words, edges, first)
            # With overlap, what is shared and the next sentence may be too long together: then nothing is new.
            if last > done and (span := stripped(text, edges[first], edges[last])):
                yield span
            done = max(done, last)
            again = stops[(stops > first) & (stops < last) & (stops >= last - self.overlap)]
            first = int(again[0]) if len(again) and last < count else last

    def _last_stop(
        self, text: str, words: list[int | None], edges: list[int], first: int, stops: np.ndarray
    ) -> int | None:
        """The furthest end of a sentence that fits into a passage from token `first`; None where none does."""
        for stop in stops[(stops > first) & (stops <= first + self.size)][::-1].tolist():
            if self._fits(text, words, edges, first, stop):
                return stop
        return None
