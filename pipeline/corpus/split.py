"""Cutting documents into passages: character spans [start, stop) into the original text."""

import copy
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal, Protocol

from pipeline.errors import InputError

Unit = Literal["tokens", "characters", "sentences"]
Span = tuple[int, int]


class Splitter(Protocol):
    """Spans come in text order, are never blank, and carry no outer whitespace; a text without any gives []."""

    def split(self, text: str) -> list[Span]: ...
    def split_batch(self, texts: Sequence[str]) -> list[list[Span]]: ...


class CharacterSplitter:
    """Sliding windows of `size` characters that share `overlap` characters; each brings characters not seen before."""

    def __init__(self, size: int = 1000, overlap: int = 100) -> None:
        _check(size, overlap)
        self.size = size
        self.overlap = overlap

    def split(self, text: str) -> list[Span]:
        length = len(text.rstrip())
        spans: list[Span] = []
        for start in range(0, length, self.size - self.overlap):
            stop = min(start + self.size, length)
            span = stripped(text, start, stop)
            if span and (not spans or span[1] > spans[-1][1]):
                spans.append(span)
            if stop == length:
                break
        return spans

    def split_batch(self, texts: Sequence[str]) -> list[list[Span]]:
        return [self.split(text) for text in texts]


class TokenSplitter:
    """Windows of at most `size` tokens of a checkpoint's tokenizer, special tokens not counted.

    Windows end between words, so a passage tokenises as it did within its document; only a word longer than the
    window is cut inside, and then its pieces are tokenised again and shortened until they fit or are one token of
    the document or one character. At most `overlap` tokens, whole words of them, are shared by neighbours.

    With overlap 0 the spans hold every character of the text but outer whitespace: what the normaliser drops (accents
    apart from their letter, control characters) stays with the token before it. Spans index the original text however
    much the normaliser changes it. A text without a single token has no spans.

    Raises InputError where the folder holds no valid tokenizer.json.
    """

    def __init__(self, tokenizer_folder: Path, size: int = 450, overlap: int = 0) -> None:
        _check(size, overlap)
        self.size = size
        self.overlap = overlap
        self._tokenizer = _load(tokenizer_folder)

    def split(self, text: str) -> list[Span]:
        return self.split_batch([text])[0]

    def split_batch(self, texts: Sequence[str]) -> list[list[Span]]:
        # Not encode_batch_fast: it is fast because it leaves offsets out.
        encodings = self._tokenizer.encode_batch(list(texts), add_special_tokens=False)
        return [list(self._spans(text, encoding)) for text, encoding in zip(texts, encodings, strict=True)]

    def _spans(self, text: str, encoding: Any) -> Iterator[Span]:
        words, edges = encoding.word_ids, self._edges(text, encoding)
        count = len(words)
        first = 0
        while first < count:
            last = self._end(text, words, edges, first)
            if span := stripped(text, edges[first], edges[last]):
                yield span
            if last == count:
                return
            following = max(last - self.overlap, first + 1)
            while following < last and _inside_word(words, following):
                following += 1
            first = following

    @staticmethod
    def _edges(text: str, encoding: Any) -> list[int]:
        """Token i owns the characters [edges[i], edges[i + 1]): from its start to the next token's; the first also owns
        what comes before it."""
        return [0, *(start for start, _ in encoding.offsets[1:]), len(text)] if len(encoding.offsets) else []

    def _end(self, text: str, words: list[int | None], edges: list[int], first: int) -> int:
        """The token after the longest window from token `first`."""
        last = min(first + self.size, len(words))
        cut = last
        while cut > first and _inside_word(words, cut):
            cut -= 1
        if cut == first or _inside_word(words, first):
            return self._fit(text, edges, first, last if cut == first else cut)
        return cut

    def _fits(self, text: str, words: list[int | None], edges: list[int], first: int, last: int) -> bool:
        """Whether tokens [first, last) have at most `size` tokens when tokenised by themselves."""
        if _inside_word(words, first) or _inside_word(words, last):
            return len(self._tokenizer.encode(text[edges[first] : edges[last]], add_special_tokens=False)) <= self.size
        return last - first <= self.size

    def head(self, text: str, tokens: int) -> str:
        """What the first `tokens` tokens of a text cover, cut as passages are."""
        cutter = copy.copy(self)
        cutter.size, cutter.overlap = tokens, 0
        encoding = self._tokenizer.encode(text, add_special_tokens=False)
        span = next(TokenSplitter._spans(cutter, text, encoding), (0, 0))
        return text[slice(*span)]

    def _fit(self, text: str, edges: list[int], first: int, last: int) -> int:
        """Shorten a window that starts or ends inside a word until it has at most `size` tokens by itself."""
        while last > first + 1:
            piece = text[edges[first] : edges[last]]
            excess = len(self._tokenizer.encode(piece, add_special_tokens=False)) - self.size
            if excess <= 0:
                break
            last = max(first + 1, last - excess)
        return last


def make_splitter(unit: Unit, size: int, overlap: int, tokenizer_folder: Path | None = None) -> Splitter:
    """The splitter an index config asks for; `tokenizer_folder` is needed for tokens and sentences."""
    from pipeline.corpus.split_sentences import SentenceSplitter

    if unit == "characters":
        return CharacterSplitter(size, overlap)
    if unit not in ("tokens", "sentences"):
        raise InputError(f"split.unit is {unit!r}; it can be 'tokens', 'sentences' or 'characters'.")
    if tokenizer_folder is None:
        raise InputError(
            f"split.unit is {unit!r}, but no tokenizer folder is known; name an encoder or use characters."
        )
    kind = TokenSplitter if unit == "tokens" else SentenceSplitter
    return kind(tokenizer_folder, size, overlap)


def _check(size: int, overlap: int) -> None:
    if size < 1 or not 0 <= overlap < size:
        raise InputError(f"split: size {size} with overlap {overlap}; size must be at least 1, overlap 0 to size - 1.")


def _inside_word(words: list[int | None], cut: int) -> bool:
    """Whether a cut before token `cut` parts the tokens of one word; never true at the text's ends."""
    return 0 < cut < len(words) and words[cut] is not None and words[cut] == words[cut - 1]


def stripped(text: str, start: int, stop: int) -> Span | None:
    piece = text[start:stop]
    bare = piece.lstrip()
    start += len(piece) - len(bare)
    stop = start + len(bare.rstrip())
    return (start, stop) if stop > start else None


def _load(folder: Path) -> Any:
    from tokenizers import Tokenizer

    file = Path(folder) / "tokenizer.json"
    if not file.is_file():
        raise InputError(
            f"{folder} has no tokenizer.json; name a checkpoint folder, or write the file there with "
            "transformers' AutoTokenizer.from_pretrained(...).save_pretrained(...)."
        )
    try:
        tokenizer = Tokenizer.from_file(str(file))
    except Exception as error:  # The library raises no class of its own.
        raise InputError(f"{file} is not a tokenizer ({error}); fetch the checkpoint again.") from error
    # A checkpoint's own limit (128 for MiniLM) would silently drop the rest of a document.
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer
