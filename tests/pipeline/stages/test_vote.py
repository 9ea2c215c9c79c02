"""vote: who wins, how ties break, and that every vote is drawn by question and number alone."""

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from pipeline.completions import seed
from pipeline.env import ChatRequest, Completion
from pipeline.schema import PASSAGE
from pipeline.stages.answer import Answer
from pipeline.stages.vote import Vote, elected, option_letter
from tests.stubs import StubEnv, StubLLM, hit, notes, questions, ready

CONFIG = {"llm": "voter", "prompt": "report", "evidence": "items", "max_words": 20}


def run(replies: list[Any], rows: int = 1, **settings: Any) -> tuple[StubLLM, pa.Table]:
    """Vote `n` of every question gets `replies[n]`."""
    numbers = {seed(f"vote {n}", f"q{row}"): n for row in range(rows) for n in range(len(replies))}
    again = {number + 1: n for number, n in numbers.items()}
    llm = StubLLM(lambda request: replies[(numbers | again)[request.seed]])
    table = questions(*["who?"] * rows, items=([[hit(1)]] * rows, pa.list_(PASSAGE)))
    stage = Vote.model_validate({**CONFIG, "voter_num": len(replies), **settings})
    return llm, ready(stage, StubEnv(llm=llm))(table)


def test_the_majority_of_normalised_answers_in_its_first_spelling() -> None:
    llm, after = run(["Lyon", "Paris.", "the paris", "Nice", "PARIS"])
    (row,) = after.to_pylist()
    assert row["answer"] == "Paris."
    assert row["confidence"] == pytest.approx(3 / 5)
    assert [vote["answer"] for vote in row["votes"]] == ["Lyon", "Paris.", "the paris", "Nice", "PARIS"]
    assert [vote["key"] for vote in row["votes"]] == ["lyon", "paris", "paris", "nice", "paris"]
    assert [vote["agreement"] for vote in row["votes"]] == [0, 0.5, 0.5, 0, 0.5]
    assert [len(batch) for batch in llm.batches] == [5]
    assert row["trace"][-1]["calls"] == 5
    assert row["trace"][-1]["generated_tokens"] == 6
    assert row["trace"][-1]["kept"] == 1


def test_without_a_majority_the_medoid_wins() -> None:
    # F1: "red fox"~"red wolf" 1/2, "red fox"~"grey fox" 1/2, "red wolf"~"grey fox" 0; "owl" shares nothing.
    _, after = run(["owl", "red wolf", "red fox", "grey fox"])
    (row,) = after.to_pylist()
    assert row["answer"] == "red fox"
    assert row["confidence"] == pytest.approx(1 / 4)
    assert [vote["agreement"] for vote in row["votes"]] == pytest.approx([0, 1 / 6, 1 / 3, 1 / 6])


@pytest.mark.parametrize(
    ("keys", "winner", "share"),
    [
        (["a", "b"], 0, 1 / 2),
        (["b", "c", "c", "b"], 0, 1 / 2),  # equal groups, equal agreement: voted for first
        (["x", "c d", "c", "x"], 0, 1 / 2),  # the larger group, though others agree more
        ([None, "b", "a"], 1, 1 / 3),
        ([None, None], 0, 0),
        (["a"], 0, 1),
    ],
)
def test_ties(keys: list[str | None], winner: int, share: float) -> None:
    assert elected(keys)[:2] == (winner, pytest.approx(share))


def test_of_equal_groups_the_one_that_agrees_more() -> None:
    # x and "red fox" have two votes each; "red wolf" is on the fox's side.
    winner, share, agreements = elected(["x", "x", "red fox", "red fox", "red wolf"])
    assert (winner, share) == (2, 2 / 5)
    assert agreements[0] == pytest.approx(1 / 4)
    assert agreements[2] == pytest.approx((1 + 1 / 2) / 4)


@given(st.lists(st.sampled_from(["b", "c", "b c", "c d e", None]), min_size=1, max_size=8))
def test_no_group_is_larger_than_the_winners(keys: list[str | None]) -> None:
    winner, share, _ = elected(keys)
    votes = [key for key in keys if key is not None]
    largest = max((votes.count(key) for key in votes), default=0)
    assert share == pytest.approx(largest / len(keys))
    assert keys[winner] is None or votes.count(keys[winner]) == largest
    assert keys[winner] is None or keys.index(keys[winner]) == winner


