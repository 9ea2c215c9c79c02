"""Counting surface forms is exact: whole words, letter case aside, nothing twice."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.lexical.forms import count_forms


@pytest.mark.parametrize(
    ("text", "forms", "count"),
    [
        ("Whale, whales; WHALE! Whaling.", ["whale", "whales"], 3),
        ("Captain Ahab. Ahab\nsaid: captain\n  Ahab", ["Ahab", "Captain Ahab"], 3),
        ("narwhal", ["whal"], 0),
        ("The U.S. and the U.S.A., not US", ["U.S."], 1),
        ("C++ or C", ["C++"], 1),
        ("an ice-axe, ice", ["ice"], 2),
        ("Žižka žižka", ["ŽIŽKA"], 2),
        ("a.b axb", ["a.b"], 1),
        ("", ["x"], 0),
    ],
)
def test_by_hand(text: str, forms: list[str], count: int) -> None:
    assert count_forms([text], forms) == count


def test_texts_add_up_and_forms_given_twice_do_not() -> None:
    assert count_forms(["a fox", "FOX foxes"], ["fox", "Fox", " fox "]) == 2


@given(st.lists(st.sampled_from(["cat", "cats", "Cat", "concat", "dog", "cat-flap"]), max_size=30))
def test_the_same_as_word_boundaries(words: list[str]) -> None:
    text = " ".join(words)
    assert count_forms([text], ["cat", "cats"]) == len(re.findall(r"\b(?:cats|cat)\b", text, re.IGNORECASE))


def test_no_form_is_refused() -> None:
    with pytest.raises(ValueError, match="no form"):
        count_forms(["text"], [" "])
