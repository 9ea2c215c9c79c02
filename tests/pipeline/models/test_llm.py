"""VllmEngine on the real SmolLM2, loaded once for all tests of this file."""

import json
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import psutil
import pytest

from pipeline.env import ChatRequest, EngineError
from pipeline.errors import InputError
from pipeline.models.embedded import prepare
from pipeline.models.generation import TransformersEngine
from pipeline.models.likelihood import TransformersScorer
from pipeline.models.llm import VllmEngine
from pipeline.profile import ModelSpec

LENGTH = 512


def ask(question: str, max_tokens: int = 8, **settings: float | int | None) -> ChatRequest:
    return ChatRequest(({"role": "user", "content": question},), max_tokens, **settings)


@pytest.fixture(scope="module")
def spec() -> ModelSpec:
    folder = prepare("smollm2-135m-instruct")
    return ModelSpec(engine="vllm", source=str(folder), max_model_len=LENGTH, kv_cache_gib=1, cpus=2)


@pytest.fixture(scope="module")
def llm(spec: ModelSpec) -> Iterator[VllmEngine]:
    engine = VllmEngine(spec)
    yield engine
    engine.shutdown()
    assert not engine.alive()
    with pytest.raises(EngineError, match="shut down"):
        engine.chat([ask("anybody there?")])


def test_a_batch_keeps_its_order_and_shows_what_was_sent(llm: VllmEngine) -> None:
    questions = [f"What is {n} plus {n}?" for n in range(8)]
    before = llm.finished
    answers = llm.chat([ask(question) for question in questions])
    assert len(answers) == 8
    assert llm.finished == before + 8
    for question, answer in zip(questions, answers, strict=True):
        assert answer.error is None
        assert answer.prompt.endswith(f"<|im_start|>user\n{question}<|im_end|>\n<|im_start|>assistant\n")
        assert answer.prompt.startswith("<|im_start|>system\n")  # BOS is <|im_start|>: the template's, and no other
        assert answer.text.strip()
        assert 0 < answer.generated_tokens <= 8
        assert answer.prompt_tokens == llm.count_tokens([{"role": "user", "content": question}])


def test_a_known_answer_ends_by_itself(llm: VllmEngine) -> None:
    answer = llm.chat([ask("What is the capital of France? Answer with one word.", max_tokens=40)])[0]
    assert "Paris" in answer.text
    assert answer.finish_reason == "stop"
    assert "<|im_end|>" not in answer.text


def test_an_over_long_request_fails_alone(llm: VllmEngine) -> None:
    long = "word " * LENGTH
    tokens = llm.count_tokens([{"role": "user", "content": long}])
    good, bad, fits, over = llm.chat([ask("Hello"), ask(long), ask("Hi", LENGTH - 40), ask("Hi", LENGTH)])
    assert good.error is None
    assert fits.error is None
    assert bad.error == f"prompt of {tokens} tokens and 8 to generate exceed the model's {LENGTH}"
    assert (bad.text, bad.finish_reason, bad.prompt_tokens) == ("", "error", tokens)
    assert long in bad.prompt
    assert over.error is not None
    assert f"and {LENGTH} to generate exceed" in over.error


def test_one_token_is_cut_by_length(llm: VllmEngine) -> None:
    answer = llm.chat([ask("Tell me a long story.", max_tokens=1)])[0]
    assert (answer.finish_reason, answer.generated_tokens) == ("length", 1)


def test_sampling_settings_are_honoured(llm: VllmEngine) -> None:
    warm = {"max_tokens": 24, "temperature": 1.5}
    first, again, other = llm.chat([ask("Write a poem.", seed=seed, **warm) for seed in (1, 1, 2)])
    assert first.text == again.text  # same step, same shape: the seed decides
    assert first.text != other.text
    greedy, narrow = llm.chat([ask("Write a poem.", 24), ask("Write a poem.", seed=5, top_p=1e-6, **warm)])
    assert narrow.text == greedy.text  # a nucleus of one token is greedy
    assert first.text != greedy.text
    impossible = llm.chat([ask("Hello", temperature=-1.0)])[0]
    assert impossible.finish_reason == "error"
    assert "temperature" in str(impossible.error)


def test_seeded_prompts_beyond_what_one_step_reads(llm: VllmEngine) -> None:
    """A step of vLLM's reads 2,048 tokens by default. One that ended inside a seeded prompt killed the engine."""
    prompts = [f"{n} " + "word " * 440 for n in range(6)]
    answers = llm.chat([ask(prompt, 2, temperature=0.7, seed=n) for n, prompt in enumerate(prompts)])
    assert sum(answer.prompt_tokens for answer in answers) > 2048
    assert [answer.error for answer in answers] == [None] * 6
    assert llm.alive()


def test_several_samples_are_those_of_the_following_seeds(llm: VllmEngine) -> None:
    warm = {"max_tokens": 12, "temperature": 1.2}
    (several,) = llm.chat([ask("Write a poem.", seed=3, n=3, **warm)])
    samples = [several, *several.others]
    assert len(samples) == 3
    assert len({sample.text for sample in samples}) > 1
    assert [sample.prompt_tokens > 0 for sample in samples] == [True, False, False]
    assert all(0 < sample.generated_tokens <= 12 for sample in samples)
    assert several.seconds >= several.queue_s >= 0
    assert several.device_s is not None
    assert several.device_s > 0


