"""answer_fid: evidence into encoder inputs, and what the reader says back."""

from typing import Any

import pyarrow as pa

from pipeline.env import ReadRequest
from pipeline.schema import PAIR, SNIPPET
from pipeline.stages.answer_fid import AnswerFid
from tests.stubs import POISON, StubEnv, StubReader, notes, questions, ready, snippet


def pair(text: str) -> dict[str, Any]:
    return {"text": text, "pid": 1, "doc_id": "d1", "draft": -1, "score": None}


def run(reader: StubReader, *evidence: list[dict] | None, kind: pa.DataType = PAIR, **settings: Any) -> pa.Table:
    config = {"reader": "r", "prompt": "fid_input", "evidence": "pairs", **settings}
    table = questions(*(f"what {n} ?" for n in range(len(evidence))), pairs=(list(evidence), pa.list_(kind)))
    return ready(AnswerFid.model_validate(config), StubEnv(reader=reader))(table)


def test_each_pair_is_one_encoder_input() -> None:
    reader = StubReader()
    after = run(reader, [pair("alpha"), pair("beta")], [pair("gamma")], max_tokens=5, beams=2)
    inputs = ("question: what 0 ? context: alpha", "question: what 0 ? context: beta")
    assert reader.batches == [[ReadRequest(inputs, 5, 2), ReadRequest(("question: what 1 ? context: gamma",), 5, 2)]]
    assert after["answer"].to_pylist() == ["question: question:", "question:"]
    assert after["final_prompt"].to_pylist()[0] == "\n\n".join(inputs)
    assert after["finish_reason"].to_pylist() == ["stop", "stop"]
    trace = after["trace"].to_pylist()[0][-1]
    assert (trace["kept"], trace["calls"], trace["prompt_tokens"], trace["generated_tokens"]) == (2, 1, 12, 2)


def test_k_and_dropped_snippets() -> None:
    reader = StubReader()
    run(reader, [snippet("a", kept=False), snippet("b"), snippet("c")], kind=SNIPPET, k=1)
    assert reader.batches[0][0].inputs == ("question: what 0 ? context: b",)


def test_without_evidence_it_abstains() -> None:
    reader = StubReader()
    after = run(reader, [], None, [pair("x")], abstain_text="No idea.")
    assert len(reader.batches[0]) == 1
    assert after["answer"].to_pylist() == ["No idea.", "No idea.", "question:"]
    assert after["finish_reason"].to_pylist() == ["abstained", "abstained", "stop"]
    assert notes(after)[0] == ["abstained: no evidence"]


def test_inputs_that_were_cut_are_noted_and_a_failing_row_fails_alone() -> None:
    after = run(StubReader(limit=6), [pair("a b c"), pair("a")], [pair(POISON)])
    assert notes(after)[0] == ["evidence: 1 of 2 lost their end to the encoder's length"]
    assert after["error"].to_pylist()[0] is None
    assert after["error"].to_pylist()[1]["stage"] == "answer_fid"
