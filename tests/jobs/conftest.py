"""What tests of several commands share."""

from collections.abc import Callable

import pytest

from jobs.cli import main

Tartan = Callable[..., tuple[int, str]]  # a command's arguments -> its exit code, and what it said (stderr, stdout)


@pytest.fixture
def tartan(capsys: pytest.CaptureFixture[str]) -> Tartan:
    def run(*arguments: object) -> tuple[int, str]:
        with pytest.raises(SystemExit) as stopped:
            main([str(argument) for argument in arguments])
        said = capsys.readouterr()
        return int(stopped.value.code or 0), said.err + said.out

    return run
