"""Text generation by a plain transformers model: for machines without vLLM, and for exact log-probabilities."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any, NamedTuple

from pipeline.env import ChatRequest, Completion, EngineError
from pipeline.models.chat import Prompt
from pipeline.models.likelihood import TransformersScorer
from pipeline.models.loading import quiet
from pipeline.profile import ModelSpec


class Draw(NamedTuple):
    """One sample of a request: sample i is drawn with the request's seed + i."""

    request: ChatRequest
    prompt: Prompt
    seed: int | None


class TransformersEngine(TransformersScorer):
    """`env.LLM` beside `env.Scorer` on one model. One call at a time: a batch takes all threads.

    A sequence-to-sequence model reads prompt and EOS in its encoder. Prompts are padded and masked; a sample depends
    on its seed and its prompt, not on its batch, up to rounding. Only what a request says decides: the repetition
    penalties and top-k of a model's generation_config.json are not applied, as they are not by VllmEngine.
    """

    def __init__(self, spec: ModelSpec) -> None:
        super().__init__(spec)
        self._devices = spec.gpus or max(1, int(spec.cpus))
        self.finished = 0  # samples
        from transformers import GenerationConfig

        ends = self._model.generation_config.eos_token_id
        listed = ends if isinstance(ends, list) else [ends]
        self._ends = sorted({end for end in (*listed, self._tokenizer.eos_token_id) if end is not None})
        # generate() takes what it is not told from here.
        self._model.generation_config = GenerationConfig(
            eos_token_id=self._ends or None, pad_token_id=0, decoder_start_token_id=self._decoder_start
        )

    def chat(self, requests: Sequence[ChatRequest]) -> list[Completion]:
        """One completion per request, in order; temperature 0 is greedy. One that cannot be served (too long, settings
        out of range) has `error` set. Raises EngineError for a JSON schema."""
        if any(request.json_schema is not None for request in requests):
            raise EngineError(f"{self._name}: engine transformers writes to no JSON schema; vllm and openai do")
        called = time.perf_counter()
        accepted = [self._accept(request) for request in requests]
        draws = [
            Draw(request, prompt, None if request.seed is None else request.seed + sample)
            for request, prompt in zip(requests, accepted, strict=True)
            if isinstance(prompt, Prompt)
            for sample in range(request.n)
        ]
        drawn: list[Completion] = [Completion("", "", "error")] * len(draws)
        for numbers in self._batches_of(draws):
            begun = time.perf_counter() - called
            samples = self._generate([draws[n] for n in numbers])
            self.finished += len(numbers)
            ended = time.perf_counter() - called
            share = (ended - begun) / len(numbers) * self._devices
            for number, sample in zip(numbers, samples, strict=True):
                drawn[number] = replace(sample, seconds=ended, queue_s=begun, device_s=share)
        running = iter(drawn)
        return [
            prompt if isinstance(prompt, Completion) else _joined(list(islice(running, request.n)), len(prompt.ids))
            for request, prompt in zip(requests, accepted, strict=True)
        ]

    def count_tokens(self, messages: Sequence[dict[str, str]]) -> int:
        """Tokens of the prompt that `chat` would send, template and BOS included."""
        return len(self._chat.prompt(messages).ids)

    def _accept(self, request: ChatRequest) -> Prompt | Completion:
        prompt = self._chat.accept(request, self.max_model_len)
        if isinstance(prompt, Completion):
            return prompt
        wrong = _out_of_range(request)
        return Completion.failed(wrong, prompt.text, len(prompt.ids)) if wrong else prompt

    def _batches_of(self, draws: list[Draw]) -> Iterator[list[int]]:
        """Numbers of draws of similar length, at most batch_tokens padded tokens together; one draw at least."""
        size = [(len(draw.prompt.ids), draw.request.max_tokens) for draw in draws]
        batch: list[int] = []
        new = 0
        for n in sorted(range(len(draws)), key=lambda n: size[n]):
            prompt, wanted = size[n]
            if batch and (len(batch) + 1) * (prompt + max(new, wanted)) > self._batch_tokens:
                yield batch
                batch, new = [], 0
            batch.append(n)
            new = max(new, wanted)
        if batch:
            yield batch

    def _generate(self, draws: list[Draw]) -> list[Completion]:
        import torch
        from transformers import LogitsProcessorList

        rows, start = [draw.prompt.ids for draw in draws], 1  # of a decoder's ids, behind its start token
        if self._seq2seq:
            ids, mask = self._padded([[*row, self._tokenizer.eos_token_id] for row in rows])
        else:  # at the left, for every prompt to end where its answer begins
            ids, mask = (side.flip(1) for side in self._padded([row[::-1] for row in rows]))
            start = ids.shape[1]
        sampler = Sampler(draws, self._device)
        with torch.inference_mode(), quiet():
            written = self._model.generate(
                input_ids=ids,
                attention_mask=mask,
                logits_processor=LogitsProcessorList([sampler]),
                do_sample=False,  # the sampler leaves one token to choose
                max_new_tokens=max(draw.request.max_tokens for draw in draws),
            )[:, start:].tolist()
        return [self._completion(draw, written[n], [step[n] for step in sampler.logs]) for n, draw in enumerate(draws)]

    def _completion(self, draw: Draw, ids: list[int], logs: list[float]) -> Completion:
        """Of a row that may have run on, for a neighbour's sake, behind its own end."""
        ids = ids[: draw.request.max_tokens]
        end = next((place for place, token in enumerate(ids) if token in self._ends), None)
        kept = ids if end is None else ids[: end + 1]
        text = str(self._tokenizer.decode(kept, skip_special_tokens=True))
        reason = "length" if end is None else "stop"
        chosen = tuple(logs[: len(kept)]) if draw.request.logprobs else None
        return Completion(text, draw.prompt.text, reason, generated_tokens=len(kept), logprobs=chosen)


