"""The two ways Tartan stops, each with an exit code of its own."""

from collections.abc import Sequence


class InputError(Exception):
    """Bad input or configuration, found before anything started. Exit code 2.

    The message is one sentence for the user: where, what, what exists, how to fix. No traceback is shown.
    """


class UnfinishedError(Exception):
    """Work finished with failures that are listed in the message. Exit code 1."""


def some(names: Sequence[str], most: int = 5, separator: str = ", ") -> str:
    """The first names, for a sentence that would be too long with all: "a, b and 7 more"."""
    more = len(names) - most
    return separator.join(names[:most]) + (f" and {more:,} more" if more > 0 else "")
