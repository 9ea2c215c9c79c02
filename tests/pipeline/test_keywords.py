"""Keywords are read from whatever a model surrounds them with."""

import pytest

from pipeline.keywords import read_keyword, read_keywords


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('["whale", "ship", "Whale", "white whale"]', ["whale", "ship", "white whale"]),
        ('{"keywords": ["sea", "ship"]}', ["sea", "ship"]),
        ("whale, ship, Ahab", ["whale", "ship", "Ahab"]),
        ("- whale\n- ship", ["whale", "ship"]),
        ('["the", "of", "a"]', []),
        ("whale", []),
        ("<think>a, b</think>sea, leg", ["sea", "leg"]),
        ('["a1", "b2", "c3", "d4"]', ["a1", "b2", "c3"]),
    ],
)
def test_keywords_in_whatever_they_come_in(text: str, words: list[str]) -> None:
    assert read_keywords(text, 3) == words


@pytest.mark.parametrize(
    ("said", "keyword"),
    [
        ("whale", "whale"),
        ("The White Whale.", "The White Whale"),
        ('You should count the word "whale" in it.', "whale"),
        ('["whale", "ship"]', "whale"),
        ("<think>hm</think>**whale**", "whale"),
        ("what should I say now", None),
        (" ... ", None),
    ],
)
def test_a_keyword_however_it_is_said(said: str, keyword: str | None) -> None:
    assert read_keyword(said) == keyword
