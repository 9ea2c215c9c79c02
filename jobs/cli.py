"""`tartan COMMAND`: the one place where commands are listed and where failures become sentences and exit codes.

Exit codes: 0 done; 1 finished, with failures listed; 2 bad input or config, nothing started; 130 interrupted, 143
by SIGTERM.
"""

import os
import shlex
import sys
from collections.abc import Callable
from functools import wraps
from importlib import import_module
from typing import Any, NoReturn

import typer
from typer.core import TyperGroup

from jobs.options import complain
from jobs.stopping import Terminated

# Read when torch loads: threads that spin while they wait starve each other where several models share the cores.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")  # of its notes on memory banks nobody can act

COMMANDS = {
    "demo": "Index, answer, score and report the World Factbook on the embedded profile.",
    "doctor": "What this machine has, what it lacks, and how to get it.",
    "check": "Check configs without loading a model.",
    "plan": "Size an index before building it: bytes, memory, hours, dollars.",
    "index": "Build a PLAID index; run again to continue.",
    "search": "Look at the hits of queries.",
    "answer": "Answer a question set with a system; run again to continue.",
    "hosts": "Count an index's documents by host.",
    "score": "Score a run against its gold; compare runs.",
    "report": "Explore a run, or compare several, in one HTML file.",
    "judge-check": "How far a judge agrees with labels, and with itself.",
    "sweep": "Variants of systems, compared with a baseline; run again to continue.",
    "tune": "Choose settings on some questions, report on others.",
    "validate": "Check LiveRAG answers, a TREC run or qrels.",
}


class _Lazy(TyperGroup):
    """Imports a command's module when it is asked for: `tartan --help` and a typing error cost nothing."""

    def list_commands(self, ctx: Any) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: Any, name: str) -> Any:
        return load(name, ctx.find_root().obj) if name in COMMANDS else None


def load(name: str, command_line: list[str]) -> Any:
    """The click command of `jobs/<name>.py`, whose function has the command's name; `-` is `_` there. `command_line`:
    what was typed."""
    module = name.replace("-", "_")
    single = typer.Typer(add_completion=False, rich_markup_mode="markdown", pretty_exceptions_enable=False)
    single.command(name, short_help=COMMANDS[name])(
        _exiting(getattr(import_module(f"jobs.{module}"), module), command_line)
    )
    return typer.main.get_command(single)


def main(arguments: list[str] | None = None) -> None:
    """The `tartan` program."""
    app = typer.Typer(
        cls=_Lazy,
        no_args_is_help=True,
        add_completion=False,
        help="PLAID indexes over web-scale text, and thousands of questions answered over them, on Ray.",
    )
    app.callback()(lambda: None)
    given = sys.argv[1:] if arguments is None else arguments
    guarded(lambda: typer.main.get_command(app).main(args=given, prog_name="tartan", obj=["tartan", *given]))


def run_alone(name: str) -> None:
    """`python -m jobs.NAME`: the same command, nameable by a cluster job."""
    program = f"python -m jobs.{name}"
    guarded(lambda: load(name, [*program.split(), *sys.argv[1:]]).main(prog_name=program))


def guarded(work: Callable[[], Any]) -> NoReturn:
    """Runs a command and exits. What the user can mend is a sentence on stderr, never a traceback."""
    from pipeline.env import EngineError
    from pipeline.errors import InputError, UnfinishedError

    try:
        work()
    except InputError as problem:
        _stop(problem, 2)
    except (UnfinishedError, EngineError) as problem:
        _stop(problem, 1)
    except OSError as problem:  # a full disk, a file taken away
        where = f"{problem.filename}: " if problem.filename else ""
        _stop(f"{where}{problem.strerror or problem}; what was committed stays", 1)
    sys.exit(0)


def _stop(problem: object, code: int) -> NoReturn:
    complain(problem)
    sys.exit(code)


def _exiting(function: Callable[..., int], command_line: list[str]) -> Callable[..., None]:
    """The command with the same options; its return value becomes the exit code."""

    @wraps(function)
    def command(*arguments: Any, **options: Any) -> None:
        try:
            code = function(*arguments, **options)
        except KeyboardInterrupt as stop:  # here, because typer would end the program without a word
            _stop(
                "interrupted; what was committed stays, run the same command again to continue:\n  "
                + shlex.join(command_line),
                143 if isinstance(stop, Terminated) else 130,
            )
        raise typer.Exit(code)

    return command


if __name__ == "__main__":
    main()
