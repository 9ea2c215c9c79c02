"""Text generation by vLLM: one engine a model, shared by everyone who asks, with continuous batching."""

import atexit
import dataclasses
import logging
import os
import warnings
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from pipeline.env import ChatRequest, Completion, EngineError
from pipeline.errors import InputError
from pipeline.models.batching import EngineThread, Running
from pipeline.models.chat import ChatFormat, Prompt
from pipeline.models.loading import choose_precision
from pipeline.models.pairs import PairFormat
from pipeline.models.resolve import resolve_model
from pipeline.profile import ModelSpec

# Engines of this process that are not shut down yet, and those of them that nobody needs any more.
# Both change in EngineThread's turns only, which exclude each other.
_built: list[Any] = []
_closed: list[Any] = []

FINISHED = {"stop": "stop", "length": "length"}  # vLLM's other reasons are failures


class VllmEngine:
    """`env.LLM` and `env.Scorer` on a vLLM engine that this object owns; safe to call from several threads.

    The engine runs inside this process. vLLM's AsyncLLM cannot: it keeps processes of its own, which stay behind with
    their memory when this one is killed (seen in 0.32), and needed 95 s to load on two busy cores where this needs 20.
    With tensor_parallel above 1 vLLM still starts one worker process a GPU; those watch a pipe to their parent.
    """

    def __init__(self, spec: ModelSpec) -> None:
        """Loads the model. Raises InputError for an unknown engine option or a model that vLLM refuses."""
        if not find_spec("vllm"):
            raise InputError(
                f"model '{spec.source}': engine vllm is not installed here (make setup), or has no wheel for this "
                "machine: then set models.NAME.engine=transformers or use an endpoint (engine: openai)"
            )
        threads = max(1, int(spec.cpus))
        self._devices = spec.gpus or threads
        _set_environment(threads)
        from vllm.exceptions import VLLMClientError

        self._refusals = (ValueError, VLLMClientError)
        folder = resolve_model(spec.source, spec.revision)
        tokenizer = _tokenizer(folder, spec.trust_remote_code)
        self._format = ChatFormat(tokenizer)
        arguments = _arguments(spec, folder)
        try:
            self._engine = EngineThread(lambda: _build(arguments, threads), _close, self._refusals)
        except self._refusals as problem:  # vLLM's checks of the model and its options, pydantic's among them
            reason = " ".join(str(problem).split())[:400]
            raise InputError(f"model '{spec.source}': vLLM does not start it: {reason}") from problem
        self.max_model_len: int = self._engine.built.model_config.max_model_len
        # One token less than the model reads: vLLM scores a prompt on the way to generating something.
        ends = tokenizer.bos_token_id, tokenizer.eos_token_id
        self._pairs = PairFormat(self._format, self.max_model_len - 1, *ends)
        atexit.register(self.shutdown)  # a thread inside torch at interpreter exit would abort the process

    def chat(self, requests: Sequence[ChatRequest]) -> list[Completion]:
        """One completion per request, in order; temperature 0 is greedy.

        A request that cannot be served (longer than the model, settings out of range, a role the template refuses) has
        `error` set. Raises EngineError when the engine is gone.
        """
        sent = [self._send(request) for request in requests]
        return [item if isinstance(item, Completion) else self._receive(*item) for item in sent]

    def count_tokens(self, messages: Sequence[dict[str, str]]) -> int:
        """Tokens of the prompt that `chat` would send, template and BOS included."""
        return len(self._format.prompt(messages).ids)

    def log_likelihoods(self, pairs: Sequence[tuple[str, str]]) -> list[np.ndarray]:
        """Per (context, continuation) float32 [tokens of the continuation], natural log; tokens as in PairFormat.

        By prompt_logprobs: raw log p of the prompt's own tokens. Such a request never reads the prefix cache. Raises
        ValueError for a continuation longer than the model, EngineError when the engine is gone.
        """
        encoded = [self._pairs.pair(*pair) for pair in pairs]
        asked = [pair for pair in encoded if pair.continuation]
        sent = [self._score(pair.context + pair.continuation, prompt_logprobs=0) for pair in asked]
        running = iter(sent)
        found = []
        for pair in encoded:
            logs = next(running).result().prompt_logprobs[len(pair.context) :] if pair.continuation else []
            values = [at[token].logprob for at, token in zip(logs, pair.continuation, strict=True)]
            found.append(np.array(values, np.float32))
        return found

    def divergences(self, triples: Sequence[tuple[str, str, str]]) -> np.ndarray:
        """Not offered: raises EngineError, for vLLM hands out the likeliest tokens, not the whole distribution."""
        raise EngineError(
            "divergences need the whole distribution, and vLLM hands out its likeliest tokens; fill this role with the "
            "same model under engine: transformers"
        )

    def next_token(self, prompts: Sequence[str], options: Sequence[str]) -> np.ndarray:
        """float32 [n, options], raw log p of each option's first token. ValueError where two options share it or a
        prompt is too long."""
        tokens = self._pairs.first_tokens(options)
        encoded = [self._pairs.prompt(prompt, tokens) for prompt in prompts]
        sent = [self._score(pair.context, logprob_token_ids=tokens) for pair in encoded]
        logs = [running.result().outputs[0].logprobs[0] for running in sent]
        rows = [[at[token].logprob for token in tokens] for at in logs]
        return np.array(rows, np.float32).reshape(len(prompts), len(options))

    def cuts(self, pairs: Sequence[tuple[str, str]]) -> list[int]:
        return [self._pairs.pair(*pair).cut for pair in pairs]

    @property
    def finished(self) -> int:
        """Requests, since the engine was started."""
        return self._engine.finished

    def alive(self) -> bool:
        return self._engine.alive()

    def shutdown(self) -> None:
        """Frees the engine. Running requests fail with EngineError; calling it again does nothing."""
        atexit.unregister(self.shutdown)
        self._engine.stop()

    def _score(self, ids: list[int], **wanted: Any) -> Running:
        """A running request for log-probabilities; the one token it generates is of no use."""
        from vllm import SamplingParams
        from vllm.inputs.engine import tokens_input
        from vllm.sampling_params import RequestOutputKind

        last = RequestOutputKind.FINAL_ONLY
        params = SamplingParams(temperature=0.0, max_tokens=1, detokenize=False, output_kind=last, **wanted)
        return self._engine.submit(tokens_input(ids), params)

    def _send(self, request: ChatRequest) -> Completion | tuple[Running, str]:
        """A running request and its prompt, or the completion of one that cannot run."""
        from vllm.inputs.engine import tokens_input

        prompt = self._format.accept(request, self.max_model_len)
        if not isinstance(prompt, Prompt):
            return prompt
        try:
            params = _sampling(request)
        except self._refusals as problem:
            return Completion.failed(str(problem), prompt.text, len(prompt.ids))
        return self._engine.submit(tokens_input(prompt.ids), params), prompt.text

    def _receive(self, running: Running, prompt: str) -> Completion:
        """Waits for a request that was sent."""
        try:
            output = running.result()
        except self._refusals as problem:
            return Completion.failed(str(problem), prompt)
        length = len(output.prompt_token_ids)
        first, *others = [_completion(sample, prompt) for sample in output.outputs]
        return dataclasses.replace(
            first,
            prompt_tokens=length,
            others=tuple(others),
            seconds=running.ended - running.sent,
            queue_s=running.begun - running.sent,
            device_s=running.engine_s * self._devices,
        )


