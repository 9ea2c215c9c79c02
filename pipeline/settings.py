"""YAML files and `--set` options, read so that whatever is wrong becomes one sentence."""

import difflib
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any, get_args, get_origin

import yaml
from pydantic import BaseModel, ValidationError

from pipeline.errors import InputError
from pipeline.profile import Profile, config_file

SINGULAR = {"indexes": "index"}  # of a folder of configs, where it is not the name without its s


class _UniqueKeys(yaml.SafeLoader):
    """YAML as it is, except that a key given twice is an error: the last one winning hides a mistake."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict:
        seen: set[str] = set()
        for key, _ in node.value:
            if key.value in seen and isinstance(key, yaml.ScalarNode):
                raise yaml.MarkedYAMLError(problem=f"key '{key.value}' is given twice", problem_mark=key.start_mark)
            seen |= {key.value} if isinstance(key, yaml.ScalarNode) else set()
        return super().construct_mapping(node, deep=deep)


def find_config(kind: str, name: str | Path) -> Path:
    """The file of a shipped config (`hltcoe`) or of a path; InputError that lists the shipped ones where missing."""
    path = Path(name)
    shipped = config_file(kind, str(name))
    if path.name == str(name) and not path.suffix and shipped.is_file():
        return shipped
    if path.is_file():
        return path
    there = sorted(file.stem for file in config_file(kind, "any").parent.glob("*.yaml"))
    what = "is a folder, not a file" if path.is_dir() else "does not exist"
    raise InputError(
        f"{SINGULAR.get(kind, kind.removesuffix('s'))} '{name}' {what}. Shipped {kind}: {', '.join(there) or 'none'}; "
        f"else give a YAML file's path.{close_match(path.name, there)}"
    )


def read_mapping(path: Path) -> dict[str, Any]:
    """The mapping that a YAML file holds."""
    try:
        config = yaml.load(path.read_text(encoding="utf-8"), _UniqueKeys)
    except (OSError, UnicodeDecodeError) as problem:
        raise InputError(f"{path.name} cannot be read as text: {problem}.") from problem
    except yaml.YAMLError as problem:
        mark = getattr(problem, "problem_mark", None)
        line = f", line {mark.line + 1}" if mark else ""
        raise InputError(f"{path.name}{line}: not YAML: {getattr(problem, 'problem', None) or problem}.") from problem
    if not isinstance(config, dict):
        what = "is empty" if config is None else f"holds a {type(config).__name__}"
        raise InputError(f"{path.name} {what}; it wants a mapping 'key: value'.")
    return config


def parse_set(option: str) -> tuple[list[str], Any]:
    """`a.b=1` as (["a", "b"], 1), the value read as YAML."""
    target, equals, value = option.partition("=")
    keys = target.strip().split(".")
    if not equals or not all(keys):
        raise InputError(f"--set {option}: wants KEY=VALUE with a dotted key, such as answer.max_words=100.")
    try:
        return keys, yaml.load(value, _UniqueKeys)
    except yaml.YAMLError as problem:
        raise InputError(f"--set {option}: the value is not YAML. Quote it: --set '{target}=\"...\"'.") from problem


def split_sets(sets: Iterable[str]) -> tuple[list[str], list[str]]:
    """Options for the system and options for the profile, told apart by their first word."""
    options = list(sets)
    ours = [option for option in options if parse_set(option)[0][0] in Profile.model_fields]
    return [option for option in options if option not in ours], ours


def set_value(config: dict[str, Any], keys: list[str], value: Any, model: type[BaseModel], where: str) -> None:
    """Set a dotted key of `config`, a raw `model`, in place; only what `model` or the file knows can be set."""
    node, kind = config, model
    for depth, key in enumerate(keys):
        names = _names(kind) if _is_model(kind) else list(node)
        free = depth > 0 and keys[depth - 1] == "engine_options"  # the engine knows its options, we do not
        if key not in names and not free:
            raise InputError(f"{where}: {_unknown('.'.join(keys[: depth + 1]), key, names)}")
        if depth == len(keys) - 1:
            node[key] = value
            return
        node[key] = node.get(key) if node.get(key) is not None else {}
        if not isinstance(node[key], dict):
            raise InputError(f"{where}: '{'.'.join(keys[: depth + 1])}' is {node[key]!r} and has no keys of its own.")
        node, kind = node[key], _inside(kind, key)


def explain(problem: ValidationError, model: type[BaseModel]) -> str:
    """The first thing wrong, in one sentence. An unknown key comes first: it is often why another one is missing."""
    errors = problem.errors(include_url=False, include_context=False)
    error = next((error for error in errors if error["type"] == "extra_forbidden"), errors[0])
    loc = [str(part) for part in error["loc"]]
    parent: Any = model
    for part in loc[:-1]:
        parent = _inside(parent, part)
    names = _names(parent) if _is_model(parent) else []
    key = ".".join(loc)
    if error["type"] == "extra_forbidden":
        return _unknown(key, loc[-1], names)
    if error["type"] == "missing":
        return f"key '{key}' is missing. Keys here: {', '.join(names)}."
    message = re.sub(r"^(Value error, |\w+ (?=should ))", "", error["msg"]).split(" after validation")[
        0
    ]  # pydantic's words
    if isinstance(error["input"], dict) and error["type"] == "value_error":  # of several keys: the message names them
        return f"{key}: {message}." if key else f"{message}."
    return f"key '{key}' {message}, not {error['input']!r}." if key else f"{message}."


def close_match(name: str, names: Iterable[str]) -> str:
    """` Did you mean 'x'?` where something is close, else nothing."""
    found = difflib.get_close_matches(str(name), list(names), n=1)
    return f" Did you mean '{found[0]}'?" if found else ""


def _unknown(shown: str, key: str, names: list[str]) -> str:
    return f"unknown key '{shown}'. Keys here: {', '.join(map(str, names))}.{close_match(key, names)}"


def _names(model: type[BaseModel]) -> list[str]:
    return [field.alias or name for name, field in model.model_fields.items()]


def _is_model(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, BaseModel)


def _inside(kind: Any, key: str) -> Any:
    """What a key of a model, or any key of a dict, holds: a type, or None where nothing is known."""
    if _is_model(kind):
        return next((f.annotation for name, f in kind.model_fields.items() if key in (name, f.alias)), None)
    return get_args(kind)[1] if get_origin(kind) is dict else None
