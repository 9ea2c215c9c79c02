"""YAML -> checked system: every stage built, every column, prompt and role accounted for, before any model loads.

A system file is `stages:`, a list of one-key mappings `name: {settings}`; the settings are the stage's fields.
Whatever is wrong raises InputError: file, stage number (from 1) and name, what, what exists, how to fix.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
from pydantic import ValidationError

from pipeline.columns import Writers, check_reads, check_writes
from pipeline.env import Method
from pipeline.errors import InputError
from pipeline.profile import Profile
from pipeline.prompts import Prompt, check_use
from pipeline.schema import BASE
from pipeline.settings import close_match, explain, find_config, parse_set, read_mapping, set_value
from pipeline.stage import Stage
from pipeline.stages import STAGES

Entry = tuple[str, dict[str, Any]]


@dataclass(frozen=True)
class System:
    """A checked system. `resolved` is the file after `--set`, with defaults; reading it again gives this system."""

    name: str
    path: Path
    stages: list[Stage]
    resolved: dict[str, Any]
    columns: dict[str, pa.DataType]  # of the final table

    def roles(self) -> dict[str, str]:
        """Roles the stages ask for: role -> kind, one of profile.KINDS."""
        return {role: kind for stage in self.stages for role, kind in stage.models().items()}

    def indexes(self) -> list[str]:
        """Names of the indexes the stages search, each once, in order."""
        return list(dict.fromkeys(index for stage in self.stages for index in stage.indexes()))

    def methods(self) -> dict[str, set[Method]]:
        """How the stages search each index."""
        found: dict[str, set[Method]] = {index: set() for index in self.indexes()}
        for stage in self.stages:
            for index, methods in stage.methods().items():
                found[index] |= methods
        return found

    def prompts(self) -> dict[str, Prompt]:
        """Prompts the stages render, by name."""
        return {use.prompt.name: use.prompt for stage in self.stages for use in stage.prompts()}


def load_profile(name_or_path: str | Path, sets: Iterable[str] = ()) -> Profile:
    """A profile by name (configs/profiles) or path, with options such as `models.smollm2.cpus=2`."""
    path = find_config("profiles", name_or_path)
    config = {"name": path.stem, **read_mapping(path)}
    for option in sets:
        keys, value = parse_set(option)
        set_value(config, keys, value, Profile, f"{path.name}, --set {option}")
    try:
        return Profile.model_validate(config)
    except ValidationError as problem:
        raise InputError(f"{path.name}: {explain(problem, Profile)}") from problem


def load_system(name_or_path: str | Path, profile: Profile | None = None, sets: Iterable[str] = ()) -> System:
    """A system by name (configs/systems) or path, with options such as `answer.max_words=100` or `stages.3.k=5`.

    With a profile, the roles the stages ask for are looked up in it too.
    """
    path = find_config("systems", name_or_path)
    entries = _entries(path)
    for option in sets:
        _apply(option, entries, path.name)
    places = [_place(path.name, number, name) for number, (name, _) in enumerate(entries, 1)]
    stages = [_build(place, name, config, path.parent) for place, (name, config) in zip(places, entries, strict=True)]
    columns = dict(BASE)
    writers: Writers = {}
    for number, (place, stage) in enumerate(zip(places, stages, strict=True), 1):
        with _at(place):
            check_reads(stage, columns, writers, stages[number:])
            stage.bind(columns)
            check_writes(stage)
            for use in stage.prompts():
                check_use(use)
            if profile is not None:
                _check_roles(stage, profile)
        columns |= stage.writes()
        writers |= dict.fromkeys(stage.writes(), (number, stage.name))
    resolved = [{stage.name: stage.model_dump(mode="json", by_alias=True)} for stage in stages]
    return System(path.stem, path, stages, {"stages": resolved}, columns)


def _place(file: str, number: int, name: str) -> str:
    return f"{file}, stage {number} ({name})"


def _entries(path: Path) -> list[Entry]:
    """The stages as written: (name, settings)."""
    config = read_mapping(path)
    if unknown := [key for key in config if key not in ("stages", "description")]:
        match = close_match(unknown[0], ["stages", "description"])
        raise InputError(f"{path.name}: unknown key '{unknown[0]}'. Keys here: stages, description.{match}")
    listed = config.get("stages")
    if not isinstance(listed, list) or not listed:
        raise InputError(f"{path.name}: 'stages' wants a list with at least one stage. Stages: {', '.join(STAGES)}.")
    entries: list[Entry] = []
    for number, entry in enumerate(listed, 1):
        if not isinstance(entry, dict) or len(entry) != 1:
            shape = "one mapping 'name: {settings}'"
            raise InputError(f"{path.name}, stage {number}: wants {shape}, not {entry!r}. Stages: {', '.join(STAGES)}.")
        ((name, settings),) = entry.items()
        if name not in STAGES:
            known = f"Stages: {', '.join(STAGES)}.{close_match(name, STAGES)}"
            raise InputError(f"{path.name}, stage {number}: no stage is called '{name}'. {known}")
        if not isinstance(settings, dict | None):
            raise InputError(f"{_place(path.name, number, name)}: wants settings 'key: value', not {settings!r}.")
        entries.append((name, dict(settings or {})))
    return entries


def _apply(option: str, entries: list[Entry], file: str) -> None:
    """`STAGE.key=value`, or `stages.N.key=value` where several stages share the name."""
    keys, value = parse_set(option)
    where = f"{file}, --set {option}"
    there = ", ".join(f"{number} {name}" for number, (name, _) in enumerate(entries, 1))
    if keys[0] == "stages" and len(keys) > 2:
        if not keys[1].isdecimal() or not 1 <= int(keys[1]) <= len(entries):
            raise InputError(f"{where}: no stage {keys[1]}. Stages here: {there}.")
        numbers, rest = [int(keys[1])], keys[2:]
    else:
        numbers, rest = [number for number, (name, _) in enumerate(entries, 1) if name == keys[0]], keys[1:]
    if not numbers:
        match = close_match(keys[0], [name for name, _ in entries])
        raise InputError(f"{where}: no stage is called '{keys[0]}'. Stages here: {there}.{match}")
    if not rest:
        key = next(iter(STAGES[entries[numbers[0] - 1][0]].model_fields))
        raise InputError(f"{where}: wants a key of the stage too, such as {option.partition('=')[0]}.{key}=...")
    if len(numbers) > 1:
        ways = " or ".join(f"stages.{number}.{'.'.join(rest)}" for number in numbers)
        raise InputError(f"{where}: {len(numbers)} stages are called '{keys[0]}'. Set {ways}.")
    name, settings = entries[numbers[0] - 1]
    set_value(settings, rest, value, STAGES[name], where)


@contextmanager
def _at(place: str) -> Iterator[None]:
    """Tells where: an InputError from inside gets the place in front."""
    try:
        yield
    except InputError as problem:
        raise InputError(f"{place}: {problem}") from problem


def _build(place: str, name: str, settings: dict[str, Any], folder: Path) -> Stage:
    with _at(place):
        try:
            return STAGES[name].model_validate(settings, context={"near": folder})
        except ValidationError as problem:
            raise InputError(explain(problem, STAGES[name])) from problem


def _check_roles(stage: Stage, profile: Profile) -> None:
    """Each role is in the profile, and the model that fills it can do what the stage asks of it."""
    for role, kind in stage.models().items():
        if role not in profile.roles:
            match = close_match(role, profile.roles)
            there = ", ".join(profile.roles) or "none"
            raise InputError(
                f"asks for role '{role}' ({kind}), which profile {profile.name} lacks. Roles there: {there}."
                f"{match} Add '{role}: MODEL' under its 'roles'."
            )
        if kind not in profile.model(role).kinds:
            model, filled = profile.roles[role], profile.model(role)
            fitting = [name for name, spec in profile.models.items() if kind in spec.kinds]
            raise InputError(
                f"asks for role '{role}' ({kind}), which profile {profile.name} fills with '{model}' "
                f"({filled.engine}, {' or '.join(filled.kinds)}). Models of kind {kind} there: "
                f"{', '.join(fitting) or 'none'}."
            )