def _sampling(request: ChatRequest) -> Any:
    """vLLM's SamplingParams; with n > 1 it draws sample i with seed + i, as ChatRequest says."""
    from vllm import SamplingParams
    from vllm.sampling_params import RequestOutputKind, StructuredOutputsParams

    schema = request.json_schema
    return SamplingParams(
        n=request.n,
        temperature=request.temperature,
        top_p=request.top_p,
        seed=request.seed,
        max_tokens=request.max_tokens,
        logprobs=0 if request.logprobs else None,  # 0: of the token that was drawn
        structured_outputs=None if schema is None else StructuredOutputsParams(json=schema),
        output_kind=RequestOutputKind.FINAL_ONLY,
    )


def _completion(sample: Any, prompt: str) -> Completion:
    """From a vllm.CompletionOutput."""
    if sample.finish_reason not in FINISHED:
        return Completion.failed(f"the engine ended this request early: {sample.finish_reason}", prompt)
    logs = None
    if sample.logprobs is not None:
        logs = tuple(float(at[token].logprob) for at, token in zip(sample.logprobs, sample.token_ids, strict=True))
    reason, tokens = FINISHED[sample.finish_reason], len(sample.token_ids)
    return Completion(sample.text, prompt, reason, generated_tokens=tokens, logprobs=logs)


