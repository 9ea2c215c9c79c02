"""Which sentences count as supported, and that sentences add up to the answer."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.report.support import judged_sentences

EVIDENCE = ["The Mississippi is 3,730 km long.", "Hvannadalshnukur is the highest point of Iceland (2,110 m)."]


@pytest.mark.parametrize(
    ("answer", "supported"),
    [
        ("The highest point of Iceland is Hvannadalshnukur.", True),
        ("THE HIGHEST POINT OF ICELAND!", True),
        ("The highest point of Iceland is 2,111 m.", False),  # a number that is not there
        ("The Mississippi of Iceland is the highest river that is long.", False),  # no single item has 70% of it
        ("The highest mountain in all of Europe is Elbrus.", False),
        ("...", True),
    ],
)
def test_support(answer: str, supported: bool) -> None:
    assert judged_sentences(answer, EVIDENCE) == [(answer, supported)]


def test_sentences_are_judged_one_by_one() -> None:
    judged = judged_sentences("Iceland is high. Bananas are blue. The Mississippi is long.", EVIDENCE)
    assert judged == [("Iceland is high.", False), (" Bananas are blue.", False), (" The Mississippi is long.", True)]
    assert judged_sentences("", EVIDENCE) == []
    assert judged_sentences("Anything.", []) == [("Anything.", False)]


@given(st.text(max_size=200), st.lists(st.text(max_size=50), max_size=3))
def test_sentences_joined_are_the_answer(answer: str, evidence: list[str]) -> None:
    assert "".join(sentence for sentence, _ in judged_sentences(answer, evidence)) == answer
