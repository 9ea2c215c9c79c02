"""count_mentions: which questions are counted, and that the count is exact."""

from typing import Any

import pyarrow as pa
import pytest

from pipeline.env import ChatRequest, Completion
from pipeline.schema import PASSAGE
from pipeline.stages.count_mentions import CountMentions
from tests.stubs import StubEnv, StubLLM, hit, notes, questions, ready, said

TEXT = "A whale! Whales, narwhals, the White Whale; whaling. WHALE"
CONFIG: dict[str, Any] = {
    "llm": "counter",
    "source": "items",
    "prompt": "is_counting",
    "keyword_prompt": "count_keyword",
    "forms_prompt": "count_forms",
}


def reply(keyword: str, forms: Any) -> Any:
    def answer(request: ChatRequest) -> Any:
        text = said(request)
        if "yes or no" in text:
            return "Yes" if "How many" in text else "No."
        return keyword if "has to be counted" in text else forms

    return answer


def run(llm: StubLLM, *texts: str, items: Any = TEXT, kind: pa.DataType = pa.string(), **changes: Any) -> pa.Table:
    table = questions(*texts, items=([items] * len(texts), kind))
    return ready(CountMentions.model_validate({**CONFIG, **changes}), StubEnv(llm=llm))(table)


def test_three_calls_a_batch_and_only_of_those_concerned() -> None:
    llm = StubLLM(reply("whale", '["whale", "whales", "Whale"]'))
    after = run(llm, "How many whales?", "Who is Ahab?", "How many are there?")
    assert [len(batch) for batch in llm.batches] == [3, 2, 2]
    counted, other, _ = after.to_pylist()
    assert counted["mentions"] == {"keyword": "whale", "forms": ["whale", "whales"], "count": 4}
    (passage,) = counted["counts"]
    assert passage["text"] == 'The number of mentions of "whale" in the text is 4. Counted: "whale", "whales".'
    assert passage["doc_id"] == "q0"
    assert (other["mentions"], other["counts"]) == (None, [])
    assert [trace[-1]["calls"] for trace in after["trace"].to_pylist()] == [3, 1, 3]
    assert [trace[-1]["kept"] for trace in after["trace"].to_pylist()] == [1, 0, 1]
    seeds = [request.seed for batch in llm.batches for request in batch]
    assert len(set(seeds)) == len(seeds)


def test_without_a_forms_prompt_the_keyword_alone_is_counted() -> None:
    llm = StubLLM(reply('"White Whale."', ""))
    after = run(llm, "How many?", forms_prompt=None)
    assert after["mentions"].to_pylist() == [{"keyword": "White Whale", "forms": ["White Whale"], "count": 1}]
    assert [len(batch) for batch in llm.batches] == [1, 1]


def test_unreadable_forms_leave_the_keyword() -> None:
    for forms in ("I cannot", "", Completion("", "p", "error", error="x")):
        after = run(StubLLM(reply("whales", forms)), "How many?")
        assert after["mentions"].to_pylist() == [{"keyword": "whales", "forms": ["whales"], "count": 1}]
        assert notes(after) == [["forms: generation error"] if isinstance(forms, Completion) else []]


@pytest.mark.parametrize("keyword", ["", "this is a sentence and not a keyword", "two\nlines"])
def test_an_unreadable_keyword_makes_it_an_ordinary_question(keyword: str) -> None:
    llm = StubLLM(reply(keyword, "[]"))
    after = run(llm, "How many?")
    assert (after["counts"].to_pylist(), after["mentions"].to_pylist()) == ([[]], [None])
    assert notes(after) == [["keyword: unreadable"]]
    assert [len(batch) for batch in llm.batches] == [1, 1]


def test_no_mention_is_a_count_too() -> None:
    after = run(StubLLM(reply("zebra", "[]")), "How many?")
    assert after["mentions"].to_pylist()[0]["count"] == 0
    assert "is 0." in after["counts"].to_pylist()[0][0]["text"]


def test_over_passages_it_adds_up() -> None:
    items = [hit(1, "whale"), hit(2, "a whale and a whale")]
    after = run(StubLLM(reply("whale", "[]")), "How many?", items=items, kind=pa.list_(PASSAGE))
    assert after["mentions"].to_pylist()[0]["count"] == 3
    assert after["counts"].to_pylist()[0][0]["doc_id"] == "d1"


def test_forms_are_read_up_to_a_limit() -> None:
    after = run(StubLLM(reply("a", '["b", "c", "d"]')), "How many?", forms=2)
    assert after["mentions"].to_pylist()[0]["forms"] == ["a", "b"]