def _tokenizer(folder: Path, trust_remote_code: bool) -> Any:
    """A copy of our own: the engine's is used by its own thread."""
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(str(folder), trust_remote_code=trust_remote_code)


def _set_environment(threads: int) -> None:
    """What vLLM and OpenMP read from the environment; OpenMP reads it once, when torch is first imported."""
    os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"
    os.environ.setdefault("VLLM_NO_USAGE_STATS", "1")
    os.environ.setdefault("DO_NOT_TRACK", "1")
    # Its warnings on CPU are about Triton, tcmalloc and seeds: nothing a user of ours can act on.
    os.environ.setdefault("VLLM_LOGGING_LEVEL", "ERROR")
    os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")
    # Threads that spin while they wait starve each other as soon as anything else wants the processor: on 2 busy cores
    # decoding took 4 times as long.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    os.environ["OMP_NUM_THREADS"] = str(threads)  # unset, vLLM computes on one thread once it has loaded


def _arguments(spec: ModelSpec, folder: Path) -> dict[str, Any]:
    """EngineArgs for `spec`; its `engine_options` override ours."""
    import torch
    from vllm.engine.arg_utils import EngineArgs

    known = {field.name for field in dataclasses.fields(EngineArgs)}
    if unknown := sorted(set(spec.engine_options) - known):
        raise InputError(
            f"model '{spec.source}': engine_options has {', '.join(unknown)}, which vLLM does not know; it knows "
            "the fields of vllm.EngineArgs (gpu_memory_utilization, quantization, max_num_seqs, ...)."
        )
    on_gpu = torch.cuda.is_available()
    arguments: dict[str, Any] = {
        "model": str(folder),
        "dtype": spec.dtype if on_gpu else choose_precision(spec.dtype, "cpu"),
        "trust_remote_code": spec.trust_remote_code,
        "enable_prefix_caching": True,
        "use_tqdm_on_load": False,
        "disable_log_stats": True,
    }
    if spec.tensor_parallel > 1:
        arguments["tensor_parallel_size"] = spec.tensor_parallel
    if 0 < spec.gpus < 1:
        arguments["gpu_memory_utilization"] = 0.9 * spec.gpus  # vLLM would take .9 of the GPU, whoever shares it
    if spec.max_model_len:
        arguments["max_model_len"] = spec.max_model_len
    if not on_gpu:
        # Compiling had not ended after three minutes of two busy cores. Without it, and with a cache of a stated size,
        # vLLM skips its warm-up run too.
        arguments |= {"enforce_eager": True, "kv_cache_memory_bytes": spec.kv_cache_gib << 30}
        # After a part of a seeded request's prompt vLLM (0.32) rewinds the request's generator, which a CPU's cannot:
        # the engine dies. And without the rewinding an answer would depend on how its prompt was cut, so on neighbours.
        arguments["enable_chunked_prefill"] = False
    return arguments | spec.engine_options


def _build(arguments: dict[str, Any], threads: int) -> Any:
    """An LLMEngine on the calling thread, whose torch gets `threads`."""
    import torch
    from vllm.engine.arg_utils import EngineArgs
    from vllm.triton_utils import dispatcher
    from vllm.v1.engine.llm_engine import LLMEngine

    dispatcher.__dict__["vars"] = _attributes
    set_num_threads, preload = torch.set_num_threads, os.environ.get("LD_PRELOAD")
    torch.set_num_threads(threads)
    logging.getLogger("torch._library.triton").setLevel(logging.ERROR)  # it warns where there is no Triton: on CPU
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)  # vLLM touches deprecated names of torch
            engine = LLMEngine.from_engine_args(EngineArgs(**arguments))
        _built.append(engine)
        return engine
    finally:
        # On CPU vLLM disables the first for the whole process and sets the second for every child process.
        torch.set_num_threads = set_num_threads
        if preload is None:
            os.environ.pop("LD_PRELOAD", None)


def _attributes(value: Any) -> Any:
    """`vars`, for vLLM's scan of every module of the process (0.32, triton_utils/dispatcher.py), which takes its result
    for a mapping: llvmlite's library object, there as soon as numba is, answers `__dict__` with something else."""
    found = vars(value)
    return found if hasattr(found, "get") else {}


def _close(engine: Any) -> None:
    """Shuts `engine` down, once it is the last: vLLM's shutdown takes apart what the engines of a process share."""
    _closed.append(engine)
    if len(_closed) == len(_built):
        for each in _closed:
            each.engine_core.shutdown()
        _closed.clear()
        _built.clear()
