"""write_queries: what is asked, and what becomes of anything a model may write."""

from typing import Any

import pyarrow as pa
import pytest

from pipeline.completions import seed
from pipeline.env import Completion
from pipeline.schema import PASSAGE
from pipeline.stages.write_queries import WriteQueries
from tests.stubs import StubEnv, StubLLM, hit, notes, questions, ready, said


def run(llm: StubLLM, *texts: str, passages: list | None = None, **settings: Any) -> pa.Table:
    config = {"llm": "writer", "prompt": "research_queries", "n": 2, "into": "queries", **settings}
    columns = {"passages": ([passages] * len(texts), pa.list_(PASSAGE))} if passages is not None else {}
    return ready(WriteQueries.model_validate(config), StubEnv(llm=llm))(questions(*texts, **columns))


@pytest.mark.parametrize(
    ("text", "queries", "outcome"),
    [
        ('["a b", "c d"]', ["a b", "c d"], []),
        ('<think>hm, ["x"]</think>["a", "b"]', ["a", "b"], []),
        ('```json\n["a", "b"]\n```', ["a", "b"], ["queries: repaired"]),
        ('Sure! Here they are: ["a", "b"]. Good luck.', ["a", "b"], ["queries: repaired"]),
        ('["a", "b"', ["a", "b"], ["queries: repaired"]),
        ('[{"query": "a"}, {"query": "b"}]', ["a", "b"], ["queries: repaired"]),
        ('{"queries": ["a", "b"]}', ["a", "b"], ["queries: repaired"]),
        ('{"query": "a"}', ["a"], ["queries: repaired", "queries: 1 of 2"]),
        ("1. first thing\n2) second thing", ["first thing", "second thing"], ["queries: repaired"]),
        ('Queries:\n- "first"\n* second', ["first", "second"], ["queries: repaired"]),
        ('"first one",\n"second one"', ["first one", "second one"], ["queries: repaired"]),
        ('["a"]\n["b"]', ["a", "b"], ["queries: repaired"]),
        ('{"query_1": "a", "query_2": "b", "why": "c"}', ["a", "b"], ["queries: repaired"]),
        ("[a thing, another]", ["a thing", "another"], ["queries: repaired"]),
        ('1. **"first"**\n2. **second**', ["first", "second"], ["queries: repaired"]),
        ("Query 1: first\nQuery 2: second", ["first", "second"], ["queries: repaired"]),
        ('["Query 1: first", "query 2: second"]', ["first", "second"], []),
        ("see [1]\n1. only this", ["only this"], ["queries: repaired", "queries: 1 of 2"]),
        ('["a", "b", "c"]', ["a", "b"], ["queries: cut to 2"]),
        ('["a"]', ["a"], ["queries: 1 of 2"]),
        ('["a", " A ", "b"]', ["a", "b"], ["queries: duplicate removed"]),
        ('["what is  X?", "b"]', ["b"], ["queries: duplicate removed", "queries: 1 of 2"]),
        ('["What is X?"]', [], ["queries: duplicate removed", "queries: 0 of 2"]),
        ('["query 1", "query 2"]', [], ["queries: fallback"]),
        ("I would rather not.", [], ["queries: fallback"]),
        ("", [], ["queries: fallback"]),
        ("[]", [], ["queries: fallback"]),
        ("[1, null, 2.5]", [], ["queries: fallback"]),
        ('<think>still thinking about ["a"', [], ["queries: fallback"]),
    ],
)
def test_what_a_model_wrote_becomes_queries_or_the_fallback(text: str, queries: list[str], outcome: list[str]) -> None:
    after = run(StubLLM(lambda request: text), "What is X?")
    assert after["queries"].to_pylist() == [queries]
    assert notes(after) == [outcome]
    assert after["error"].to_pylist() == [None]


def test_a_completion_that_failed_is_a_fallback_not_an_error() -> None:
    llm = StubLLM(lambda request: Completion("", said(request), "error", error="prompt too long"))
    after = run(llm, "one", "two")
    assert after["queries"].to_pylist() == [[], []]
    assert notes(after) == [["queries: generation error", "queries: fallback"]] * 2
    assert after["error"].to_pylist() == [None, None]


def test_one_batched_call_with_seeds_from_the_ids() -> None:
    llm = StubLLM(lambda request: '["a", "b"]')
    after = run(llm, "one", "two", temperature=0.4, top_p=0.9, max_tokens=99)
    ((first, second),) = llm.batches
    assert (first.temperature, first.top_p, first.max_tokens) == (0.4, 0.9, 99)
    assert (first.seed, second.seed) == (seed("write_queries", "q0"), seed("write_queries", "q1"))
    trace = after["trace"].to_pylist()[0][-1]
    assert (trace["kept"], trace["calls"], trace["generated_tokens"]) == (2, 1, 2)
    assert trace["prompt_tokens"] == len(said(first).split())


def test_every_slot_reaches_the_prompt() -> None:
    llm = StubLLM(lambda request: "[]")
    run(llm, "who?", passages=[hit(1, "alpha"), hit(2, "beta")], context="passages", n=3, date="2025-05-12")
    text = said(llm.batches[0][0])
    for part in ('"who?"', "Write 3 different", "May 12, 2025", "alpha\n\nbeta", '["query 1", "query 2", "query 3"]'):
        assert part in text


def test_without_context_and_date_the_prompt_says_nothing_of_them() -> None:
    llm = StubLLM(lambda request: "[]")
    run(llm, "who?", n=1)
    text = said(llm.batches[0][0])
    assert "Today" not in text
    assert "first search" not in text
    assert '["query 1"]' in text


def test_context_gives_way_where_the_prompt_is_too_long() -> None:
    llm = StubLLM(lambda request: '["a", "b"]', max_model_len=130)
    passages = [hit(1, "best"), hit(2, "long " * 100)]
    after = run(llm, "who?", passages=passages, context="passages", max_tokens=30)
    assert notes(after) == [["context: dropped 1 of 2"]]
    assert "best" in said(llm.batches[0][0])


def test_n_0_asks_nobody() -> None:
    llm = StubLLM()
    after = run(llm, "one", n=0)
    assert after["queries"].to_pylist() == [[]]
    assert llm.batches == []
    stage = WriteQueries.model_validate({"llm": "writer", "prompt": "research_queries", "n": 0, "into": "queries"})
    assert stage.models() == {}


@pytest.mark.timeout(30)
@pytest.mark.parametrize("text", ["[" * 100_000, '{"a":' * 5000, '["a" ' * 3000, "1. " + "x" * 100_000, '"' * 5000])
def test_no_text_is_too_broken_or_too_long(text: str) -> None:
    after = run(StubLLM(lambda request: text), "What is X?")
    assert after["error"].to_pylist() == [None]
    assert len(after["queries"].to_pylist()[0]) <= 2
