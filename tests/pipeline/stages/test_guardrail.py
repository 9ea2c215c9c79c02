"""guardrail: what is blocked, at which cosine, and what the row says of it."""

import numpy as np
import pyarrow as pa
import pytest

from pipeline.prompts import load_prompt
from pipeline.stages.guardrail import Guardrail
from tests.stubs import StubEmbedder, StubEnv, notes, questions, ready

COSINES = {"far": 0.1, "near": 0.9, "at": 0.5}  # with the system prompt, the stub's first axis


def guard(*answers: str | None, embedder: StubEmbedder | None = None, max_cosine: float = 0.5) -> pa.Table:
    stage = Guardrail.model_validate(
        {"embedder": "e", "system_prompt": "collection_assistant", "max_cosine": max_cosine, "null_text": "No."}
    )
    table = questions(*(f"q{n}" for n in range(len(answers))), answer=(list(answers), pa.string()))
    return ready(stage, StubEnv(embedder=embedder or StubEmbedder(COSINES)))(table)


def test_an_answer_like_the_system_prompt_is_replaced_and_kept_aside() -> None:
    after = guard("far", "near", "at")
    assert after["answer"].to_pylist() == ["far", "No.", "No."]  # a cosine equal to the threshold is blocked
    assert after["unguarded_answer"].to_pylist() == ["far", "near", "at"]
    assert after["guardrail_blocked"].to_pylist() == [False, True, True]
    assert after["guardrail_similarity"].to_pylist() == pytest.approx([0.1, 0.9, 0.5])
    assert notes(after) == [[], ["guardrail: blocked"], ["guardrail: blocked"]]


def test_the_system_prompt_is_what_it_is_compared_with() -> None:
    prompt = load_prompt("collection_assistant").render()
    assert guard(prompt, embedder=StubEmbedder({prompt: 0.3}))["guardrail_similarity"].to_pylist() == pytest.approx([1])


def test_no_answer_is_not_compared_and_not_blocked() -> None:
    embedder = StubEmbedder(COSINES)
    after = guard(None, " ", embedder=embedder, max_cosine=-1.0)
    assert after["answer"].to_pylist() == [None, " "]
    assert after["guardrail_similarity"].to_pylist() == [None, None]
    assert after["guardrail_blocked"].to_pylist() == [False, False]
    assert len(embedder.batches) == 1  # the system prompt


def test_each_answer_is_embedded_once_and_neighbours_do_not_count() -> None:
    embedder = StubEmbedder(COSINES)
    together = guard("near", "far", "near", embedder=embedder)
    assert embedder.batches[1:] == [["near", "far"]]
    for n, answer in enumerate(["near", "far", "near"]):
        assert guard(answer)["answer"][0] == together["answer"][n]


@pytest.mark.parametrize(("limit", "blocked"), [(1.0, 0), (0.9, 1), (0.1, 3), (-1.0, 3)])
def test_a_lower_threshold_blocks_more(limit: float, blocked: int) -> None:
    assert int(np.sum(guard("far", "near", "at", max_cosine=limit)["guardrail_blocked"].to_pylist())) == blocked
