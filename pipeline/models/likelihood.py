"""Likelihoods by a plain transformers model, causal or sequence-to-sequence: exact, over the whole vocabulary."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from pipeline.errors import InputError
from pipeline.models.chat import ChatFormat
from pipeline.models.loading import choose_precision, quiet
from pipeline.models.pairs import PairFormat, TokenPair
from pipeline.models.resolve import resolve_model
from pipeline.profile import ModelSpec

UNLIMITED = 10**6  # tokenizers without a limit name an astronomical one
DISTRIBUTIONS_BYTES = 1 << 28  # of float32 distributions that `divergences` holds at once
Read = Callable[[Any, int], Any]  # (float32 [tokens of the continuation, vocabulary] log p, number of the pair)


class TransformersScorer:
    """`env.Scorer` with divergences. The model's config says which it is; the tokens are PairFormat's.

    Batches hold pairs of similar length, padded at the right and masked, so that a pair's numbers are those it has
    alone, up to rounding. Log-softmax is taken in float32 whatever the weights are in.
    """

    def __init__(self, spec: ModelSpec) -> None:
        """Loads the model. Raises InputError where its config is of neither kind."""
        import torch
        from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForSeq2SeqLM, AutoTokenizer

        folder, trust = str(resolve_model(spec.source, spec.revision)), spec.trust_remote_code
        if spec.cpus >= 1:
            torch.set_num_threads(int(spec.cpus))
        self._device = "cuda" if torch.cuda.is_available() else "cpu"
        dtype = getattr(torch, choose_precision(spec.dtype, self._device))
        config = AutoConfig.from_pretrained(folder, trust_remote_code=trust)
        self._seq2seq = bool(config.is_encoder_decoder)
        self._tokenizer = tokenizer = AutoTokenizer.from_pretrained(folder, trust_remote_code=trust)
        kind = AutoModelForSeq2SeqLM if self._seq2seq else AutoModelForCausalLM
        try:
            with quiet():
                model = kind.from_pretrained(folder, dtype=dtype, trust_remote_code=trust)
        except ValueError as problem:  # transformers has no such model of this kind
            reason = " ".join(str(problem).split())[:300]
            raise InputError(f"model '{spec.source}': transformers does not load it as a scorer: {reason}") from problem
        self._model = model.eval().to(self._device)
        self._decoder_start: int | None = config.decoder_start_token_id if self._seq2seq else None
        self.max_model_len = spec.max_model_len or _limit(config, tokenizer)
        self._batch_tokens, self._vocabulary = spec.batch_tokens, int(model.config.get_text_config().vocab_size)
        ends = tokenizer.bos_token_id, tokenizer.eos_token_id
        self._name, self._chat = f"model '{spec.source}'", ChatFormat(tokenizer)
        self._format = PairFormat(self._chat, self.max_model_len, *ends, self._seq2seq)

    def log_likelihoods(self, pairs: Sequence[tuple[str, str]]) -> list[np.ndarray]:
        """Per (context, continuation) float32 [tokens of the continuation], natural log; EOS is not scored."""
        encoded = [self._format.pair(*pair) for pair in pairs]

        def chosen(logs: Any, number: int) -> np.ndarray:
            ids = logs.new_tensor(encoded[number].continuation, dtype=int)
            return logs.gather(1, ids[:, None])[:, 0].cpu().numpy()

        return self._each(encoded, chosen)

    def divergences(self, triples: Sequence[tuple[str, str, str]]) -> np.ndarray:
        """float32 [n], nats, never below 0; 0 for an empty continuation."""
        left = [self._format.pair(context, continuation) for context, _, continuation in triples]
        right = [self._format.pair(other, continuation) for _, other, continuation in triples]
        found = np.zeros(len(triples), np.float32)
        order = sorted(range(len(triples)), key=lambda n: len(left[n].context) + len(left[n].continuation))
        for numbers in self._affordable(order, left):
            whole = self._each([left[n] for n in numbers], lambda logs, _: logs)

            def divergence(logs: Any, k: int, whole: list[Any] = whole) -> float:
                p = whole[k]
                return float((p.exp() * (p - logs)).sum(1).mean().clamp_min(0)) if len(logs) else 0.0

            found[numbers] = self._each([right[n] for n in numbers], divergence)
        return found

    def next_token(self, prompts: Sequence[str], options: Sequence[str]) -> np.ndarray:
        """float32 [n, options]. ValueError where options share their first token or a prompt is too long."""
        tokens = self._format.first_tokens(options)
        encoded = [self._format.prompt(prompt, tokens) for prompt in prompts]
        rows = self._each(encoded, lambda logs, _: logs[0, tokens].cpu().numpy())
        return np.array(rows, np.float32).reshape(len(prompts), len(options))

    def cuts(self, pairs: Sequence[tuple[str, str]]) -> list[int]:
        return [self._format.pair(*pair).cut for pair in pairs]

    def _affordable(self, order: list[int], pairs: list[TokenPair]) -> Iterator[list[int]]:
        """`order` in runs whose distributions fit into DISTRIBUTIONS_BYTES; one pair at least."""
        run: list[int] = []
        size = 0
        for n in order:
            needed = len(pairs[n].continuation) * self._vocabulary * 4
            if run and size + needed > DISTRIBUTIONS_BYTES:
                yield run
                run, size = [], 0
            run.append(n)
            size += needed
        if run:
            yield run

    def _each(self, pairs: list[TokenPair], read: Read) -> list[Any]:
        """`read` of each pair's distributions, in the pairs' order."""
        import torch

        found: list[Any] = [None] * len(pairs)
        with torch.inference_mode():
            for numbers in self._batches(pairs):
                logits, firsts = self._logits([pairs[n] for n in numbers])
                for row, (n, first) in enumerate(zip(numbers, firsts, strict=True)):
                    logs = logits[row, first : first + len(pairs[n].continuation)].float().log_softmax(-1)
                    found[n] = read(logs, n)
        return found

    def _batches(self, pairs: list[TokenPair]) -> Iterator[list[int]]:
        """Numbers of pairs of similar length, at most batch_tokens padded tokens together; one pair at least."""
        length = [len(pair.context) + len(pair.continuation) for pair in pairs]
        batch: list[int] = []
        for n in sorted(range(len(pairs)), key=lambda n: length[n]):
            if batch and (len(batch) + 1) * length[n] > self._batch_tokens:
                yield batch
                batch = []
            batch.append(n)
        if batch:
            yield batch

    def _logits(self, pairs: list[TokenPair]) -> tuple[Any, list[int]]:
        """Logits [pairs, positions, vocabulary], and for each pair the position that predicts its first token."""
        if self._seq2seq:
            ids, mask = self._padded([pair.context for pair in pairs])
            # The decoder sees the start token and the continuation but its last; padding behind it changes nothing.
            before, _ = self._padded([[self._decoder_start, *pair.continuation][:-1] or [0] for pair in pairs])
            return self._model(input_ids=ids, attention_mask=mask, decoder_input_ids=before).logits, [0] * len(pairs)
        ids, mask = self._padded([pair.context + pair.continuation for pair in pairs])
        skipped = min(len(pair.context) for pair in pairs) - 1  # positions that predict nobody's continuation
        logits = self._model(input_ids=ids, attention_mask=mask, logits_to_keep=ids.shape[1] - skipped).logits
        return logits, [len(pair.context) - 1 - skipped for pair in pairs]

    def _padded(self, rows: list[list[Any]]) -> tuple[Any, Any]:
        """int64 ids and mask [rows, longest]; the padding's id is any, for it is masked."""
        import torch

        longest = max(map(len, rows))
        ids = torch.tensor([row + [0] * (longest - len(row)) for row in rows], device=self._device)
        mask = torch.tensor([[1] * len(row) + [0] * (longest - len(row)) for row in rows], device=self._device)
        return ids, mask


def _limit(config: Any, tokenizer: Any) -> int:
    """Tokens the model reads, by its config or its tokenizer, whichever is less."""
    positions = getattr(config.get_text_config(), "max_position_embeddings", None) or UNLIMITED
    return int(min(positions, tokenizer.model_max_length, UNLIMITED))
