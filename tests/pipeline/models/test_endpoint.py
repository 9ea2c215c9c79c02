"""EndpointLLM against a server on loopback that misbehaves on demand."""

import logging
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import pytest

from pipeline.env import ChatRequest, EngineError
from pipeline.errors import InputError
from pipeline.local import LocalEnv, make_model
from pipeline.models import endpoint, patient_http
from pipeline.models.endpoint import EndpointLLM
from pipeline.profile import ModelSpec, Profile
from tests.openai_server import KEY, MODEL, Fault, OpenAIServer, openai_server

GARBAGE = [
    Fault(200, b""),
    Fault(200, b"<html>busy</html>"),
    Fault(200, b'{"choices": [{"index": 0, "message": {"content": "hal'),
    Fault(200, b'{"choices": []}'),
    Fault(200, b"[1, 2]"),
    Fault(200, b'{"choices": [{"index": 0, "message": null, "finish_reason": "stop"}]}'),
    Fault(200, b"\xff\xfe\x00"),
    Fault(200, b"[" * 100_000),
    Fault(200, b'{"choices"', {"Content-Length": "9999"}, silent_s=0.0),
]


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patient_http, "BACKOFF_S", 0.01)
    monkeypatch.setenv("OUR_KEY", KEY)


@pytest.fixture
def server() -> Iterator[OpenAIServer]:
    with openai_server() as running:
        yield running


@pytest.fixture
def opened() -> Iterator[list[EndpointLLM]]:
    made: list[EndpointLLM] = []
    yield made
    for each in made:
        each.shutdown()


@pytest.fixture
def connect(server: OpenAIServer, opened: list[EndpointLLM]) -> Any:
    def make(**settings: Any) -> EndpointLLM:
        given = {"source": MODEL, "base_url": server.url, "timeout_s": 5, "patience_s": 10, **settings}
        opened.append(make_model(ModelSpec(engine="openai", **given)))
        return opened[-1]

    return make


def ask(text: str = "abc", max_tokens: int = 8, **settings: Any) -> ChatRequest:
    return ChatRequest(({"role": "user", "content": text},), max_tokens, **settings)


def test_a_batch_comes_back_in_order_with_what_was_sent(connect: Any, server: OpenAIServer) -> None:
    llm = connect(api_key_env="OUR_KEY")
    texts = [f"word {n}" for n in range(20)]
    answers = llm.chat([ask(text, seed=n, temperature=0.5, top_p=0.9) for n, text in enumerate(texts)])
    assert [(answer.text, answer.prompt) for answer in answers] == [(text[::-1], text) for text in texts]
    assert {(a.finish_reason, a.prompt_tokens, a.generated_tokens, a.error) for a in answers} == {("stop", 2, 4, None)}
    assert all(answer.seconds > answer.queue_s >= 0 for answer in answers)
    sent = sorted(server.seen, key=lambda body: body["seed"])[7]
    assert sent == {
        "model": MODEL,
        "messages": [{"role": "user", "content": "word 7"}],
        "max_tokens": 8,
        "temperature": 0.5,
        "top_p": 0.9,
        "n": 1,
        "seed": 7,
    }
    assert llm.max_model_len == 100
    assert llm.chat([]) == []
    assert llm.finished == 20


def test_samples_log_probabilities_and_schema(connect: Any, server: OpenAIServer) -> None:
    schema = {"type": "object", "properties": {"a": {"type": "string"}}}
    (answer,) = connect().chat([ask("ab", n=3, logprobs=True, json_schema=schema)])
    assert answer.logprobs == (-0.5, -0.5)
    assert [other.text for other in answer.others] == ["ba", "ba"]
    assert answer.prompt_tokens + sum(other.prompt_tokens for other in answer.others) == 1
    assert server.seen[0]["response_format"]["json_schema"]["schema"] == schema
    assert (server.seen[0]["n"], server.seen[0]["logprobs"]) == (3, True)
    server.logprobs = False
    (without,) = connect().chat([ask(logprobs=True)])
    assert without.error is not None
    assert "it gives no log-probabilities" in without.error


def test_special_tokens_in_a_message_are_text(connect: Any, server: OpenAIServer) -> None:
    (answer,) = connect().chat([ask("a<|im_end|>b")])
    assert answer.prompt == server.seen[0]["messages"][0]["content"] == "a< |im_end|>b"


def test_never_more_under_way_than_allowed(connect: Any, server: OpenAIServer) -> None:
    server.slow_s = 0.05
    answers = connect(concurrency=3).chat([ask(str(n)) for n in range(12)])
    assert server.busiest == 3
    assert max(answer.queue_s for answer in answers) > 0.1


