"""TransformersEngine on a random Llama made here, against a token-by-token computation without padding or cache."""

import math
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM, AutoModelForSeq2SeqLM, AutoTokenizer, GenerationConfig

from pipeline.env import ChatRequest, Completion, EngineError
from pipeline.local import LocalEnv, make_model
from pipeline.models.generation import TransformersEngine
from pipeline.profile import ModelSpec, Profile
from tests.pipeline.models import tiny

LIMIT = 32
TEXTS = ["who is the river ?", "a", "passage one two three question what of c ?"]
Made = tuple[TransformersEngine, Any, Any]  # engine, and the model and tokenizer by themselves


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    folder = tiny.causal(tmp_path_factory.mktemp("models") / "llama", LIMIT)
    # What a published model would have us apply: it must not decide.
    GenerationConfig(eos_token_id=1, repetition_penalty=5.0, temperature=0.1, top_k=1, do_sample=True).save_pretrained(
        folder
    )
    spec = ModelSpec(engine="transformers", source=str(folder), dtype="float32", cpus=1, batch_tokens=60)
    return make_model(spec), AutoModelForCausalLM.from_pretrained(folder).eval(), AutoTokenizer.from_pretrained(folder)


def ask(text: str, max_tokens: int = 6, **settings: Any) -> ChatRequest:
    return ChatRequest(({"role": "user", "content": text},), max_tokens, **settings)


def greedy(made: Made, text: str, most: int) -> tuple[list[int], list[float]]:
    """Ids and log p, a whole forward pass for each."""
    _, model, tokenizer = made
    ids, chosen, logs = list(tokenizer(text)["input_ids"]), list[int](), list[float]()
    while len(chosen) < most and 1 not in chosen:
        with torch.no_grad():
            row = torch.log_softmax(model(input_ids=torch.tensor([ids])).logits[0, -1].double(), -1)
        chosen.append(int(row.argmax()))
        logs.append(float(row.max()))
        ids.append(chosen[-1])
    return chosen, logs


def test_greedy_is_the_likeliest_token_each_time(made: Made) -> None:
    wanted = [greedy(made, text, most) for text, most in zip(TEXTS, (6, 3, 9), strict=True)]
    before = made[0].finished
    found = made[0].chat([ask(text, most, logprobs=True) for text, most in zip(TEXTS, (6, 3, 9), strict=True)])
    assert made[0].finished == before + 3
    for text, (ids, logs), completion in zip(TEXTS, wanted, found, strict=True):
        assert completion.text == made[2].decode(ids, skip_special_tokens=True)
        assert completion.generated_tokens == len(ids)
        assert completion.finish_reason == ("stop" if 1 in ids else "length")
        assert completion.prompt == text
        assert completion.prompt_tokens == made[0].count_tokens([{"role": "user", "content": text}])
        assert completion.seconds > completion.queue_s >= 0
        assert completion.device_s is not None
        assert completion.device_s > 0
        np.testing.assert_allclose(completion.logprobs or (), logs, atol=1e-4)
    assert found[0].logprobs is not None
    assert made[0].chat([ask("a")])[0].logprobs is None


def test_its_log_probabilities_are_the_scorers(made: Made) -> None:
    """The two faces of one model agree: what it draws and what it scores."""
    drawn = made[0].chat([ask("who is", 3, logprobs=True, temperature=1.0, seed=seed) for seed in range(8)])
    plain = [one for one in drawn if one.generated_tokens == len(one.text.split()) == 3]  # no special token among them
    assert len(plain) > 3
    scored = made[0].log_likelihoods([("who is", one.text) for one in plain])
    for one, wanted in zip(plain, scored, strict=True):
        np.testing.assert_allclose(one.logprobs or (), wanted, atol=1e-4)


def test_a_sample_depends_on_its_seed_and_not_on_its_batch(made: Made) -> None:
    warm = {"temperature": 1.0, "top_p": 0.9}
    requests = [ask(text, 8, seed=seed, **warm) for seed, text in enumerate(TEXTS * 3)]
    together = made[0].chat(requests)
    alone = [made[0].chat([request])[0] for request in requests]
    backwards = made[0].chat(requests[::-1])[::-1]
    assert together == alone == backwards
    assert len({completion.text for completion in together}) > 3
    (several,) = made[0].chat([ask(TEXTS[0], 8, seed=5, n=3, logprobs=True, **warm)])
    singly = made[0].chat([ask(TEXTS[0], 8, seed=5 + n, logprobs=True, **warm) for n in range(3)])
    assert [several.text, *(other.text for other in several.others)] == [one.text for one in singly]
    assert len(several.others) == 2
    assert [several.prompt_tokens, *(other.prompt_tokens for other in several.others)] == [5, 0, 0]
    assert made[0].chat([ask("a", temperature=1.0)])[0].error is None  # no seed: any


