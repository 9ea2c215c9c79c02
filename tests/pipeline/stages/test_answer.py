"""answer: evidence in, text out, and everything that can go wrong in between."""

from typing import Any

import pyarrow as pa
import pytest

from pipeline.completions import first_words, seed
from pipeline.env import ChatRequest, Completion
from pipeline.prompts import load_prompt
from pipeline.schema import PASSAGE, SNIPPET
from pipeline.stages.answer import Answer
from tests.stubs import StubEnv, StubLLM, hit, notes, questions, ready, said, snippet

Items = list[dict[str, Any]]


def run(llm: StubLLM, *evidence: Items | None, kind: pa.DataType = PASSAGE, **settings: Any) -> pa.Table:
    config = {"llm": "answerer", "prompt": "report", "evidence": "items", "max_words": 20, **settings}
    table = questions(*(f"question {n}?" for n in range(len(evidence))), items=(list(evidence), pa.list_(kind)))
    return ready(Answer.model_validate(config), StubEnv(llm=llm))(table)


def test_kept_evidence_in_order_with_blank_lines_and_the_slots_filled() -> None:
    llm = StubLLM(lambda request: " Yes. \n")
    items = [snippet("alpha"), snippet("beta", kept=False), snippet("gamma")]
    after = run(llm, items, kind=SNIPPET)
    (row,) = after.to_pylist()
    assert row["answer"] == "Yes."
    assert row["final_prompt"] == f"<user>{said(llm.batches[0][0])}<assistant>"
    assert row["finish_reason"] == "stop"
    for part in ('"alpha\n\ngamma"', '"question 0?"', "at most 20 words"):
        assert part in row["final_prompt"]
    assert "beta" not in row["final_prompt"]
    trace = row["trace"][-1]
    assert (trace["kept"], trace["calls"], trace["generated_tokens"], trace["notes"]) == (2, 1, 1, [])


def test_one_call_for_the_batch_seeds_from_the_ids() -> None:
    llm = StubLLM()
    run(llm, [hit(1)], [hit(2)], temperature=0.7, top_p=0.5, max_tokens=9)
    ((first, second),) = llm.batches
    assert (first.temperature, first.top_p, first.max_tokens) == (0.7, 0.5, 9)
    assert (first.seed, second.seed) == (seed("answer", "q0"), seed("answer", "q1"))
    assert first.seed != second.seed


@pytest.mark.parametrize("items", [[], None, [snippet("x", kept=False)]])
def test_without_evidence_it_abstains_and_the_model_is_not_called(items: Items | None) -> None:
    llm = StubLLM()
    after = run(llm, items, kind=SNIPPET, abstain_text="No idea.")
    assert llm.batches == []
    assert after["answer"].to_pylist() == ["No idea."]
    assert after["final_prompt"].to_pylist() == [""]
    assert after["finish_reason"].to_pylist() == ["abstained"]
    assert after["error"].to_pylist() == [None]
    assert notes(after) == [["abstained: no evidence"]]


def test_an_abstaining_row_leaves_its_neighbours_their_answers() -> None:
    llm = StubLLM(lambda request: said(request)[14:20])
    after = run(llm, [hit(1, "alpha!")], [], [hit(2, "gamma!")])
    assert after["answer"].to_pylist() == ["alpha!", "I don't know.", "gamma!"]


def test_when_empty_ask_asks() -> None:
    assert run(StubLLM(), [], when_empty="ask")["answer"].to_pylist() == ["fine"]


def test_closed_book_asks_without_evidence() -> None:
    llm = StubLLM()
    after = run(llm, None, evidence=None, prompt="closed_book")
    assert after["answer"].to_pylist() == ["fine"]
    assert "question 0?" in said(llm.batches[0][0])


def test_the_system_prompt_comes_first_and_counts() -> None:
    llm = StubLLM()
    run(llm, [hit(1, "alpha")], system_prompt="collection_assistant")
    ((request,),) = llm.batches
    assert [message["role"] for message in request.messages] == ["system", "user"]
    assert request.messages[0]["content"] == load_prompt("collection_assistant").render()
    around = sum(len(message["content"].split()) for message in request.messages)
    short = StubLLM(max_model_len=around + 5)
    after = run(short, [hit(1, "alpha"), hit(2, "beta")], system_prompt="collection_assistant", max_tokens=5)
    assert notes(after) == [["evidence: dropped 1 of 2"]]
    prompts = [
        use.prompt.name
        for use in Answer.model_validate(
            {"llm": "a", "prompt": "closed_book", "system_prompt": "collection_assistant", "max_words": 5}
        ).prompts()
    ]
    assert prompts == ["closed_book", "collection_assistant"]


def long_items(count: int) -> Items:
    return [hit(n, f"item{n}" + " word" * 9) for n in range(count)]