@pytest.mark.parametrize("fault", [Fault(429), Fault(500, b"oops"), Fault(503), Fault(408), *GARBAGE])
def test_what_may_pass_is_tried_again(fault: Fault, connect: Any, server: OpenAIServer) -> None:
    llm = connect(timeout_s=0.5)
    server.faults = [fault, fault]
    (answer,) = llm.chat([ask()])
    assert (answer.text, answer.error) == ("cba", None)
    assert len(server.seen) == 3


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        (Fault(429, b'{"error": {"message": "slow\\n down"}}'), "HTTP 429: slow down"),
        (Fault(500), "HTTP 500 (try"),
        (Fault(200, b"<html>"), "an answer that makes no sense: <html>"),
        (Fault(200, b""), "an answer that makes no sense: nothing"),
        (Fault(200, b'{"choices": [{"ind'), 'makes no sense: {"choices": [{"ind'),
    ],
)
def test_what_does_not_pass_costs_its_own_row_only(fault: Fault, said: str, connect: Any, server: OpenAIServer) -> None:
    server.poison = {"bad": fault}
    good, bad, other = connect(patience_s=1).chat([ask("good"), ask("bad"), ask("other")])
    assert (good.text, other.text) == ("doog", "rehto")
    assert (bad.text, bad.finish_reason) == ("", "error")
    assert bad.error is not None
    assert bad.error.startswith(f"model 'tiny' at {server.url} failed: ")
    assert said in bad.error
    assert len([body for body in server.seen if body["messages"][0]["content"] == "bad"]) > 2


@pytest.mark.parametrize("status", [400, 401, 404, 422, 501, 302])
def test_a_refusal_is_the_rows_error_at_once(status: int, connect: Any, server: OpenAIServer) -> None:
    server.poison = {"bad": Fault(status, b'{"error": {"message": "too long"}}', {"Location": "http://example.org"})}
    good, bad = connect().chat([ask("good"), ask("bad")])
    assert good.error is None
    assert bad.error == f"model 'tiny' at {server.url} refuses: HTTP {status}: too long"
    assert len(server.seen) == 2


def test_a_last_try_that_is_cut_short_does_not_hide_what_was_wrong(connect: Any, server: OpenAIServer) -> None:
    server.faults = [Fault(500, b"out of memory"), Fault(silent_s=9.0)]
    (answer,) = connect(patience_s=0.5).chat([ask()])
    assert answer.error is not None
    assert "failed: HTTP 500: out of memory (try 2, " in answer.error


@pytest.mark.parametrize("fault", [Fault(silent_s=9.0), Fault(200, b"x" * 90, drip_s=0.1)])
def test_silence_and_dripping_are_cut_off(fault: Fault, connect: Any, server: OpenAIServer) -> None:
    llm = connect(timeout_s=0.2)
    server.faults = [fault]
    started = time.monotonic()
    (answer,) = llm.chat([ask()])
    assert answer.text == "cba"
    assert 0.2 <= time.monotonic() - started < 8
    assert answer.queue_s >= 0.2
    server.poison = {"bad": fault}
    (bad,) = connect(timeout_s=0.1, patience_s=0.5).chat([ask("bad")])
    assert bad.error is not None
    assert "no answer within 0.1 s" in bad.error


def test_retry_after_is_waited_for(connect: Any, server: OpenAIServer) -> None:
    llm = connect()
    server.faults = [Fault(429, headers={"Retry-After": "0.4"}), Fault(503, headers={"Retry-After": "soon"})]
    llm.chat([ask()])
    first, second, third = server.tries
    assert second - first >= 0.4
    assert third - second < 4, "as after any fault: what is no time is not waited for"
    server.tries.clear()
    date = format_datetime(datetime.now(UTC) + timedelta(seconds=2), usegmt=True)
    server.faults = [Fault(429, headers={"Retry-After": date})]
    llm.chat([ask()])
    assert server.tries[1] - server.tries[0] >= 0.7  # a date has whole seconds


def test_longer_than_patience_is_not_waited_for(connect: Any, server: OpenAIServer) -> None:
    llm = connect(patience_s=60)
    server.faults = [Fault(429, headers={"Retry-After": "3600"})]
    started = time.monotonic()
    (answer,) = llm.chat([ask()])
    assert time.monotonic() - started < 30
    assert answer.error is not None
    assert "it asks to wait 3600 s" in answer.error


def test_waits_double_and_are_bounded(connect: Any, server: OpenAIServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patient_http, "BACKOFF_S", 0.08)
    monkeypatch.setattr(patient_http, "LONGEST_BACKOFF_S", 0.3)
    llm = connect()
    server.faults = [Fault(500)] * 7
    llm.chat([ask()])
    waits = [after - before for before, after in zip(server.tries, server.tries[1:], strict=False)]
    for wait, longest in zip(waits, [0.08, 0.16, 0.3, 0.3, 0.3, 0.3, 0.3], strict=True):
        assert longest / 2 <= wait < longest + 1.5, "unbounded, the last would be 2.5 at least"


def test_an_endpoint_that_goes_away_ends_the_job(connect: Any, server: OpenAIServer) -> None:
    llm = connect(patience_s=0.3)
    server.stop()
    with pytest.raises(EngineError, match=r"model 'tiny' at .* is gone: ConnectError: .* \(try \d+, \d+\.\d s\)"):
        llm.chat([ask(), ask()])


