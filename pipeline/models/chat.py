"""From chat messages to the token ids a model reads: its own template, and exactly one beginning-of-sequence token."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from threading import Lock
from typing import Any

from pipeline.env import ChatRequest, Completion


@dataclass(frozen=True)
class Prompt:
    """`ids` is what the model reads; `text` is what they spell, special tokens included."""

    text: str
    ids: list[int]


class ChatFormat:
    """A tokenizer and its chat template, safe to use from several threads.

    Where BOS comes from: a template that starts with it has put it there, and none is added; where the text lacks it
    and the tokenizer starts plain text with one, it is put in front; a tokenizer without that habit gets none.
    A tokenizer without a chat template (a base model) gets the messages' contents, joined by empty lines.

    Contents are text, never control: a special token spelt in a web page (`<|im_end|>`) is broken by a space, so that a
    passage cannot end the user's turn and open one of its own.
    """

    def __init__(self, tokenizer: Any) -> None:
        """`tokenizer`: a transformers tokenizer."""
        self._tokenizer = tokenizer
        self._lock = Lock()  # fast tokenizers refuse to be borrowed by two threads at once
        self._bos: str | None = tokenizer.bos_token
        started = tokenizer("a", add_special_tokens=True)["input_ids"][0]
        self._adds_bos = self._bos is not None and started == tokenizer.bos_token_id
        special = sorted(filter(None, tokenizer.all_special_tokens), key=len, reverse=True)
        self._special = re.compile("|".join(map(re.escape, special))) if special else None

    def prompt(self, messages: Sequence[dict[str, str]]) -> Prompt:
        """The prompt for `messages`. Raises jinja2.TemplateError where the template refuses them (an unknown role)."""
        with self._lock:
            text = self._text(messages)
            ids = list(self._tokenizer(text, add_special_tokens=False)["input_ids"])
            if self._bos is None or not self._adds_bos or text.startswith(self._bos):
                return Prompt(text, ids)
            return Prompt(self._bos + text, [self._tokenizer.bos_token_id, *ids])

    def accept(self, request: ChatRequest, limit: int) -> Prompt | Completion:
        """The prompt of `request`, or the failed completion of one that the template refuses or that, with what is to
        be generated, exceeds `limit` tokens."""
        from jinja2 import TemplateError

        try:
            prompt = self.prompt(request.messages)
        except TemplateError as problem:
            return Completion.failed(f"the model's chat template refuses the messages: {problem}")
        length, new = len(prompt.ids), request.max_tokens
        if length + new > limit:
            error = f"prompt of {length} tokens and {new} to generate exceed the model's {limit}"
            return Completion.failed(error, prompt.text, length)
        return prompt

    def start(self) -> list[int]:
        """The BOS token where the tokenizer starts plain text with one, else nothing."""
        return [self._tokenizer.bos_token_id] if self._adds_bos else []

    def plain(self, text: str) -> list[int]:
        """Token ids of `text` by itself: no chat, nothing added at its ends, special tokens broken as in a message."""
        with self._lock:
            return list(self._tokenizer(self._harmless(text), add_special_tokens=False)["input_ids"])

    def _text(self, messages: Sequence[dict[str, str]]) -> str:
        # Ray hands tuples and read-only mappings around; templates expect a list of dicts.
        chat = [{**message, "content": self._harmless(message["content"])} for message in messages]
        if self._tokenizer.chat_template is None:
            return "\n\n".join(message["content"] for message in chat)
        return self._tokenizer.apply_chat_template(chat, tokenize=False, add_generation_prompt=True)

    def _harmless(self, content: str) -> str:
        if self._special is None:
            return content
        return self._special.sub(lambda found: f"{found[0][0]} {found[0][1:]}", content)