@pytest.mark.parametrize(("room", "left"), [(10, 1), (19, 1), (20, 2), (49, 4), (50, 5)])
def test_an_over_long_prompt_loses_whole_items_from_the_end(room: int, left: int) -> None:
    bare = StubLLM()
    run(bare, [], when_empty="ask")
    around = len(said(bare.batches[0][0]).split()) - 1  # the empty pair of quotes joins the first and last word
    llm = StubLLM(max_model_len=around + room + 7)
    after = run(llm, long_items(5), max_tokens=7)
    text = said(llm.batches[0][0])
    assert [f"item{n}" in text for n in range(5)] == [n < left for n in range(5)]
    assert "question 0?" in text
    assert notes(after) == [[f"evidence: dropped {5 - left} of 5"] if left < 5 else []]


def test_drop_first_gives_up_the_head() -> None:
    llm = StubLLM(max_model_len=80)
    run(llm, long_items(5), max_tokens=20, drop="first")
    text = said(llm.batches[0][0])
    assert "item4" in text
    assert "item0" not in text


def test_a_prompt_that_fits_is_counted_once() -> None:
    llm = StubLLM(lambda request: Completion("A", "p", "stop"))
    run(llm, long_items(5))
    assert llm.counted == 1


def test_no_item_fits_abstains_as_if_there_were_none() -> None:
    llm = StubLLM(max_model_len=40)
    after = run(llm, [hit(1, "word " * 99)], max_tokens=10)
    assert llm.batches == []
    assert notes(after) == [["evidence: dropped 1 of 1", "abstained: no evidence"]]


def test_a_refused_request_is_its_rows_error() -> None:
    def reply(request: ChatRequest) -> Any:
        bad = "question 1?" in said(request)
        return Completion("", "sent", "error", error="4097 tokens") if bad else "fine"

    after = run(StubLLM(reply), [hit(1)], [hit(1)], [hit(1)])
    assert after["answer"].to_pylist() == ["fine", None, "fine"]
    assert after["error"].to_pylist()[1] == {"stage": "answer", "kind": "generation", "message": "4097 tokens"}
    assert after["final_prompt"].to_pylist()[1] == "sent"
    assert after["error"].to_pylist()[::2] == [None, None]


def test_an_empty_answer_is_asked_for_once_more_then_noted() -> None:
    def reply(request: ChatRequest) -> str:
        again = request.seed in (seed("answer", "q1") + 1, seed("answer", "q2") + 1)
        return {"question 0?": "zero", "question 1?": "one" if again else "", "question 2?": " \n"}[
            next(f"question {n}?" for n in range(3) if f"question {n}?" in said(request))
        ]

    llm = StubLLM(reply)
    after = run(llm, [hit(1)], [hit(1)], [hit(1)])
    assert [len(batch) for batch in llm.batches] == [3, 2]
    assert after["answer"].to_pylist() == ["zero", "one", ""]
    assert notes(after) == [[], ["answer: asked again"], ["answer: asked again", "answer: empty"]]
    assert [trace[-1]["calls"] for trace in after["trace"].to_pylist()] == [1, 2, 2]
    assert after["error"].to_pylist() == [None] * 3


def test_a_second_try_that_fails_leaves_the_first_outcome() -> None:
    def reply(request: ChatRequest) -> Any:
        first = request.seed == seed("answer", "q0")
        return "" if first else Completion("", "", "error", error="gone")

    after = run(StubLLM(reply), [hit(1)])
    assert after["answer"].to_pylist() == [""]
    assert after["error"].to_pylist() == [None]


@pytest.mark.parametrize(
    ("text", "answer"),
    [("<think>x</think>A", "A"), ("x</think>A", "A"), ("<think>x", ""), ("<think>a</think>\n\n B <b>", "B <b>")],
)
def test_thinking_is_not_part_of_the_answer(text: str, answer: str) -> None:
    after = run(StubLLM(lambda request: text), [hit(1)])
    assert after["answer"].to_pylist() == [answer]
    assert ("answer: empty" in notes(after)[0]) == (answer == "")


def test_max_words_cuts_only_where_asked_to() -> None:
    llm = StubLLM(lambda request: "one two\n three four")
    kept = run(llm, [hit(1)], max_words=3)
    cut = run(llm, [hit(1)], max_words=3, cut_to_max_words=True)
    assert kept["answer"].to_pylist() == ["one two\n three four"]
    assert cut["answer"].to_pylist() == ["one two\n three"]
    assert notes(cut) == [["answer: cut to 3 words"]]
    assert first_words("one two", 2) == "one two"
    assert first_words("", 2) == ""


def test_an_answer_stopped_by_max_tokens_says_so() -> None:
    llm = StubLLM(lambda request: Completion("half an", "p", "length", 3, 2))
    after = run(llm, [hit(1)])
    assert after["finish_reason"].to_pylist() == ["length"]
    assert notes(after) == [["answer: stopped at max_tokens"]]


def test_a_question_that_looks_like_a_template_is_only_text() -> None:
    llm = StubLLM()
    table = questions("{{ 7 * 7 }} {% if %}", items=([[hit(1, "{{ context }}")]], pa.list_(PASSAGE)))
    config = {"llm": "a", "prompt": "report", "evidence": "items", "max_words": 20}
    ready(Answer.model_validate(config), StubEnv(llm=llm))(table)
    text = said(llm.batches[0][0])
    assert "{{ 7 * 7 }} {% if %}" in text
    assert "{{ context }}" in text
