"""From (context, continuation) to token ids, with an exact boundary between the two."""

from collections.abc import Sequence
from typing import NamedTuple

from pipeline.models.chat import ChatFormat


class TokenPair(NamedTuple):
    context: list[int]
    continuation: list[int]
    cut: int  # tokens of the context that are left out, at its left


class PairFormat:
    """Context and continuation are tokenised apart and their ids joined, so that no token spans the boundary; the
    white space between them, if any, is for whoever wrote them to put.

    A causal model reads context + continuation, at most `limit` tokens together; BOS is in front where the tokenizer
    starts plain text with one, and an empty context is BOS (else EOS) alone, because the first token needs something
    before it. A sequence-to-sequence model reads the context and EOS in its encoder and the continuation in its
    decoder, at most `limit` tokens each. What is too long loses the left of its context; BOS stays. A continuation that
    does not fit is a ValueError, for no likelihood of a part stands for that of the whole.
    """

    def __init__(self, chat: ChatFormat, limit: int, bos: int | None, eos: int | None, seq2seq: bool = False) -> None:
        """`bos`, `eos`: ids of the tokenizer, None where it has none."""
        self._chat, self._limit, self._seq2seq = chat, limit, seq2seq
        self._first = chat.start()
        self._alone = [token for token in (bos, eos) if token is not None][:1]
        self._end = [eos] if seq2seq and eos is not None else []

    def pair(self, context: str, continuation: str) -> TokenPair:
        return self._fitted(self._chat.plain(context), self._chat.plain(continuation))

    def prompt(self, prompt: str, options: Sequence[int]) -> TokenPair:
        """A user's turn, template included, before any one of `options`: for the distribution of the next token."""
        ids = self._chat.prompt([{"role": "user", "content": prompt}]).ids
        room = self._limit - (len(self._end) if self._seq2seq else 1)
        if len(ids) > room:
            raise ValueError(f"a prompt of {len(ids)} tokens exceeds the {room} that the model reads")
        return TokenPair(ids + self._end, list(options[:1]), 0)

    def first_tokens(self, options: Sequence[str]) -> list[int]:
        """The first token of each option. ValueError where one has none, or two share theirs."""
        tokens = [self._chat.plain(option)[:1] for option in options]
        if [] in tokens or len({token[0] for token in tokens}) < len(tokens):
            raise ValueError(f"the options {list(options)} do not begin with different tokens of this model")
        return [token[0] for token in tokens]

    def _fitted(self, context: list[int], continuation: list[int]) -> TokenPair:
        around = len(self._first) + len(self._end)
        room = self._limit - around - (0 if self._seq2seq else len(continuation))
        if room < (0 if around else 1) or len(continuation) > self._limit:
            raise ValueError(f"a continuation of {len(continuation)} tokens exceeds the {self._limit} the model reads")
        cut = max(0, len(context) - room)
        before = (self._first + context[cut:] + self._end) or self._alone
        if not before:
            raise ValueError("an empty context, and the tokenizer has neither BOS nor EOS to stand for it")
        return TokenPair(before, continuation, cut)
