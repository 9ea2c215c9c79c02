"""write_hypothetical: a query of the question and an answer from memory."""

from typing import Any

import pyarrow as pa

from pipeline.completions import seed
from pipeline.env import Completion
from pipeline.stages.write_hypothetical import WriteHypothetical
from tests.stubs import StubEnv, StubLLM, notes, questions, ready, said


def run(llm: StubLLM, *texts: str, **settings: Any) -> pa.Table:
    config = {"llm": "drafter", "prompt": "hypothetical_answer", "into": "query", **settings}
    return ready(WriteHypothetical.model_validate(config), StubEnv(llm=llm))(questions(*texts))


def test_the_question_and_the_answer_are_one_query() -> None:
    llm = StubLLM(lambda request: " because. ")
    after = run(llm, "why?", "how?", max_tokens=9)
    assert after["query"].to_pylist() == ["why?\nbecause.", "how?\nbecause."]
    ((first, second),) = llm.batches
    assert "why?" in said(first)
    assert (first.seed, second.seed, first.max_tokens) == (
        seed("write_hypothetical", "q0"),
        seed("write_hypothetical", "q1"),
        9,
    )
    assert run(llm, "why?", with_question=False)["query"].to_pylist() == ["because."]


def test_a_model_that_fails_leaves_the_question() -> None:
    failed = run(StubLLM(lambda request: Completion("", "p", "error", error="too long")), "why?", with_question=False)
    silent = run(StubLLM(lambda request: "<think>hm"), "why?")
    for after, reason in ((failed, "generation error"), (silent, "empty")):
        assert after["query"].to_pylist() == ["why?"]
        assert notes(after) == [[f"hypothetical: {reason}", "hypothetical: fallback to the question"]]
        assert after["error"].to_pylist() == [None]
