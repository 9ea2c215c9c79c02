"""Evidence: the items of a column of passages, snippets or pairs that count, as the text a prompt is given."""

from collections.abc import Callable
from typing import Any, Literal

from pipeline.env import LLM

Item = dict[str, Any]
Messages = tuple[dict[str, str], ...]


def kept(items: list[Item] | None) -> list[Item]:
    """The items that no stage has dropped. Passages carry no `kept`: a dropped passage is no longer in its list."""
    return [item for item in items or [] if item.get("kept", True)]


def joined(items: list[Item]) -> str:
    """The items' texts in order, a blank line between two."""
    return "\n\n".join(item["text"] for item in items)


def fitted(
    items: list[Item],
    messages: Callable[[list[Item]], Messages],
    llm: LLM,
    max_tokens: int,
    drop: Literal["last", "first"] = "last",
    most: int | None = None,
) -> tuple[Messages, list[Item]]:
    """The prompt with as many whole items as leave room for `max_tokens` of answer, and those items.

    The room is what the model reads, or `most` tokens where that is less.
    Items give way one by one from the end that `drop` names; what surrounds them stays. The largest number that fits
    is found by bisection: a prompt that fits, the usual case, is counted once. With none left the prompt may still be
    too long: that is for the model to refuse.
    """

    room = llm.max_model_len if most is None else min(most, llm.max_model_len)

    def attempt(size: int) -> tuple[Messages, list[Item]]:
        left = items[:size] if drop == "last" else items[len(items) - size :]
        return messages(left), left

    def fits(candidate: tuple[Messages, list[Item]]) -> bool:
        return llm.count_tokens(candidate[0]) + max_tokens <= room

    best = attempt(len(items))
    if not items or fits(best):
        return best
    best, low, high = attempt(0), 0, len(items)  # low items fit (or are none), high items do not
    while high - low > 1:
        middle = (low + high) // 2
        candidate = attempt(middle)
        if fits(candidate):
            best, low = candidate, middle
        else:
            high = middle
    return best
