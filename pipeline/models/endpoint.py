"""Text generation by a server that speaks OpenAI's HTTP interface: vLLM's own, llama.cpp, Ollama, a company's."""

import os
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from pipeline.env import ChatRequest, Completion, EngineError
from pipeline.errors import InputError, some
from pipeline.models.patient_http import GaveUp, PatientHttp, Refused
from pipeline.profile import ModelSpec

START_S = 60.0  # that an endpoint may be silent when it is first asked what it serves
FINISHED = {"stop": "stop", "length": "length"}  # other reasons (content_filter, tool_calls) are failures
NOT_OFFERED = (404, 405, 501)


class EndpointLLM:
    """`env.LLM` over `{base_url}/chat/completions`; safe to call from several threads, which share `concurrency`.

    Special tokens spelt `<|...|>` in a message are broken by a space, as ChatFormat does with all of a tokenizer's: the
    server's tokenizer is not known here, so other spellings reach it as they are.
    """

    def __init__(self, spec: ModelSpec) -> None:
        """Asks the endpoint what it serves. Raises InputError where it does not answer, refuses the key or lacks the
        model, where the key is not in the environment, or where nobody says how long prompts may be."""
        self._model, self._base = spec.source, (spec.base_url or "").rstrip("/")
        self._what, self._key_name = f"model '{spec.source}' at {self._base}", spec.api_key_env
        self._http = PatientHttp(_key(spec), spec.timeout_s, spec.patience_s, spec.concurrency + 8)
        card = self._card()
        length = spec.max_model_len or card.get("max_model_len")
        if not isinstance(length, int):
            raise InputError(f"{self._what}: the endpoint does not say its max_model_len; set it in the profile")
        self.max_model_len = length
        self._tokenizes = True  # until it says that it does not
        self._threads = ThreadPoolExecutor(spec.concurrency, thread_name_prefix="endpoint")
        self.finished = 0  # requests; shown, so that a count lost between two threads is no matter

    def chat(self, requests: Sequence[ChatRequest]) -> list[Completion]:
        """One completion per request, in order. One that the endpoint refuses, or answers wrongly until patience ends,
        has `error` set; raises EngineError where nobody is there any more."""
        now = time.perf_counter()
        running = [self._threads.submit(self._complete, request, now) for request in requests]
        try:
            return [request.result() for request in running]
        finally:
            for request in running:
                request.cancel()

    def count_tokens(self, messages: Sequence[dict[str, str]]) -> int:
        """By the server's /tokenize, template included (vLLM has it). Elsewhere an estimate: a token for every three
        bytes of UTF-8, and eight a message. English prose has more than four bytes a token, so that this errs on the
        long side; digits and code may need more, and the server then refuses the row."""
        sent = [_harmless(message) for message in messages]
        if self._tokenizes:
            url = self._base.removesuffix("/v1") + "/tokenize"
            try:
                body = {"model": self._model, "messages": sent}
                return self._http.send("POST", url, lambda answer: int(answer["count"]), body)[0]
            except Refused as problem:
                self._tokenizes = problem.status not in NOT_OFFERED
            except GaveUp as problem:
                raise EngineError(f"{self._what} does not count tokens: {problem}") from None
        return sum(-(-len(message["content"].encode()) // 3) + 8 for message in sent)

    def shutdown(self) -> None:
        """Lets go of connections and threads; what waits gives up. Calling it again does nothing."""
        self._http.close()
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _complete(self, request: ChatRequest, called: float) -> Completion:
        begun = time.perf_counter()
        body, prompt = _body(self._model, request), _text(request)
        url = f"{self._base}/chat/completions"
        try:
            (first, *others), waited = self._http.send("POST", url, lambda answer: _samples(answer, request), body)
        except Refused as problem:
            return Completion.failed(f"{self._what} refuses: {problem}", prompt)
        except GaveUp as problem:
            if problem.unreachable:
                raise EngineError(f"{self._what} is gone: {problem}") from None
            return Completion.failed(f"{self._what} failed: {problem}", prompt)
        self.finished += 1
        took = time.perf_counter() - called
        times = {"seconds": took, "queue_s": begun - called + waited}
        return Completion(
            **{**first, **times}, prompt=prompt, others=tuple(Completion(**o, prompt=prompt) for o in others)
        )

    def _card(self) -> dict[str, Any]:
        """What the endpoint says of the model; nothing where it lists none."""
        try:
            cards, _ = self._http.send("GET", f"{self._base}/models", _cards, patience_s=START_S)
        except Refused as problem:
            if problem.status in NOT_OFFERED:
                return {}
            held = f"in {self._key_name}" if self._key_name else "(none: the profile names no api_key_env)"
            raise InputError(f"{self._what} refuses the key {held}: {problem}") from None
        except GaveUp as problem:
            raise InputError(
                f"{self._what} does not answer: {problem}; is base_url right, and the server up?"
            ) from None
        for name, card in cards.items():
            if self._model in (name, name.partition(":")[0]):  # Ollama lists name:tag and takes the name
                return card
        if cards:
            raise InputError(f"{self._what}: it serves {some(sorted(cards), 10)}; set `source` to one of these")
        return {}


def _key(spec: ModelSpec) -> str | None:
    """From the environment. Raises InputError, without the value."""
    if spec.api_key_env is None:
        return None
    key = os.environ.get(spec.api_key_env, "").strip()
    if not key or not key.isascii() or not key.isprintable():
        state = "holds something that is no key" if key else "is not set here"
        raise InputError(
            f"model '{spec.source}': the environment variable {spec.api_key_env} {state}; set it where the job runs, "
            "and on a cluster on every node before Ray starts there"
        )
    return key


def _harmless(message: dict[str, str]) -> dict[str, str]:
    return {**message, "content": message["content"].replace("<|", "< |")}


def _text(request: ChatRequest) -> str:
    return "\n\n".join(_harmless(message)["content"] for message in request.messages)


def _body(model: str, request: ChatRequest) -> dict[str, Any]:
    body: dict[str, Any] = {
        "model": model,
        "messages": [_harmless(message) for message in request.messages],
        "max_tokens": request.max_tokens,
        "temperature": request.temperature,
        "top_p": request.top_p,
        "n": request.n,
    }
    if request.seed is not None:
        body["seed"] = request.seed
    if request.logprobs:
        body["logprobs"] = True
    if request.json_schema is not None:
        schema = {"name": "answer", "schema": request.json_schema, "strict": True}
        body["response_format"] = {"type": "json_schema", "json_schema": schema}
    return body


def _cards(answer: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {str(card["id"]): dict(card) for card in answer["data"]}


def _samples(answer: dict[str, Any], request: ChatRequest) -> list[dict[str, Any]]:
    """Completion's fields of each sample. Raises LookupError, TypeError or ValueError where it is not what was asked
    for, Refused where the endpoint has no log-probabilities or stopped for a reason of its own."""
    choices = sorted(answer["choices"], key=lambda choice: choice["index"])
    if len(choices) != request.n:
        raise ValueError(f"{len(choices)} choices of {request.n}")
    usage = answer.get("usage") or {}
    samples = []
    for choice in choices:
        text, reason = choice["message"].get("content") or "", choice["finish_reason"]
        if not isinstance(text, str):
            raise TypeError("content is no text")
        if reason not in FINISHED:
            raise Refused(f"it ended the answer early: {reason}")
        sample: dict[str, Any] = {"text": text, "finish_reason": FINISHED[reason]}
        if request.logprobs:
            given = choice.get("logprobs")
            if not given:
                raise Refused("it gives no log-probabilities")
            sample["logprobs"] = tuple(float(token["logprob"]) for token in given["content"])
        samples.append(sample)
    samples[0] |= {
        "prompt_tokens": int(usage.get("prompt_tokens", 0)),
        "generated_tokens": int(usage.get("completion_tokens", 0)),
    }
    return samples
