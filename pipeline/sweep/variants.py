"""Variants checked, and what makes two of them share work: a content address for the table after each stage."""

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

import pyarrow as pa

from pipeline.compose import System
from pipeline.errors import InputError
from pipeline.profile import Profile
from pipeline.stage import Stage
from pipeline.storage import to_json
from pipeline.sweep.config import Variant

RULES = 1  # raised when the meaning of an address changes
Models = Callable[[Profile, str], Mapping[str, Any]]  # profile, role -> what identifies the model


@dataclass(frozen=True)
class Checked:
    """A variant whose config was found right. `indexes`: name -> identity of the index (a JSON value).
    `models`: role -> what identifies its model.

    `keys[n]` is the address of the table after n stages: equal addresses, equal tables.
    """

    variant: Variant
    system: System
    profile: Profile
    indexes: Mapping[str, Any]
    models: Mapping[str, Any]
    questions: pa.Table
    keys: tuple[str, ...]


def checked(
    variant: Variant,
    system: System,
    profile: Profile,
    indexes: Mapping[str, Any],
    questions: pa.Table,
    models: Models,
) -> Checked:
    """The variant with its addresses; `questions` is the question table in the variant's form."""
    digest = hashlib.sha256(json.dumps(questions.to_pylist(), sort_keys=True).encode()).hexdigest()
    keys = [_address({"rules": RULES, "tartan": version("tartan"), "questions": digest})]
    named = {role: dict(models(profile, role)) for stage in system.stages for role in _roles(stage, profile)}
    for stage in system.stages:
        keys.append(_address({"after": keys[-1], "stage": _content(stage, profile, indexes, named)}))
    return Checked(variant, system, profile, indexes, named, questions, tuple(keys))


def shared_keys(variants: Sequence[Checked]) -> set[str]:
    """Addresses at which the ways of variants part: their tables are kept, to be continued from.

    Raises InputError where two variants are the same from end to end: comparing them would say nothing.
    """
    following: dict[str, set[str]] = {}
    last: dict[str, str] = {}
    for one in variants:
        if other := last.get(one.keys[-1]):
            raise InputError(f"variants '{other}' and '{one.variant.name}' are the same system; leave one of them out.")
        last[one.keys[-1]] = one.variant.name
        for before, after in zip(one.keys, [*one.keys[1:], "end"], strict=True):
            following.setdefault(before, set()).add(after)
    first = {one.keys[0] for one in variants}  # the question tables themselves
    return {key for key, after in following.items() if len(after) > 1 and key not in first}


def _roles(stage: Stage, profile: Profile) -> list[str]:
    ways = stage.methods().values()
    return [*stage.models(), *profile.retrievers(method for methods in ways for method in methods)]


def _content(stage: Stage, profile: Profile, indexes: Mapping[str, Any], models: Mapping[str, Any]) -> dict[str, Any]:
    """What a stage's outcome depends on, beside its input."""
    methods = stage.methods()
    return {
        "name": stage.name,
        "settings": stage.model_dump(mode="json", by_alias=True),  # files in it carry fingerprints
        "prompts": {use.prompt.name: use.prompt.sha256 for use in stage.prompts()},
        "models": {role: models[role] for role in _roles(stage, profile)},
        "indexes": {name: [indexes[name], sorted(methods.get(name, ()))] for name in stage.indexes()},
    }


def _address(value: Any) -> str:
    return hashlib.sha256(to_json(value)).hexdigest()[:16]
