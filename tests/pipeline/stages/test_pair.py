"""pair: retrieved and generated passages, one to one."""

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from pipeline.schema import PAIR, PASSAGE
from pipeline.stages.answer import Answer
from pipeline.stages.pair import Pair
from tests.stubs import StubEnv, StubLLM, StubScorer, draft, hit, notes, questions, ready, said

Lists = list[tuple[int, int]]  # per question, lengths of the retrieved and the generated list
HUNGARIAN = {"how": "hungarian", "scorer": "judge", "joint_prompt": "question_from_passage"}


def table(lists: Lists, names: list[str] | None = None) -> pa.Table:
    column = pa.list_(PASSAGE)
    found = [[hit(n, f"found {n}") for n in range(size)] for size, _ in lists]
    drafts = [[draft(n) for n in range(size)] for _, size in lists]
    made = questions(*(f"what {n} ?" for n in range(len(lists))), passages=(found, column), drafts=(drafts, column))
    if names:
        made = made.set_column(0, "id", pa.array(names, pa.string()))
    return made


def run(lists: Lists, names: list[str] | None = None, stub: StubScorer | None = None, **settings: Any) -> pa.Table:
    stage = Pair.model_validate({"prompt": "pair", **settings})
    return ready(stage, StubEnv(scorer=stub))(table(lists, names))


def who(after: pa.Table, row: int = 0) -> list[tuple[int | None, int | None]]:
    """(position of the retrieved, of the generated) of each pair."""
    pairs = after["pairs"].to_pylist()[row]
    return [(pair["pid"], None if pair["draft"] is None else -1 - pair["draft"]) for pair in pairs]


def test_rank_pairs_the_best_with_the_best() -> None:
    after = run([(3, 3)])
    assert who(after) == [(0, 0), (1, 1), (2, 2)]
    assert after.schema.field("pairs").type == pa.list_(PAIR)
    first = after["pairs"].to_pylist()[0][0]
    assert first["text"] == "Recalled from memory: draft 0\nFound in a document: found 0"
    assert (first["doc_id"], first["score"]) == ("d0", None)
    assert after["trace"].to_pylist()[0][-1]["kept"] == 3


def test_reversed_pairs_the_best_with_the_worst() -> None:
    assert who(run([(3, 3)], how="reversed")) == [(0, 2), (1, 1), (2, 0)]


@pytest.mark.parametrize("how", ["rank", "reversed", "random"])
def test_of_unequal_lists_the_best_of_each_are_paired(how: str) -> None:
    for sizes in ((5, 2), (2, 5)):
        after = run([sizes], how=how)
        assert sorted(found for found, _ in who(after)) == [0, 1]
        assert sorted(generated for _, generated in who(after)) == [0, 1]
        assert notes(after) == [["pairs: 3 dropped"]]


def test_pad_keeps_what_is_left_over_alone() -> None:
    more, fewer = run([(3, 1)], unequal="pad"), run([(1, 3)], unequal="pad")
    assert who(more) == [(0, 0), (1, None), (2, None)]
    assert who(fewer) == [(0, 0), (None, 1), (None, 2)]
    assert more["pairs"].to_pylist()[0][1]["text"] == "Found in a document: found 1"
    assert fewer["pairs"].to_pylist()[0][2]["text"] == "Recalled from memory: draft 2"
    assert fewer["pairs"].to_pylist()[0][2]["doc_id"] is None
    assert notes(more) == [["pairs: 2 left alone"]]
    assert who(run([(2, 0)], unequal="pad")) == [(0, None), (1, None)]


def test_an_empty_list_leaves_no_pair() -> None:
    for settings in ({}, HUNGARIAN):
        after = run([(0, 3), (3, 0), (0, 0)], **settings)
        assert after["pairs"].to_pylist() == [[], [], []]
        assert after["error"].to_pylist() == [None] * 3


@given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), min_size=1, max_size=5), st.randoms())
def test_random_depends_on_the_question_alone(lists: Lists, shuffle: Any) -> None:
    names = [f"id-{n}" for n in range(len(lists))]
    together = run(lists, names, how="random")
    order = list(range(len(lists)))
    shuffle.shuffle(order)
    shuffled = run([lists[n] for n in order], [names[n] for n in order], how="random")
    for place, n in enumerate(order):
        assert who(shuffled, place) == who(together, n)
        assert who(run([lists[n]], [names[n]], how="random")) == who(together, n)


def test_random_differs_between_questions_and_seeds() -> None:
    lists = [(8, 8)] * 6
    drawn = [who(run(lists, how="random", seed=seed), row) for seed in range(3) for row in range(6)]
    assert len({tuple(pairs) for pairs in drawn}) == 18


def joint(context: str, question: str) -> float:
    """Question 0 likes its pairs crossed, others straight."""
    crossed = ("draft 1" in context) != ("found 1" in context)
    return -1.0 if crossed == (question == "what 0 ?") else -2.0


def test_hungarian_maximises_the_likelihood_of_the_question_given_the_pair() -> None:
    scorer = StubScorer(joint)
    after = run([(2, 2), (2, 3)], stub=scorer, **HUNGARIAN)
    assert who(after, 0) == [(0, 1), (1, 0)]
    assert who(after, 1) == [(0, 0), (1, 1)]
    assert [pair["score"] for pair in after["pairs"].to_pylist()[0]] == [-1.0, -1.0]
    assert len(scorer.batches) == 1
    assert scorer.batches[0][1] == (
        "Passage: Recalled from memory: draft 1\nFound in a document: found 0\n"
        "Write one question that this passage answers.\n",
        "what 0 ?",
    )
    assert [trace[-1]["calls"] for trace in after["trace"].to_pylist()] == [4, 4]
    alone = StubScorer(lambda context, _: joint(context, "what 1 ?"))
    assert who(run([(2, 3)], ["q1"], alone, **HUNGARIAN)) == who(after, 1)


def test_a_pair_too_long_for_the_scorer_is_noted() -> None:
    after = run([(1, 1)], stub=StubScorer(limit=10), **HUNGARIAN)
    assert notes(after) == [["pairs: 1 scored without their beginning"]]


def test_only_hungarian_asks_for_a_model() -> None:
    settings = {"prompt": "pair", "scorer": "s", "joint_prompt": "question_from_passage"}
    assert Pair.model_validate({**settings, "how": "hungarian"}).models() == {"s": "scorer"}
    assert Pair.model_validate(settings).models() == {}
    with pytest.raises(ValidationError, match="hungarian needs scorer and joint_prompt"):
        Pair.model_validate({"prompt": "pair", "how": "hungarian"})


def test_answer_reads_pairs() -> None:
    llm = StubLLM()
    config = {"llm": "a", "prompt": "report_from_pairs", "evidence": "pairs", "max_words": 20}
    after = ready(Answer.model_validate(config), StubEnv(llm=llm))(run([(2, 2), (0, 2)]))
    assert after["answer"].to_pylist() == ["fine", "I don't know."]
    ((request,),) = llm.batches
    assert "Found in a document: found 0\n\nRecalled from memory: draft 1\n" in said(request)
