"""Importance: its noise, both of its forms by hand-worked numbers, and 0 where nothing can depend on the text."""

import random
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from pipeline.env import ChatRequest, Completion
from pipeline.importance import Chunk, Importance, Weigher, noised, noises, one_minus_similarity
from tests.stubs import StubEmbedder, StubEnv, StubLLM, said

SETTINGS = {"form": "embedding", "embedder": "e", "prompt": "passage_only", "samples": 2, "max_tokens": 9}
EXACT = {**SETTINGS, "form": "divergence", "embedder": None, "scorer": "s"}
TEXT = "The whale dived. Ahab slept."


class StubScorer:
    """KL is the number of characters in which two contexts differ in length, or 0 for a constant model."""

    def __init__(self, constant: bool = False) -> None:
        self.constant, self.triples = constant, list[tuple[str, str, str]]()

    def divergences(self, triples: Sequence[tuple[str, str, str]]) -> np.ndarray:
        self.triples += triples
        return np.array([0.0 if self.constant else abs(len(a) - len(b)) for a, b, _ in triples], np.float32)


class ScoringEnv(StubEnv):
    def __init__(self, scorer: StubScorer) -> None:
        super().__init__()
        self.parts["scorer"] = scorer  # type: ignore[assignment]

    def scorer(self, role: str) -> Any:
        return self._part("scorer", role)


def weigh(settings: dict, llm: StubLLM, env: StubEnv, *chunks: Chunk) -> list[float | None]:
    weigher = Weigher(Importance.model_validate(settings), llm, env)
    return [weight for weight, _ in weigher.weigh(chunks)]


def test_one_minus_mean_cosine_by_hand() -> None:
    # (3/5, 4/5) . (1, 0) = .6 and . (4/5, 3/5) = .96: 1 - (.6 + .96) / 2 = .22
    output = np.array([0.6, 0.8], np.float32)
    others = np.array([[1, 0], [0.8, 0.6]], np.float32)
    assert one_minus_similarity(output, others) == pytest.approx(0.22, abs=1e-6)
    assert one_minus_similarity(output, np.stack([output, output])) == 0.0
    assert one_minus_similarity(output, -output[None]) == pytest.approx(2.0)


def test_the_embedding_form_end_to_end_by_hand() -> None:
    # The model says "plain" to the passage as it is, "noisy" to any other; cosines with the axis 1 and .28.
    llm = StubLLM(lambda request: "plain" if TEXT in said(request) else "noisy")
    env = StubEnv(llm=llm, embedder=StubEmbedder({"noisy": 0.28}))
    assert weigh(SETTINGS, llm, env, Chunk("q", "Who?", TEXT)) == [pytest.approx(0.72, abs=1e-6)]
    assert [len(batch) for batch in llm.batches] == [3]
    assert len({said(request) for request in llm.batches[0]}) == 3
    assert all("Who?" in said(request) and request.temperature == 0 for request in llm.batches[0])


def test_a_constant_model_finds_nothing_important() -> None:
    llm = StubLLM(lambda request: "forty-two")
    chunks = [Chunk("q", "Who?", TEXT), Chunk("r", "What?", "Other words.")]
    assert weigh(SETTINGS, llm, StubEnv(llm=llm), *chunks) == [0.0, 0.0]
    assert weigh(EXACT, llm, ScoringEnv(StubScorer(constant=True)), *chunks) == [0.0, 0.0]


def test_the_exact_form_is_the_mean_divergence_over_the_noises() -> None:
    scorer, llm = StubScorer(), StubLLM(lambda request: "the whale")
    (weight,) = weigh(EXACT, llm, ScoringEnv(scorer), Chunk("q", "Who?", TEXT))
    assert [len(batch) for batch in llm.batches] == [1]
    assert len(scorer.triples) == 2
    assert {triple[2] for triple in scorer.triples} == {"the whale"}
    assert all(TEXT in plain and TEXT not in other for plain, other, _ in scorer.triples)
    lengths = [abs(len(plain) - len(other)) for plain, other, _ in scorer.triples]
    assert weight == pytest.approx(sum(lengths) / 2)


def test_a_failed_output_is_not_measured_and_costs_no_other() -> None:
    def reply(request: ChatRequest) -> Any:
        return Completion("", "p", "error", error="too long") if "Bad?" in said(request) else "same"

    chunks = [Chunk("q", "Bad?", TEXT), Chunk("r", "Good?", TEXT)]
    assert weigh(SETTINGS, StubLLM(reply), StubEnv(), *chunks) == [None, 0.0]
    assert weigh(EXACT, StubLLM(reply), ScoringEnv(StubScorer(constant=True)), *chunks) == [None, 0.0]


def test_no_output_has_nothing_to_move() -> None:
    scorer = StubScorer()
    assert weigh(EXACT, StubLLM(lambda request: ""), ScoringEnv(scorer), Chunk("q", "?", TEXT)) == [0.0]
    assert scorer.triples == []


@given(st.text(max_size=80), st.integers(0, 9))
def test_noise_is_seeded_and_bounded(text: str, number: int) -> None:
    assert noised(text, 0.0, random.Random(number)) == text
    full = noised(text, 1.0, random.Random(number))
    assert full == noised(text, 1.0, random.Random(number))
    assert len(full) <= 2 * len(text)
    assert [c for c in full if c.isspace()] == [c for c in text if c.isspace()]
    assert noises(text, "key", 3) == noises(text, "key", 3)


def test_noise_is_as_strong_as_it_is_said_to_be() -> None:
    text = "é" * 30_000  # a letter that no noise writes: those that are left and alone were not altered
    out = noised(text, 0.3, random.Random(1))
    # One kind in three replaces it, one leaves it out, one keeps it with another letter after it.
    assert out.count("é") / len(text) == pytest.approx(1 - 0.3 * 2 / 3, abs=0.01)
    assert len(out) / len(text) == pytest.approx(1.0, abs=0.01)
    assert noised("same", 1.0, random.Random(3)) != "same"


def test_strengths_differ_from_question_to_question() -> None:
    assert noises(TEXT, "q0", 2) != noises(TEXT, "q1", 2)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({**SETTINGS, "embedder": None}, "needs embedder"),
        ({**SETTINGS, "form": "divergence"}, "needs scorer"),
        ({**SETTINGS, "samples": 0}, "greater than 0"),
    ],
)
def test_settings_that_lack_something(settings: dict, message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        Importance.model_validate(settings)


def test_roles() -> None:
    assert Importance.model_validate(SETTINGS).models() == {"e": "embedder"}
    assert Importance.model_validate(EXACT).models() == {"s": "divergence"}


def test_a_minimum_leaves_out_what_was_measured_below_it() -> None:
    items = [{"importance": value} for value in (0.0, 0.2, None, 0.5)]
    above = Importance.model_validate({**SETTINGS, "minimum": 0.2}).above(items)
    assert [item["importance"] for item in above] == [0.2, None, 0.5]
    assert Importance.model_validate(SETTINGS).above(items) == items
