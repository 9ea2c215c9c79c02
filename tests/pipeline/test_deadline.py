import pyarrow as pa
import pytest

from pipeline.deadline import unanswered
from pipeline.execute import declared
from pipeline.liverag import answer_line
from pipeline.parts import is_undone, out_of_time
from pipeline.prompts import load_prompt
from pipeline.stages.answer import Answer
from pipeline.stages.search import Search
from tests.stubs import questions

SEARCH = Search(index="plaid", k=3, queries="question", into="passages")
ANSWER = Answer(llm="a", prompt=load_prompt("closed_book"), max_words=5, abstain_text="No idea.")


def test_abstaining_rows_are_answers_that_are_done_again() -> None:
    table = unanswered(questions("x", "y"), [SEARCH, ANSWER], "abstain", "110m")
    assert table.schema == declared([SEARCH, ANSWER])
    for row, question in zip(table.to_pylist(), "xy", strict=True):
        assert (row["question"], row["answer"], row["finish_reason"]) == (question, "No idea.", "deadline")
        assert row["error"] is row["passages"] is None
        assert out_of_time(row)
        assert is_undone(row)
        line = answer_line(row, 1)
        assert line == {"id": 1, "question": question, "passages": [], "final_prompt": "", "answer": "No idea."}


@pytest.mark.parametrize(("stages", "policy"), [([SEARCH, ANSWER], "fail"), ([SEARCH], "abstain")])
def test_failing_rows_and_systems_that_write_no_answers(stages: list, policy: str) -> None:
    (row,) = unanswered(questions("x"), stages, policy, "110m").to_pylist()  # type: ignore[arg-type]
    assert row["error"] == {"stage": "deadline", "kind": "deadline", "message": "not answered within 110m"}
    assert row.get("answer") is None
    assert is_undone(row)


def test_rows_that_were_reached_are_done() -> None:
    done = {"error": None, "trace": [{"stage": "answer"}]}
    assert not is_undone(done)
    assert is_undone(done | {"error": {"stage": "answer"}})
    assert pa.types.is_string(declared([ANSWER]).field("answer").type)
