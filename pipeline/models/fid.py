"""Fusion-in-Decoder (arXiv 2007.01282) over a T5 checkpoint: passages are encoded apart and decoded from together.

The weights are T5's own: fusion adds none. A checkpoint that was not trained this way runs, and reads worse.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from pipeline.env import Reading, ReadRequest
from pipeline.errors import InputError
from pipeline.models.chat import ChatFormat
from pipeline.models.loading import choose_precision, quiet
from pipeline.models.resolve import resolve_model
from pipeline.profile import ModelSpec

FAMILY = ("t5", "mt5", "umt5")  # cross-attention without positions: the order of concatenated states means nothing
INPUT_TOKENS = 400  # of an encoder input, EOS included, where the profile says nothing (COMBO's text_maxlength)


class FidReader:
    """`env.Reader`. Padding never reaches the decoder: only the states of real tokens are concatenated, and a shorter
    question of a batch is masked behind its end, so that neighbours do not change an answer, up to rounding."""

    def __init__(self, spec: ModelSpec) -> None:
        """Loads the model. Raises InputError where it is not of the T5 family."""
        import torch
        from transformers import AutoConfig, AutoModelForSeq2SeqLM, AutoTokenizer

        folder = str(resolve_model(spec.source, spec.revision))
        kind = AutoConfig.from_pretrained(folder).model_type
        if kind not in FAMILY:
            raise InputError(f"model '{spec.source}': engine fid wants one of {', '.join(FAMILY)}, not a '{kind}'")
        if spec.cpus >= 1:
            torch.set_num_threads(int(spec.cpus))
        self._device = "cuda" if torch.cuda.is_available() else "cpu"
        dtype = getattr(torch, choose_precision(spec.dtype, self._device))
        with quiet():
            self._model = AutoModelForSeq2SeqLM.from_pretrained(folder, dtype=dtype).eval().to(self._device)
        self._tokenizer = AutoTokenizer.from_pretrained(folder)
        self._format = ChatFormat(self._tokenizer)
        self._pad: int = self._model.config.pad_token_id
        self._eos: int = self._model.config.eos_token_id
        self.max_model_len = spec.max_model_len or INPUT_TOKENS
        self._batch_tokens = spec.batch_tokens

    def read(self, requests: Sequence[ReadRequest]) -> list[Reading]:
        """One reading per request, in order. Raises ValueError where a request has no input."""
        import torch

        if any(not request.inputs for request in requests):
            raise ValueError("fusion-in-decoder has nothing to read: a request without inputs")
        tokens = [self._tokens(request) for request in requests]
        sizes = [sum(map(len, inputs)) for inputs, _ in tokens]
        found: list[Any] = [None] * len(requests)
        with torch.inference_mode():
            for batch in self._batches(requests, sizes):
                states = [self._encode(tokens[n][0]) for n in batch]
                written = self._decode(states, requests[batch[0]])
                for n, ids in zip(batch, written, strict=True):
                    found[n] = self._reading(ids, sizes[n], tokens[n][1])
        return found

    def _tokens(self, request: ReadRequest) -> tuple[list[list[int]], int]:
        """Ids of each input, its end cut to what an encoder pass reads, EOS last; and how many were cut."""
        whole = [self._format.plain(text) for text in request.inputs]
        room = self.max_model_len - 1
        return [[*ids[:room], self._eos] for ids in whole], sum(len(ids) > room for ids in whole)

    def _batches(self, requests: Sequence[ReadRequest], sizes: list[int]) -> Iterator[list[int]]:
        """Numbers of requests that decode alike and are of similar size; at most batch_tokens padded, one at least."""

        def order(n: int) -> tuple[int, int, int]:
            return requests[n].max_tokens, requests[n].beams, sizes[n]

        batch: list[int] = []
        for n in sorted(range(len(requests)), key=order):
            full = batch and (len(batch) + 1) * sizes[n] > self._batch_tokens
            if batch and (full or order(n)[:2] != order(batch[0])[:2]):
                yield batch
                batch = []
            batch.append(n)
        if batch:
            yield batch

    def _encode(self, inputs: list[list[int]]) -> Any:
        """[tokens of all inputs, dim]: each input encoded without sight of the others, padding left out."""
        import torch

        longest = max(map(len, inputs))
        padded = [ids + [self._pad] * (longest - len(ids)) for ids in inputs]
        mask = torch.tensor([[1] * len(ids) + [0] * (longest - len(ids)) for ids in inputs], device=self._device)
        ids = torch.tensor(padded, device=self._device)
        states = self._model.get_encoder()(input_ids=ids, attention_mask=mask).last_hidden_state
        return states[mask.bool()]

    def _decode(self, states: list[Any], request: ReadRequest) -> list[list[int]]:
        """Token ids of each answer, greedy or by beams, up to EOS, which stays if it came."""
        import torch
        from torch.nn.utils.rnn import pad_sequence
        from transformers.modeling_outputs import BaseModelOutput

        lengths = torch.tensor([len(each) for each in states], device=self._device)
        fused: Any = pad_sequence(states, batch_first=True)
        mask = (torch.arange(fused.shape[1], device=self._device)[None] < lengths[:, None]).long()
        written = self._model.generate(
            encoder_outputs=BaseModelOutput(last_hidden_state=fused),
            attention_mask=mask,
            max_new_tokens=request.max_tokens,
            num_beams=request.beams,
            do_sample=False,
        )
        return [_until(ids[1:], self._eos) for ids in written.tolist()]  # the first is the decoder's start

    def _reading(self, ids: list[int], prompt_tokens: int, cut: int) -> Reading:
        reason = "stop" if ids and ids[-1] == self._eos else "length"
        text = str(self._tokenizer.decode(ids, skip_special_tokens=True)).strip()
        return Reading(text, reason, prompt_tokens, len(ids), cut)


def _until(ids: list[int], end: int) -> list[int]:
    return ids[: ids.index(end) + 1] if end in ids else ids
