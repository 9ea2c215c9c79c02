"""`tartan check`: everything about configs that can be known without loading a model."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from jobs.options import ProfileOption, SetOption, complain, counted

if TYPE_CHECKING:
    from pipeline.profile import Profile


def check(
    files: Annotated[
        list[str], typer.Argument(help="System, profile or index configs: files, or names of shipped systems.")
    ],
    profile: ProfileOption = "embedded",
    sets: SetOption = [],  # noqa: B006 - typer reads the default, nobody changes it
) -> int:
    """Check configs and say what each system does, stage by stage; one that is wrong does not hide the others.

    Examples:

        tartan check hltcoe

        tartan check configs/systems/*.yaml --profile paper

        tartan check hltcoe --set filter_snippets.min_cosine=0.5
    """
    from pipeline.compose import load_profile
    from pipeline.errors import InputError
    from pipeline.settings import split_sets

    models = load_profile(profile, split_sets(sets)[1])
    console = Console(soft_wrap=True)
    exit_code = 0
    for file in files:
        try:
            _check(file, profile, models, sets, console)
        except InputError as problem:
            complain(problem)
            exit_code = 2
    return exit_code


def _check(file: str, profile: str, models: "Profile", sets: Sequence[str], console: Console) -> None:
    """Prints what a valid file holds with `sets`, which all have to fit it. Raises InputError."""
    from pipeline.compose import load_profile, load_system
    from pipeline.plaid.config import load_index_config
    from pipeline.schema import type_name
    from pipeline.settings import split_sets

    kind = Path(file).resolve().parent.name if Path(file).is_file() else "systems"
    if kind == "profiles":
        load_profile(file, list(sets))
        console.print(f"{file}: profile, valid")
    elif kind == "indexes":
        load_index_config(file, "any", list(sets))
        console.print(f"{file}: index, valid")
    else:
        system = load_system(file, models, split_sets(sets)[0])
        models.retrievers(method for methods in system.methods().values() for method in methods)
        console.print(f"{file}: system of {counted(len(system.stages), 'stage')}, valid with profile {profile}")
        for number, stage in enumerate(system.stages, 1):
            reads = ", ".join(stage.reads())
            writes = ", ".join(f"{name} ({type_name(kind)})" for name, kind in stage.writes().items())
            console.print(f"  {number} {stage.name}: {reads} -> {writes}", highlight=False, markup=False)


if __name__ == "__main__":
    from jobs.cli import run_alone

    run_alone("check")