class Sampler:
    """A transformers logits processor that draws each row's next token by that row's own settings and generator, and
    leaves no other. `logs`: per step and row the natural log p of the token drawn, before temperature and top_p."""

    def __init__(self, draws: Sequence[Draw], device: str) -> None:
        import torch

        self._requests, self.logs = [draw.request for draw in draws], list[list[float]]()
        self._generators = [torch.Generator(device) for _ in draws]
        for generator, draw in zip(self._generators, draws, strict=True):
            if draw.seed is None:
                generator.seed()
            else:
                generator.manual_seed(draw.seed)

    def __call__(self, input_ids: Any, scores: Any) -> Any:
        import torch

        logs = scores.float().log_softmax(-1)
        chosen = torch.stack([self._draw(row, n) for n, row in enumerate(logs)])[:, None]
        self.logs.append(logs.gather(1, chosen)[:, 0].tolist())
        return torch.full_like(scores, -torch.inf).scatter_(1, chosen, 0.0)

    def _draw(self, logs: Any, n: int) -> Any:
        """int64 scalar. top_p keeps the likeliest tokens that together reach it, one at least."""
        import torch

        request = self._requests[n]
        if request.temperature == 0:
            return logs.argmax()
        p, order = (logs / request.temperature).softmax(-1).sort(descending=True)
        p[p.cumsum(0) - p > request.top_p] = 0
        return order[torch.multinomial(p, 1, generator=self._generators[n])[0]]


def _joined(samples: list[Completion], prompt_tokens: int) -> Completion:
    first, *others = samples
    worked = sum(sample.device_s or 0.0 for sample in samples)
    return replace(first, prompt_tokens=prompt_tokens, others=tuple(others), device_s=worked)


def _out_of_range(request: ChatRequest) -> str:
    """Why these settings cannot be sampled with; empty where they can."""
    if request.temperature < 0:
        return f"temperature must be at least 0, not {request.temperature}"
    if not 0 < request.top_p <= 1:
        return f"top_p must be above 0 and at most 1, not {request.top_p}"
    if request.max_tokens < 1 or request.n < 1:
        return f"max_tokens and n must be at least 1, not {request.max_tokens} and {request.n}"
    if request.n > 1 and request.temperature == 0:
        return f"n must be 1 where temperature is 0, not {request.n}: all samples would be the same"
    return ""
