"""Terms of a text in any language: the one function that passages and queries go through.

The text is case-folded and NFKC-normalised, invisible format characters (soft hyphen, joiners) go. A term is then
- a run of letters, digits and combining marks, whole: no stemming, no stopwords, for any language;
- in scripts that do not put spaces between words (and in Korean, whose particles stick to words), every character with
  its marks and every two neighbours: 東京都 gives 東, 東京, 京, 京都, 都.
"""

import hashlib
import unicodedata
from collections.abc import Iterable, Iterator

import numpy as np
import regex

RULES = 1  # raised when `terms` changes: an index of other rules cannot be searched
_UNSPACED = r"\p{Han}\p{Hiragana}\p{Katakana}\p{Hangul}\p{Bopomofo}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}ー々"
_WORD = r"\p{L}\p{N}\p{M}"
_RUNS = regex.compile(
    rf"(?P<unspaced>(?:[[{_UNSPACED}]&&[\p{{L}}\p{{N}}]]\p{{M}}*+)++)|[[{_WORD}]--[[{_UNSPACED}]--\p{{M}}]]++", regex.V1
)
_CHARACTERS = regex.compile(r".\p{M}*+", regex.V1 | regex.DOTALL)
_INVISIBLE = regex.compile(r"[\p{Cf}--\u200b]+", regex.V1)  # a zero-width space does separate words
_ASCII = regex.compile(r"[a-z0-9]++")


def normalised(text: str) -> str:
    """Case-folded, in NFKC, without invisible characters. Offsets change."""
    if text.isascii():
        return text.lower()
    return unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", _INVISIBLE.sub("", text)).casefold())


def runs(text: str) -> Iterator[tuple[str, bool]]:
    """Runs of word characters as they stand in the text, and whether a run's script has no spaces between words."""
    for found in _RUNS.finditer(text):
        yield found[0], found["unspaced"] is not None


def characters(run: str) -> list[str]:
    """The characters of a run, each with its combining marks."""
    return _CHARACTERS.findall(run)


def terms(text: str) -> list[str]:
    """The terms of a text in their order, repeated as they repeat."""
    if text.isascii():
        return _ASCII.findall(text.lower())
    found: list[str] = []
    for run, unspaced in runs(normalised(text)):
        if not unspaced:
            found.append(run)
            continue
        single = characters(run)
        for character, following in zip(single, [*single[1:], ""], strict=True):
            found.append(character)
            if following:
                found.append(character + following)
    return found


def term_keys(words: Iterable[str]) -> np.ndarray:
    """A term's number in every shard, known without a shared vocabulary: uint64 [n], the first 8 bytes of its blake2b.

    Among 10^8 different terms a collision has probability 3e-4; two terms that collide count as one, in all shards.
    """
    digests = b"".join(hashlib.blake2b(w.encode("utf-8", "surrogatepass"), digest_size=8).digest() for w in words)
    return np.frombuffer(digests, "<u8").astype(np.uint64)
