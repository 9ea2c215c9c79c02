"""Pairs of texts to token ids, by a tokenizer of characters; and how vLLM's answers are read, on answers made here."""

from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from pipeline.env import EngineError
from pipeline.models.chat import ChatFormat
from pipeline.models.llm import VllmEngine
from pipeline.models.pairs import PairFormat, TokenPair
from tests.pipeline.models.test_chat import BODY, Tokenizer

EOS = 3


def pairs(
    limit: int = 20, adds_bos: bool = True, bos: int | None = 1, eos: int | None = EOS, **kind: Any
) -> PairFormat:
    template = kind.pop("template", None)
    return PairFormat(ChatFormat(Tokenizer(template, adds_bos, "<s>" if adds_bos else None)), limit, bos, eos, **kind)


def ids(text: str) -> list[int]:
    return [ord(letter) for letter in text]


def test_the_boundary_is_where_the_texts_meet() -> None:
    assert pairs().pair("ab ", "cd") == TokenPair([1, *ids("ab ")], ids("cd"), 0)
    assert pairs(adds_bos=False).pair("ab ", "cd") == TokenPair(ids("ab "), ids("cd"), 0)
    assert pairs(adds_bos=False, seq2seq=True).pair("ab ", "cd") == TokenPair([*ids("ab "), EOS], ids("cd"), 0)


def test_an_empty_context_is_what_the_tokenizer_has() -> None:
    assert pairs().pair("", "cd").context == [1]
    assert pairs(adds_bos=False).pair("", "cd").context == [1]
    assert pairs(adds_bos=False, bos=None).pair("", "cd").context == [EOS]
    assert pairs(adds_bos=False, bos=None, seq2seq=True).pair("", "cd").context == [EOS]
    with pytest.raises(ValueError, match="neither BOS nor EOS"):
        pairs(adds_bos=False, bos=None, eos=None).pair("", "cd")


@pytest.mark.parametrize(
    ("limit", "kind", "left", "cut"),
    [
        (6, {}, "def", 3),  # BOS, three of the context, two of the continuation
        (4, {}, "f", 5),
        (3, {}, "", 6),  # BOS alone is before the continuation
        (6, {"adds_bos": False}, "cdef", 2),
        (3, {"adds_bos": False}, "f", 5),
        (6, {"adds_bos": False, "seq2seq": True}, "bcdef", 1),  # EOS; the continuation is the decoder's
    ],
)
def test_what_is_too_long_loses_its_left(limit: int, kind: dict[str, Any], left: str, cut: int) -> None:
    found = pairs(limit, **kind).pair("abcdef", "xy")
    assert found.cut == cut
    assert [token for token in found.context if token > EOS] == ids(left)
    assert found.continuation == ids("xy")
    assert kind or found.context[0] == 1


@pytest.mark.parametrize(("limit", "kind"), [(2, {}), (2, {"adds_bos": False}), (1, {"seq2seq": True})])
def test_a_continuation_that_does_not_fit_is_refused(limit: int, kind: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=f"a continuation of 2 tokens exceeds the {limit}"):
        pairs(limit, **kind).pair("", "xy")


def test_a_prompt_is_a_users_turn() -> None:
    assert pairs(template=BODY).prompt("ab", [7, 8]) == TokenPair([1, 2, *ids("ab")], [7], 0)
    assert pairs(adds_bos=False, seq2seq=True).prompt("ab", [7]).context == [*ids("ab"), EOS]
    with pytest.raises(ValueError, match="a prompt of 7 tokens exceeds the 5"):
        pairs(6).prompt("abcdef", [7])


class Answers(VllmEngine):
    """A VllmEngine without an engine: log p of token t at position n is -(t + n / 1000)."""

    def __init__(self) -> None:
        self._pairs = pairs()
        self.asked: list[dict[str, Any]] = []

    def _score(self, ids: list[int], **wanted: Any) -> "Future[Any]":
        self.asked.append(wanted)
        prompt = [None, *({t: _log(t, n), 999: _log(0, n)} for n, t in enumerate(ids) if n)]
        following = {token: _log(token, len(ids)) for token in wanted.get("logprob_token_ids", [])}
        done: Future[Any] = Future()
        done.set_result(SimpleNamespace(prompt_logprobs=prompt, outputs=[SimpleNamespace(logprobs=[following])]))
        return done


def _log(token: int, position: int) -> SimpleNamespace:
    return SimpleNamespace(logprob=-(token + position / 1000))


def test_vllms_prompt_logprobs_are_read_behind_the_boundary() -> None:
    llm = Answers()
    first, empty, second = llm.log_likelihoods([("ab", "cd"), ("ab", ""), ("", "e")])
    np.testing.assert_allclose(first, [-(99 + 0.003), -(100 + 0.004)], rtol=1e-6)
    np.testing.assert_allclose(second, [-(101 + 0.001)], rtol=1e-6)
    assert first.dtype == np.float32
    assert empty.shape == (0,)
    assert llm.asked == [{"prompt_logprobs": 0}] * 2  # nothing is asked for an empty continuation
    assert llm.log_likelihoods([]) == []


def test_vllms_next_token_asks_for_the_options_alone() -> None:
    llm = Answers()
    found = llm.next_token(["ab", "abc"], ["Yes", "No"])
    np.testing.assert_allclose(found, [[-89.003, -78.003], [-89.004, -78.004]], rtol=1e-6)
    assert llm.asked == [{"logprob_token_ids": ids("YN")}] * 2
    assert llm.next_token([], ["Yes", "No"]).shape == (0, 2)
    assert llm.cuts([("a" * 30, "b"), ("a", "b")]) == [12, 0]


def test_vllm_does_not_offer_divergences() -> None:
    with pytest.raises(EngineError, match="the same model under engine: transformers"):
        Answers().divergences([("a", "b", "c")])
