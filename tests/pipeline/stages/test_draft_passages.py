"""draft_passages: what a model writes from memory never passes for something retrieved."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pydantic import ValidationError

from pipeline.completions import seed
from pipeline.env import ChatRequest, Completion
from pipeline.liverag import answer_line
from pipeline.schema import PASSAGE
from pipeline.scoring.retrieval import document_ranking
from pipeline.scoring.trec import write_trec
from pipeline.stages.draft_passages import DraftPassages
from pipeline.stages.merge_passages import MergePassages
from tests.stubs import StubEnv, StubLLM, draft, hit, notes, questions, ready, said


def run(llm: StubLLM, *texts: str, **settings: Any) -> pa.Table:
    config = {"llm": "drafter", "prompt": "draft_passage", "n": 3, **settings}
    return ready(DraftPassages.model_validate(config), StubEnv(llm=llm))(questions(*texts))


def test_n_passages_in_the_order_asked_for_each_with_its_own_seed() -> None:
    llm = StubLLM(lambda request: f" text {request.seed} \n")
    after = run(llm, "why?", "how?", temperature=0.7, top_p=0.5, max_tokens=9)
    (requests,) = llm.batches
    seeds = [seed(f"draft_passages {n}", name) for name in ("q0", "q1") for n in range(3)]
    assert [request.seed for request in requests] == seeds
    assert len(set(seeds)) == 6
    assert {(r.temperature, r.top_p, r.max_tokens) for r in requests} == {(0.7, 0.5, 9)}
    assert "why?" in said(requests[0])
    first, second = after["drafts"].to_pylist()
    assert [passage["text"] for passage in first + second] == [f"text {number}" for number in seeds]
    assert [passage["pid"] for passage in first] == [-1, -2, -3]
    assert first[1] == draft(1, f"text {seeds[1]}", query="why?")
    assert [trace[-1]["calls"] for trace in after["trace"].to_pylist()] == [3, 3]


def test_a_question_alone_gets_what_it_gets_beside_others() -> None:
    llm = StubLLM(lambda request: f"{request.seed}")
    assert run(llm, "why?")["drafts"].to_pylist()[0] == run(llm, "why?", "how?")["drafts"].to_pylist()[0]


def test_blank_and_failed_drafts_are_left_out_and_noted() -> None:
    replies = {0: "", 1: Completion("", "p", "error", error="too long"), 2: "<think>x</think>good"}

    def reply(request: ChatRequest) -> Any:
        return next(replies[n] for n in range(3) if request.seed == seed(f"draft_passages {n}", "q0"))

    after = run(StubLLM(reply), "why?")
    (passage,) = after["drafts"].to_pylist()[0]
    assert (passage["pid"], passage["rank"], passage["text"]) == (-1, 0, "good")
    assert notes(after) == [["drafts: 1 generation error", "drafts: 1 blank"]]
    assert after["error"].to_pylist() == [None]


def test_equal_and_unfinished_drafts_stay_and_are_noted() -> None:
    after = run(StubLLM(lambda request: Completion("the same", "p", "length", 1, 2)), "why?")
    assert len(after["drafts"].to_pylist()[0]) == 3
    assert notes(after) == [["drafts: 2 like another", "drafts: 3 stopped at max_tokens"]]
    assert after["trace"].to_pylist()[0][-1]["generated_tokens"] == 6


def test_greedy_drafts_would_all_be_one() -> None:
    with pytest.raises(ValidationError, match="temperature 0 writes one passage 3 times"):
        run(StubLLM(), "why?", temperature=0.0)
    assert len(run(StubLLM(), "why?", temperature=0.0, n=1)["drafts"].to_pylist()[0]) == 1


def test_a_draft_never_counts_as_a_retrieved_document(tmp_path: Path) -> None:
    mixed = [draft(0), hit(7), draft(1), hit(8)]
    assert document_ranking(mixed) == [("d7", 1.0), ("d8", 1.0)]
    write_trec([{"id": "q0", "passages": mixed}], tmp_path / "run.trec")
    assert [line.split()[2] for line in (tmp_path / "run.trec").read_text().splitlines()] == ["d7", "d8"]
    line = answer_line({"question": "why?", "passages": mixed}, 0)
    assert [(p["passage"], p["doc_IDs"]) for p in line["passages"]][:2] == [("draft 0", []), ("passage 7", ["d7"])]


def test_drafts_keep_apart_when_merged_with_retrieved_passages() -> None:
    kind = pa.list_(PASSAGE)
    table = questions("why?", drafts=([[draft(0), draft(1)]], kind), found=([[hit(0), hit(1)]], kind))
    after = MergePassages.model_validate({"from": ["drafts", "found"], "into": "all"})(table)
    assert [passage["pid"] for passage in after["all"].to_pylist()[0]] == [-1, 0, -2, 1]
