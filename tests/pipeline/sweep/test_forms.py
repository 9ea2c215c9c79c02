from hypothesis import given
from hypothesis import strategies as st

from pipeline.env import Completion
from pipeline.sweep.forms import keywords, paraphrased, reformed, typos
from tests.stubs import StubLLM, questions


@given(st.text())
def test_typos_repeat_and_touch_letters_only(text: str) -> None:
    spoilt = typos(text)
    assert spoilt == typos(text)
    assert [char for char in spoilt if not char.isalpha()] == [char for char in text if not char.isalpha()]
    assert abs(len(spoilt) - len(text)) <= max(1, len(text) // 12)


def test_typos_of_a_question() -> None:
    question = "Which flower is the national symbol of Nepal?"
    assert typos(question) != question
    assert typos(question).endswith("?")
    assert typos("4 + 4?") == "4 + 4?"


def test_keywords() -> None:
    assert keywords("Which flower is the national symbol of Nepal?") == "flower national symbol nepal"
    assert keywords("Who is it?") == "Who is it?"


def test_a_paraphrase_that_is_none_leaves_the_question() -> None:
    replies = iter(["Said otherwise?", "", "two\nlines", Completion("", "", "error", error="no"), "x" * 500])
    texts = ["a", "b", "c", "d", "e"]
    assert paraphrased(texts, StubLLM(lambda request: next(replies))) == ["Said otherwise?", "b", "c", "d", "e"]


def test_a_table_keeps_all_but_the_question() -> None:
    table = questions("Where is the Acropolis?")
    for form in ("as_given", "keywords", "typos", "paraphrased"):
        new = reformed(table, form, lambda: StubLLM(lambda request: "In which place is it?"))  # type: ignore[arg-type]
        assert new.schema == table.schema
        assert new.drop_columns("question") == table.drop_columns("question")
        assert (new == table) == (form == "as_given")