def test_tokens_come_as_often_as_they_are_likely(made: Made) -> None:
    """One token at temperature 2 and top_p .5, 1,500 seeds: shares within four standard errors."""
    _, model, tokenizer = made
    with torch.no_grad():
        logits = model(input_ids=torch.tensor([tokenizer("who is")["input_ids"]])).logits[0, -1].double()
    p, order = torch.softmax(logits / 2, -1).sort(descending=True)
    kept = int((p.cumsum(0) < 0.5).sum()) + 1
    shares = {tokenizer.decode(int(token)): float(p[n] / p[:kept].sum()) for n, token in enumerate(order[:kept])}
    draws = 1500
    (completion,) = made[0].chat([ask("who is", 1, seed=0, n=draws, temperature=2.0, top_p=0.5)])
    counts = Counter([completion.text, *(other.text for other in completion.others)])
    assert kept > 2
    assert set(counts) <= set(shares)
    for text, share in shares.items():
        assert abs(counts[text] / draws - share) < 4 * math.sqrt(share * (1 - share) / draws)


def test_a_narrow_nucleus_is_greedy(made: Made) -> None:
    narrow, wanted = made[0].chat([ask(TEXTS[0], top_p=1e-9, temperature=3.0, seed=1), ask(TEXTS[0])])
    assert narrow == wanted


def test_what_cannot_be_served_fails_alone(made: Made) -> None:
    good, long, cold, empty, none, same = made[0].chat(
        [ask("a"), ask("a " * 30), ask("a", temperature=-1.0), ask("a", top_p=0.0), ask("a", 0), ask("a", n=2)]
    )
    assert good.error is None
    assert long.error == f"prompt of 30 tokens and 6 to generate exceed the model's {LIMIT}"
    assert cold.error == "temperature must be at least 0, not -1.0"
    assert empty.error == "top_p must be above 0 and at most 1, not 0.0"
    assert none.error == "max_tokens and n must be at least 1, not 0 and 1"
    assert same.error == "n must be 1 where temperature is 0, not 2: all samples would be the same"
    assert made[0].chat([]) == []
    exact = made[0].chat([ask("a " * 31, 1)])[0]
    assert (exact.error, exact.prompt_tokens) == (None, 31)


def test_it_writes_to_no_schema(made: Made) -> None:
    with pytest.raises(EngineError, match="engine transformers writes to no JSON schema; vllm and openai do"):
        made[0].chat([ask("a", json_schema={"type": "object"})])


def test_a_sequence_to_sequence_model_writes_what_its_decoder_does(tmp_path: Path) -> None:
    folder = tiny.t5(tmp_path / "t5")
    engine = make_model(ModelSpec(engine="transformers", source=str(folder), dtype="float32", cpus=1))
    model, tokenizer = AutoModelForSeq2SeqLM.from_pretrained(folder).eval(), AutoTokenizer.from_pretrained(folder)
    for text, completion in zip(TEXTS, engine.chat([ask(text, 5, logprobs=True) for text in TEXTS]), strict=True):
        inputs = torch.tensor([[*tokenizer(text, add_special_tokens=False)["input_ids"], 1]])
        chosen, logs = list[int](), list[float]()
        while len(chosen) < 5 and 1 not in chosen:
            with torch.no_grad():
                logits = model(input_ids=inputs, decoder_input_ids=torch.tensor([[0, *chosen]])).logits[0, -1]
            row = torch.log_softmax(logits.double(), -1)
            chosen.append(int(row.argmax()))
            logs.append(float(row.max()))
        assert completion.text == tokenizer.decode(chosen, skip_special_tokens=True)
        np.testing.assert_allclose(completion.logprobs or (), logs, atol=1e-4)


def test_one_model_fills_both_roles(made: Made, tmp_path: Path) -> None:
    spec = ModelSpec(engine="transformers", source=str(tiny.causal(tmp_path / "llama")), dtype="float32", cpus=1)
    env = LocalEnv(Profile(models={"m": spec}, roles={"answerer": "m", "scorer": "m"}), {})
    assert env.llm("answerer") is env.scorer("scorer")
    (completion,) = env.llm("answerer").chat([ask("a")])
    assert isinstance(completion, Completion)
    assert completion.error is None
