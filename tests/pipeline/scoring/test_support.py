import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.scoring.support import evidence_of, sentence_support, support
from tests.stubs import hit, snippet

TEXT = "The Nile flows through Egypt for 1500 kilometres into the Mediterranean Sea."


@pytest.mark.parametrize(
    ("answer", "share"),
    [
        ("The Nile flows into the Mediterranean Sea.", 1.0),  # nile, flows, mediterranean, sea
        ("The Nile flows into the Baltic Sea.", 1.0),  # 3 of 4 words, the rule's edge
        ("The Amazon flows into the Baltic Sea.", 0.0),  # 2 of 4
        ("The Nile flows through Egypt for 1600 kilometres.", 0.0),  # a number that is not there
        ("The Nile flows through Egypt. It is red.", 0.5),
        ("It is.", None),
        ("", None),
    ],
)
def test_the_rule_by_hand(answer: str, share: float | None) -> None:
    assert support(answer, [TEXT]) == share


def test_one_item_has_to_support_a_sentence_alone() -> None:
    assert support("Nile Egypt Sudan Kenya.", ["Nile Egypt", "Sudan Kenya"]) == 0
    assert support("Nile Egypt Sudan Kenya.", ["Nile Egypt", "Sudan Kenya"], minimum=0.5) == 1
    assert support("Nile.", []) == 0


def test_sentences_come_back_in_order() -> None:
    assert sentence_support("The Nile. Is it? Mars!", [TEXT]) == [
        ("The Nile.", True),
        ("Is it?", None),
        ("Mars!", False),
    ]


def test_evidence_is_kept_snippets_before_passages() -> None:
    row = {"snippets": [snippet("a"), snippet("b", kept=False)], "passages": [hit(1)], "pairs": None}
    assert [item["text"] for item in evidence_of(row)] == ["a"]
    assert [item["text"] for item in evidence_of({"passages": [hit(1, "p")]})] == ["p"]
    assert evidence_of({}) == []


@given(st.text(), st.lists(st.text(), max_size=3))
def test_more_evidence_never_supports_less(answer: str, texts: list[str]) -> None:
    less, more = support(answer, texts[:1]), support(answer, texts)
    assert (less is None) == (more is None)
    assert less is None or more is None or 0 <= less <= more <= 1
    assert support(answer, [answer]) in (None, 1.0)
