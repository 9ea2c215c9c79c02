"""The two ways Tartan stops, each with an exit code of its own."""


class InputError(Exception):
    """Bad input or configuration, found before anything started. Exit code 2.

    The message is one sentence for the user: where, what, what exists, how to fix. No traceback is shown.
    """


class UnfinishedError(Exception):
    """Work finished with failures that are listed in the message. Exit code 1."""