@pytest.mark.slow
def test_log_probabilities_are_those_of_transformers(llm: VllmEngine, spec: ModelSpec) -> None:
    exact = TransformersEngine(spec.model_copy(update={"engine": "transformers"}))
    asked = [ask("What is the capital of France? Answer with one word.", 12, logprobs=True)]
    (mine,), (theirs,) = llm.chat(asked), exact.chat(asked)
    assert (mine.text, mine.prompt, mine.prompt_tokens) == (theirs.text, theirs.prompt, theirs.prompt_tokens)
    assert (mine.finish_reason, mine.generated_tokens) == (theirs.finish_reason, theirs.generated_tokens)
    np.testing.assert_allclose(mine.logprobs or (), theirs.logprobs or (), atol=2e-2)
    assert len(mine.logprobs or ()) == mine.generated_tokens


def test_an_answer_keeps_to_a_json_schema(llm: VllmEngine) -> None:
    schema = {"type": "object", "properties": {"colour": {"enum": ["red", "blue"]}}, "required": ["colour"]}
    schema["additionalProperties"] = False
    good, bad = llm.chat(
        [ask("Which colour is the sky?", 40, json_schema=schema), ask("Hello", json_schema={"type": "no such type"})]
    )
    assert json.loads(good.text)["colour"] in ("red", "blue")
    assert bad.finish_reason == "error"
    assert llm.alive()


def test_two_threads_at_once(llm: VllmEngine) -> None:
    with ThreadPoolExecutor(2) as pool:
        batches = list(pool.map(lambda word: llm.chat([ask(f"{word} {n}") for n in range(6)]), ["red", "blue"]))
    for word, answers in zip(["red", "blue"], batches, strict=True):
        for n, answer in enumerate(answers):
            assert answer.error is None
            assert f"user\n{word} {n}<|im_end|>" in answer.prompt
    assert llm.alive()


PAIRS = [
    ("Passage: Nepal's flower is the rhododendron.\n", "Which flower is the symbol of Nepal?"),
    ("Passage: Peru exports copper.\n", "Which flower is the symbol of Nepal?"),
    ("", "Once upon a time"),
    ("Hello", ""),
]


@pytest.mark.slow
def test_likelihoods_are_those_of_transformers(llm: VllmEngine, spec: ModelSpec) -> None:
    exact = TransformersScorer(spec.model_copy(update={"engine": "transformers"}))
    for mine, theirs in zip(llm.log_likelihoods(PAIRS), exact.log_likelihoods(PAIRS), strict=True):
        assert mine.dtype == np.float32
        assert mine.shape == theirs.shape
        np.testing.assert_allclose(mine, theirs, atol=2e-2)
        if len(mine):
            assert abs(mine.mean() - theirs.mean()) < 5e-3
    prompts = ["Is Paris in France? Answer Yes or No.", "Is Paris in Peru? Answer Yes or No."]
    options = ["Yes", "No"]
    np.testing.assert_allclose(llm.next_token(prompts, options), exact.next_token(prompts, options), atol=2e-2)


@pytest.mark.slow
def test_a_passage_about_the_question_makes_it_likelier(llm: VllmEngine) -> None:
    about, besides, *_ = llm.log_likelihoods(PAIRS)
    assert about.mean() > besides.mean()
    again = llm.log_likelihoods(PAIRS[:2][::-1])  # never read from the prefix cache, so all of them are there
    np.testing.assert_allclose(again[1], about, atol=1e-3)


@pytest.mark.slow
def test_an_over_long_context_is_cut_at_its_left(llm: VllmEngine) -> None:
    pair = ("word " * LENGTH, "Which flower?")
    (cut,) = llm.cuts([pair])
    assert cut > 0
    assert np.isfinite(llm.log_likelihoods([pair])[0]).all()
    with pytest.raises(ValueError, match=r"a continuation of .* tokens exceeds"):
        llm.log_likelihoods([("a", "word " * LENGTH)])


@pytest.mark.slow
def test_divergences_are_not_offered(llm: VllmEngine) -> None:
    with pytest.raises(EngineError, match="under engine: transformers"):
        llm.divergences([("a", "b", "c")])


def test_nothing_to_do(llm: VllmEngine) -> None:
    assert llm.chat([]) == []


def test_it_has_no_process_that_could_be_left_behind(llm: VllmEngine) -> None:
    children = [" ".join(child.cmdline()) for child in psutil.Process().children(recursive=True)]
    assert not [command for command in children if "VLLM" in command]


def test_an_unknown_engine_option(spec: ModelSpec) -> None:
    with pytest.raises(InputError, match=r"engine_options has gpu_memory, which vLLM does not know"):
        VllmEngine(spec.model_copy(update={"engine_options": {"gpu_memory": 0.5}}))


def test_a_model_that_vllm_refuses(spec: ModelSpec) -> None:
    with pytest.raises(InputError, match=r"vLLM does not start it: .*max_model_len"):
        VllmEngine(spec.model_copy(update={"max_model_len": 10**6}))


def test_importing_the_module_is_light() -> None:
    code = "import sys, pipeline.models.llm, pipeline.local; print([m for m in ('torch', 'vllm') if m in sys.modules])"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=_root())
    assert shown.stdout.strip() == "[]"


def _root() -> Path:
    return Path(__file__).resolve().parents[3]
