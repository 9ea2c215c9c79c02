"""TransformersScorer against direct computations, a sequence at a time, on random models made here."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM, AutoModelForSeq2SeqLM, AutoTokenizer

from pipeline.errors import InputError
from pipeline.local import LocalEnv
from pipeline.models.likelihood import TransformersScorer
from pipeline.profile import ModelSpec, Profile
from tests.pipeline.models import tiny

PAIRS = [
    ("passage the river is a city .", "who is the river ?"),
    ("a", "b"),
    ("passage one two three one two three . question", "what of c ?"),
    ("the city of a b c .", "where is the city of a ?"),
    ("question what is b ?", ""),
]
MAKERS: dict[str, Callable[[Path], Path]] = {
    "llama": tiny.causal,
    "gpt2": lambda folder: tiny.causal(folder, family="gpt2"),
    "t5": tiny.t5,
}
Made = tuple[TransformersScorer, Any, Any]  # scorer, and the model and tokenizer by themselves


def load(folder: Path, **settings: Any) -> Made:
    spec = ModelSpec(engine="transformers", source=str(folder), dtype="float32", cpus=1, **settings)
    kind = AutoModelForSeq2SeqLM if "t5" in folder.name else AutoModelForCausalLM
    return TransformersScorer(spec), kind.from_pretrained(folder).eval(), AutoTokenizer.from_pretrained(folder)


@pytest.fixture(scope="module", params=list(MAKERS))
def made(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Made:
    return load(MAKERS[request.param](tmp_path_factory.mktemp("models") / request.param), batch_tokens=40)


def distributions(made: Made, context: str, continuation: str) -> torch.Tensor:
    """log p [tokens of the continuation, vocabulary], one forward pass a token, nothing padded."""
    _, model, tokenizer = made
    before = tokenizer(context, add_special_tokens=False)["input_ids"]
    after = tokenizer(continuation, add_special_tokens=False)["input_ids"]
    rows = []
    for n in range(len(after)):
        if model.config.is_encoder_decoder:
            ids = {"input_ids": [[*before, 1]], "decoder_input_ids": [[0, *after[:n]]]}
        else:
            ids = {"input_ids": [[*before, *after[:n]]]}
        with torch.no_grad():
            logits = model(**{name: torch.tensor(value) for name, value in ids.items()}).logits
        rows.append(torch.log_softmax(logits[0, -1].double(), -1))
    return torch.stack(rows) if rows else torch.zeros(0, model.config.vocab_size)


def direct(made: Made, context: str, continuation: str) -> np.ndarray:
    ids = made[2](continuation, add_special_tokens=False)["input_ids"]
    logs = distributions(made, context, continuation)
    return np.array([float(row[token]) for row, token in zip(logs, ids, strict=True)])


def test_log_likelihoods_are_those_of_a_direct_computation(made: Made) -> None:
    found = made[0].log_likelihoods(PAIRS)
    for (context, continuation), logs in zip(PAIRS, found, strict=True):
        wanted = direct(made, context, continuation)
        assert logs.dtype == np.float32
        assert logs.shape == wanted.shape == (len(continuation.split()),)
        np.testing.assert_allclose(logs, wanted, atol=1e-4)
        if len(wanted):
            assert abs(logs.mean() - wanted.mean()) < 1e-3
    assert np.std([logs.mean() for logs in found[:4]]) > 0.05  # the model does tell them apart


def test_a_pair_does_not_depend_on_its_neighbours(made: Made) -> None:
    forward = made[0].log_likelihoods(PAIRS)
    backward = made[0].log_likelihoods(PAIRS[::-1])[::-1]
    alone = [made[0].log_likelihoods([pair])[0] for pair in PAIRS]
    for first, second, third in zip(forward, backward, alone, strict=True):
        np.testing.assert_allclose(first, second, atol=1e-5)
        np.testing.assert_allclose(first, third, atol=1e-5)
    assert made[0].log_likelihoods([]) == []


def test_divergences_are_mean_kl_over_the_vocabulary(made: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    triples = [(a, "the city of one", q) for a, q in PAIRS] + [("a b", "a b", "who is c ?")]
    found = made[0].divergences(triples)
    for (context, other, continuation), value in zip(triples[:4], found, strict=False):
        p, q = distributions(made, context, continuation), distributions(made, other, continuation)
        assert value == pytest.approx(float((p.exp() * (p - q)).sum(1).mean()), abs=1e-4)
    assert found.dtype == np.float32
    assert min(found[:4]) > 0.01
    assert found[4] == 0  # an empty continuation
    assert found[5] == pytest.approx(0, abs=1e-6)
    monkeypatch.setattr("pipeline.models.likelihood.DISTRIBUTIONS_BYTES", 1)  # a pair at a time
    np.testing.assert_allclose(made[0].divergences(triples), found, atol=1e-5)


def test_next_token_is_the_options_share_of_the_distribution(made: Made) -> None:
    prompts = ["is the river a city ?", "what ?"]
    found = made[0].next_token(prompts, ["yes", "no one"])
    tokens = made[2]("yes no", add_special_tokens=False)["input_ids"]
    for prompt, row in zip(prompts, found, strict=True):
        np.testing.assert_allclose(row, distributions(made, prompt, "a")[0][tokens], atol=1e-4)
    assert found.shape == (2, 2)
    assert made[0].next_token([], ["yes", "no"]).shape == (0, 2)


def test_options_must_differ_in_their_first_token(made: Made) -> None:
    with pytest.raises(ValueError, match="do not begin with different tokens"):
        made[0].next_token(["a"], ["one two", "one three"])
    with pytest.raises(ValueError, match="do not begin with different tokens"):
        made[0].next_token(["a"], ["yes", ""])


@pytest.mark.parametrize("maker", ["llama", "t5"])
def test_an_over_long_context_loses_its_left_and_says_how_much(maker: str, tmp_path: Path) -> None:
    scorer, *rest = made = load(MAKERS[maker](tmp_path / maker), max_model_len=10)
    long, question = "passage one two three the river is a city of b c .", "who is b ?"
    left = 6 if maker == "llama" else 9  # together with four tokens of the question; or beside EOS
    kept = " ".join(long.split()[-left:])
    assert scorer.cuts([(long, question), (kept, question)]) == [13 - left, 0]
    np.testing.assert_allclose(scorer.log_likelihoods([(long, question)])[0], direct(made, kept, question), atol=1e-4)
    assert rest
    with pytest.raises(ValueError, match="a continuation of 11 tokens exceeds the 10"):
        scorer.log_likelihoods([("a", "b " * 11)])
    with pytest.raises(ValueError, match="a prompt of 12 tokens exceeds the 9"):
        scorer.next_token(["b " * 12], ["yes", "no"])


def test_an_empty_context_of_a_causal_model_is_bos(tmp_path: Path) -> None:
    scorer, *_ = made = load(tiny.causal(tmp_path / "llama"))
    np.testing.assert_allclose(scorer.log_likelihoods([("", "a b")])[0], direct(made, "<s>", "a b"), atol=1e-4)


def test_special_tokens_in_a_text_are_text(tmp_path: Path) -> None:
    scorer, *_ = made = load(tiny.causal(tmp_path / "llama"))
    found = scorer.log_likelihoods([("a </s> b", "c")])[0]
    np.testing.assert_allclose(found, direct(made, "a < /s> b", "c"), atol=1e-4)


def test_the_profile_serves_it_as_a_scorer(tmp_path: Path) -> None:
    spec = ModelSpec(engine="transformers", source=str(tiny.t5(tmp_path / "t5")))
    profile = Profile(name="p", models={"m": spec}, roles={"scorer": "m"})
    assert LocalEnv(profile, {}).scorer("scorer").log_likelihoods([("a", "b")])[0].shape == (1,)
    with pytest.raises(InputError, match=r"asked for as reader, .* is a scorer or divergence or llm"):
        LocalEnv(profile, {}).reader("scorer")
    assert [ModelSpec(engine=e, source="x").kinds for e in ("vllm", "fid")] == [("llm", "scorer"), ("reader",)]


def test_a_model_that_is_no_language_model_is_refused(tmp_path: Path) -> None:
    from transformers import ViTConfig, ViTModel

    tiny.tokenizer(tmp_path, 10, bos=False)
    ViTModel(ViTConfig(hidden_size=8, num_hidden_layers=1, num_attention_heads=1, intermediate_size=8)).save_pretrained(
        tmp_path
    )
    with pytest.raises(InputError, match="transformers does not load it as a scorer"):
        TransformersScorer(ModelSpec(engine="transformers", source=str(tmp_path)))
