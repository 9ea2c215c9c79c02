"""Where the sentences of a text start, found by array operations over blocks of its characters."""

import re

import numpy as np

_BLOCK = 1 << 17  # characters looked at together: they fit into a processor's cache
_STEPS = 8  # of white space after an end are skipped by arrays; longer gaps are few
# End a sentence with no space after them: Chinese . ! ?, Arabic ?, Urdu ., Hindi . and double ., Amharic .
_CLOSED = "。！？؟۔।॥።"
_LINE = 10
SENTENCES = 1  # raised when a text would be cut into other sentences
_VISIBLE = re.compile(r"\S")


def sentence_starts(text: str) -> np.ndarray:
    """Offsets of sentences' first characters, ascending: uint32 [n] (uint64 for texts of 2^32 characters or more).

    A sentence ends at . ! or ? with white space after it, at 。！？ and their like (_CLOSED), and at a blank line.
    White space alone is none.
    """
    found, gaps = list[np.ndarray](), [0]
    for first in range(0, len(text), _BLOCK):
        block = text[first : first + _BLOCK + _STEPS + 3]
        near, far = _block_starts(_codes(block), [ord(mark) for mark in _CLOSED if mark in block])
        found.append(near + first)
        gaps += (far + first).tolist()
    starts = np.unique(np.concatenate([*found, _visible(text, gaps)]))
    return starts[starts < len(text)].astype(np.uint32 if len(text) < 2**32 else np.uint64)


def _codes(text: str) -> np.ndarray:
    """Code points, uint8 where all are ASCII, else uint32; a visible character and two more stand after the last."""
    if text.isascii():
        return np.frombuffer(f"{text}...".encode("ascii"), np.uint8)
    return np.frombuffer(f"{text}...".encode("utf-32-le", "surrogatepass"), np.uint32)


def _block_starts(codes: np.ndarray, closed: list[int]) -> tuple[np.ndarray, np.ndarray]:
    """For the sentences that end in the block's first _BLOCK characters: where the next ones start, and, where too much
    white space follows, some place in it."""
    block = codes[: min(_BLOCK, len(codes) - 3)]
    marks = (block == 46) | (block == 33) | (block == 63) | (block == _LINE)
    for mark in closed:
        marks |= block == mark
    ends = np.flatnonzero(marks)
    kind, following = codes[ends], codes[ends + 1]
    blank = (following == _LINE) | ((following == 13) & (codes[ends + 2] == _LINE))
    cuts = ends[np.where(kind == _LINE, blank, _white(following) | (kind > 127))] + 1
    for _ in range(_STEPS):
        white = _white(codes[cuts])
        if not white.any():
            break
        cuts += white
    white = _white(codes[cuts])
    return cuts[~white], cuts[white]


def _white(codes: np.ndarray) -> np.ndarray:
    """Which of these characters are white space."""
    found = codes <= 32
    if codes.dtype != np.uint8:
        found |= (codes == 0xA0) | (codes == 0x3000) | ((codes >= 0x2000) & (codes <= 0x200A))
        found |= (codes == 0x85) | (codes == 0x2028) | (codes == 0x2029)
    return found


def _visible(text: str, places: list[int]) -> np.ndarray:
    """The first visible character at or after each of the ascending places, int64; none where none follows."""
    found = [-1]
    for place in places:
        if place > found[-1]:  # else the gap it lies in has been crossed
            match = _VISIBLE.search(text, place)
            if match is None:
                break
            found.append(match.start())
    return np.array(found[1:], np.int64)
