"""Options that several commands share, and how `--index` is read."""

import re
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from pipeline.errors import InputError

Executor = Literal["ray", "local"]

ProfileOption = Annotated[str, typer.Option("--profile", help="Profile name (configs/profiles) or file.")]
SetOption = Annotated[
    list[str], typer.Option("--set", metavar="KEY=VALUE", help="Override a config key, dotted; may be repeated.")
]
AddressOption = Annotated[
    str | None, typer.Option("--address", envvar="RAY_ADDRESS", help="Ray cluster to join; none: start one here.")
]
ExecutorOption = Annotated[Executor, typer.Option(help="ray, or local: everything in this process.")]
PartSizeOption = Annotated[int, typer.Option(min=1, help="Questions of one part, the unit that is committed.")]
IndexOption = Annotated[
    list[str], typer.Option("--index", metavar="NAME=PATH", help="An index that is searched; may be repeated.")
]
CorpusOption = Annotated[str | None, typer.Option("--corpus", help="What indexes are built from, where one is varied.")]
QuestionFileOption = Annotated[Path, typer.Option("--questions", help="Question file, with gold to be scored by.")]
LimitOption = Annotated[int | None, typer.Option("--limit", min=1, help="The file's first questions only, so many.")]
JudgeOption = Annotated[
    str | None, typer.Option("--judge", metavar="ROLE", help="Role of the profile that grades the answers too.")
]
ClaimsOption = Annotated[
    Path | None, typer.Option("--claims", help="Claims of the gold answers, JSONL; else the judge finds them.")
]
ScalingOption = Annotated[str, typer.Option("--scaling", help="Of correctness: signed, linear or none.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")]
QuietOption = Annotated[bool, typer.Option("--quiet", "-q", help="Print the result only.")]


def _can_be_written(value: Path | str | None) -> Path | str | None:
    """An --out as it was given. Raises InputError where nothing can be made there, before anything is done for it."""
    if value is None or "://" in str(value):
        return value
    place = Path(value)
    try:
        while not place.exists():
            place = place.parent
        if not place.is_dir():
            if place != Path(value):
                raise InputError(f"--out {value}: {place} is a file, not a folder; choose another place")
            place = place.parent
        with tempfile.TemporaryFile(dir=place):
            return value
    except OSError as problem:
        reason = (problem.strerror or str(problem)).lower()
        raise InputError(f"--out {value}: nothing can be written in {place} ({reason}); choose another place") from None


def out_option(help: str) -> Any:
    return typer.Option("--out", help=help, callback=_can_be_written)


Say = Callable[[str], None]


def saying(quiet: bool, as_json: bool) -> Say:
    """Progress for people, unless only the result is wanted."""
    return (lambda text: None) if quiet or as_json else (lambda text: print(text, file=sys.stderr))


def complain(problem: object) -> None:
    """What every command says of a fault that ends it, or that it lists."""
    print(f"tartan: {problem}", file=sys.stderr)


def duration(option: str, text: str) -> float:
    """Seconds of "110m", "1h50m", "90s". Raises InputError for anything else, no time at all included."""
    found = re.fullmatch(r"(?:(\d+(?:\.\d+)?)h)?(?:(\d+(?:\.\d+)?)m)?(?:(\d+(?:\.\d+)?)s)?", text)
    hours, minutes, seconds = (float(part or 0) for part in found.groups()) if found else (0.0, 0.0, 0.0)
    if not hours and not minutes and not seconds:
        raise InputError(f"{option} {text}: is no time; write hours, minutes and seconds as in 110m, 1h50m or 90s")
    return 3600 * hours + 60 * minutes + seconds


def counted(number: int, noun: str) -> str:
    """1 shard, 2 shards."""
    return f"{number:,} {noun}" + ("" if number == 1 else "s")


def named_indexes(values: list[str], wanted: list[str]) -> dict[str, str]:
    """`--index NAME=PATH` values as a mapping. A bare PATH serves a system that searches one index.

    Raises InputError where an index the system searches is not given, or one is given that it does not search.
    """
    given: dict[str, str] = {}
    for value in values:
        name, found, path = value.partition("=")
        if not found:
            if len(wanted) != 1:
                raise InputError(f"--index {value}: name it, NAME=PATH; the system searches {_listed(wanted)}")
            name, path = wanted[0], value
        if name in given:
            raise InputError(f"--index is given twice for '{name}', {given[name]} and {path}; give one")
        given[name] = path
    if unknown := [name for name in given if name not in wanted]:
        raise InputError(f"--index {unknown[0]}: the system does not search it; it searches {_listed(wanted)}")
    if missing := [name for name in wanted if name not in given]:
        raise InputError(f"the system searches index {_listed(missing)}; give --index {missing[0]}=PATH")
    return given


def _listed(names: list[str]) -> str:
    return ", ".join(f"'{name}'" for name in names) or "no index"
