"""Texts are stored once, and spans are counted as JavaScript counts."""

import base64
import gzip
import json

from hypothesis import given
from hypothesis import strategies as st

from pipeline.report.texts import BLOCK, Texts, packed


def test_a_text_is_stored_once_and_kept_ones_come_first() -> None:
    texts = Texts()
    assert [texts.add("other", False), texts.add("kept", True), texts.add("other", True)] == [0, 1, 0]
    assert list(texts.blocks()) == [([1], ["kept"]), ([0], ["other"])]
    assert list(Texts().blocks()) == []


def test_blocks_are_bounded() -> None:
    texts = Texts()
    for letter in "abcde":
        texts.add(letter * (BLOCK // 2), True)
    assert [len(numbers) for numbers, _ in texts.blocks()] == [2, 2, 1]


@given(st.text(), st.data())
def test_spans_are_in_utf_16_units(text: str, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, len(text)))
    texts = Texts()
    _, first, last = texts.reference(texts.add(text, True), start, end)
    assert text.encode("utf-16-le")[2 * first : 2 * last].decode("utf-16-le") == text[start:end]


@given(st.text(alphabet=st.characters(codec=None)))
def test_packing_keeps_any_text_and_looks_like_none(text: str) -> None:
    data = packed([text])
    assert set(data) <= set("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/=")
    assert json.loads(gzip.decompress(base64.b64decode(data))) == [text]
    assert packed([text]) == data