def test_an_answer_that_ended_early_is_an_error(connect: Any, server: OpenAIServer) -> None:
    server.finish_reason = "content_filter"
    (answer,) = connect().chat([ask()])
    assert answer.error is not None
    assert "ended the answer early: content_filter" in answer.error
    server.finish_reason = "length"
    assert connect().chat([ask()])[0].finish_reason == "length"


def test_tokens_are_counted_by_the_server_or_estimated(connect: Any, server: OpenAIServer) -> None:
    llm = connect()
    messages = [{"role": "system", "content": "be brief"}, {"role": "user", "content": "où ça ?"}]
    assert llm.count_tokens(messages) == 5
    server.tokenizes = False
    assert llm.count_tokens(messages) == 3 + 8 + 3 + 8  # 8 and 9 bytes
    server.tokenizes = True
    assert llm.count_tokens(messages) == 22, "asked once only"


@pytest.mark.parametrize("fault", [Fault(429), Fault(500), Fault(silent_s=1.0), *GARBAGE])
def test_counting_and_starting_are_tried_again_too(
    fault: Fault, connect: Any, server: OpenAIServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    llm = connect(timeout_s=0.3)
    server.uncounted = [fault, fault]
    assert llm.count_tokens([{"role": "user", "content": "one two three"}]) == 3
    assert server.uncounted == []
    monkeypatch.setattr(endpoint, "START_S", 0.3)
    server.models = fault
    with pytest.raises(InputError, match=r"does not answer: .* is base_url right, and the server up\?"):
        connect(timeout_s=0.3)


def test_counting_that_fails_for_good_ends_the_job(connect: Any, server: OpenAIServer) -> None:
    llm = connect(patience_s=0.3)
    server.uncounted = [Fault(500)] * 99
    with pytest.raises(EngineError, match=r"model 'tiny' at .* does not count tokens: HTTP 500"):
        llm.count_tokens([{"role": "user", "content": "one"}])


def test_the_key_stays_secret(
    connect: Any, server: OpenAIServer, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.DEBUG)
    llm = connect(api_key_env="OUR_KEY")
    server.poison = {"bad": Fault(401, f'{{"error": {{"message": "Bearer {KEY} is wrong"}}}}'.encode())}
    (answer,) = llm.chat([ask("bad")])
    assert "Bearer *** is wrong" in str(answer.error)
    monkeypatch.setenv("OUR_KEY", "sk-another")
    with pytest.raises(InputError, match=r"refuses the key in OUR_KEY: HTTP 401: no: Bearer \*\*\*") as caught:
        connect(api_key_env="OUR_KEY")
    spec = ModelSpec(engine="openai", source=MODEL, base_url=server.url, api_key_env="OUR_KEY")
    for secret in (KEY, "sk-another"):
        assert secret not in caplog.text + str(answer) + repr(llm) + repr(caught.value) + spec.model_dump_json()


@pytest.mark.parametrize(("value", "said"), [(None, "is not set here"), ("a\nb", "holds something that is no key")])
def test_a_key_that_is_not_there(value: str | None, said: str, connect: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    if value is None:
        monkeypatch.delenv("OUR_KEY")
    else:
        monkeypatch.setenv("OUR_KEY", value)
    with pytest.raises(InputError, match=f"environment variable OUR_KEY {said}; set it where the job runs"):
        connect(api_key_env="OUR_KEY")


def test_what_an_endpoint_does_not_serve_is_said_before_anything_starts(
    connect: Any, server: OpenAIServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(InputError, match="it serves tiny; set `source` to one of these"):
        connect(source="huge")
    server.models = {"data": [{"id": "tiny:latest"}]}
    with pytest.raises(InputError, match="does not say its max_model_len; set it in the profile"):
        connect()
    assert connect(max_model_len=50).max_model_len == 50
    server.models = Fault(404)
    assert connect(source="any", max_model_len=50).chat([ask()])[0].error is None
    monkeypatch.setattr(endpoint, "START_S", 0.3)
    server.models = Fault(500)
    with pytest.raises(InputError, match=r"does not answer: HTTP 500 .*is base_url right, and the server up\?"):
        connect()
    with pytest.raises(InputError, match="does not answer: ConnectError"):
        connect(base_url="http://127.0.0.1:9/v1")


def test_the_profile_serves_it_as_an_llm_only(server: OpenAIServer) -> None:
    spec = ModelSpec(engine="openai", source=MODEL, base_url=server.url)
    env = LocalEnv(Profile(name="p", models={"m": spec}, roles={"answerer": "m"}), {})
    try:
        assert env.llm("answerer").chat([ask()])[0].text == "cba"
        with pytest.raises(InputError, match=r"asked for as scorer, .* \(engine openai\) is a llm"):
            env.scorer("answerer")
    finally:
        env.close()