@pytest.mark.parametrize(
    ("answer", "letter"),
    [
        ("B", "B"),
        ("(c) no. The answer is C.", "C"),
        ("**Answer: D**", "D"),
        ("A is tempting, yet the answer is (B)", "B"),
        ("A) whale\nB) ship\nI choose option A", "A"),
        ("A whale.", None),
        ("Because of Ahab", None),
        ("Answer: Ahab", None),
        ("E", None),
        ("", None),
    ],
)
def test_letters_of_options(answer: str, letter: str | None) -> None:
    assert option_letter(answer, "ABCD") == letter


def test_letters_are_voted_on_and_are_the_answer() -> None:
    _, after = run(["Hm. The answer is B", "(A)", "no idea", "B)"], letters="ABCD")
    (row,) = after.to_pylist()
    assert row["answer"] == "B"
    assert row["confidence"] == pytest.approx(2 / 4)
    assert [vote["key"] for vote in row["votes"]] == ["B", "A", None, "B"]
    assert notes(after) == [["vote: 1 of 4 not counted"]]


def test_a_failed_vote_is_recorded_and_not_counted() -> None:
    _, after = run([Completion("", "p", "error", error="too long"), "Oslo", "Oslo"])
    (row,) = after.to_pylist()
    assert (row["answer"], row["error"]) == ("Oslo", None)
    assert row["confidence"] == pytest.approx(2 / 3)
    assert row["votes"][0] == {"answer": None, "key": None, "agreement": None}


def test_only_failed_votes_are_the_rows_error() -> None:
    _, after = run([Completion("", "p", "error", error="too long")] * 2)
    assert after["error"].to_pylist() == [{"stage": "vote", "kind": "generation", "message": "too long"}]


def test_empty_votes_are_asked_again_and_then_not_counted() -> None:
    llm, after = run(["", "Oslo"])
    assert [len(batch) for batch in llm.batches] == [2, 1]
    assert after["answer"].to_pylist() == ["Oslo"]
    assert notes(after) == [["answer: asked again", "answer: empty", "vote: 1 of 2 not counted"]]
    assert run(["", ""])[1]["answer"].to_pylist() == [""]


def test_without_evidence_nobody_votes() -> None:
    llm = StubLLM()
    table = questions("who?", items=([[]], pa.list_(PASSAGE)))
    after = ready(Vote.model_validate(CONFIG), StubEnv(llm=llm))(table)
    (row,) = after.to_pylist()
    assert (row["answer"], row["votes"], row["confidence"]) == ("I don't know.", [], None)
    assert llm.batches == []


def test_seeds_come_from_question_and_vote_alone() -> None:
    llm, _ = run(["x", "y", "z"], rows=2)
    seeds = [request.seed for request in llm.batches[0]]
    assert seeds == [seed(f"vote {n}", f"q{row}") for row in range(2) for n in range(3)]
    assert len(set(seeds)) == 6
    assert {request.temperature for request in llm.batches[0]} == {0.7}


def test_one_vote_is_an_answer_and_may_be_greedy() -> None:
    _, after = run(["Oslo"], temperature=0.0)
    table = questions("who?", items=([[hit(1)]], pa.list_(PASSAGE)))
    plain = ready(Answer.model_validate(CONFIG), StubEnv(llm=StubLLM(lambda request: "Oslo")))(table)
    for column in ("answer", "final_prompt", "finish_reason"):
        assert after[column] == plain[column]
    assert after["confidence"].to_pylist() == [1.0]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"temperature": 0.0}, "makes all 10 votes equal"),
        ({"voter_num": 0}, "greater than 0"),
        ({"letters": "A"}, "pattern"),
    ],
)
def test_settings_that_make_no_sense(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        Vote.model_validate({**CONFIG, **settings})


def test_a_question_is_voted_on_alike_alone_and_among_others() -> None:
    def reply(request: ChatRequest) -> str:
        return f"answer {(request.seed or 0) % 3}"

    table = questions("a?", "b?", "c?", items=([[hit(n)] for n in range(3)], pa.list_(PASSAGE)))
    stage = Vote.model_validate({**CONFIG, "voter_num": 7})
    together = ready(stage, StubEnv(llm=StubLLM(reply)))(table)
    for order in ([1], [2, 0, 1]):
        apart = ready(stage, StubEnv(llm=StubLLM(reply)))(table.take(order))
        for column in ("answer", "votes", "confidence"):
            assert apart[column].to_pylist() == together[column].take(order).to_pylist()
