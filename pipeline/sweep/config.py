"""A sweep file: which variants of which systems are run, and which of them is the baseline.

system: hltcoe                     # a name or a file; variants may name another
set: {answer.max_tokens: 96}       # the same in every variant: keys as for --set, of the system or the profile
vary: {filter_snippets.min_cosine: [0, 0.35, null]}    # a grid: every combination of the keys' values
variants:                          # or, or beside it, a list
  - {name: no-filter, system: rag, set: {search.k: 3}, questions: typos, against: rag-3}    # not the baseline
baseline: {filter_snippets.min_cosine: 0.35}           # the values, or the name, of the variant that others are held to
metrics: [nDCG@10, containment]    # of the outcome table; none: all

Two keys belong to no system: `questions` (a form of pipeline/sweep/forms.py) and `index.NAME.KEY`, a setting of an
index that the sweep builds from --corpus.
"""

import itertools
import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from pipeline.errors import InputError
from pipeline.settings import explain, find_config, read_mapping

Form = Literal["as_given", "typos", "keywords", "paraphrased"]
FORMS: tuple[Form, ...] = get_args(Form)
UNSAFE = re.compile(r"[^\w.=,+-]+")


class Listed(BaseModel):
    """One entry of `variants`."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    name: str = Field(min_length=1)
    system: str | None = None
    set: dict[str, Any] = {}
    questions: Form = "as_given"
    against: str | None = None


class SweepFile(BaseModel):
    """The file as it is written."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    description: str = ""
    system: str | None = None
    set: dict[str, Any] = {}
    vary: dict[str, list[Any]] = {}
    variants: list[Listed] = []
    baseline: str | dict[str, Any]
    metrics: list[str] = []


class Variant(BaseModel):
    """One system with its settings, one form of the questions. `name` is unique and fit for a folder."""

    model_config = ConfigDict(frozen=True)
    name: str
    system: str
    settings: dict[str, Any]  # of system and profile, dotted
    questions: Form = "as_given"
    against: str | None = None  # the variant it is compared with; None: the baseline
    index_settings: dict[str, dict[str, Any]] = {}  # index name -> settings of its build

    def options(self) -> list[str]:
        """The settings as `--set` options."""
        return [f"{key}={json.dumps(value)}" for key, value in self.settings.items()]


class Sweep(BaseModel):
    """A sweep file with its variants spelt out."""

    model_config = ConfigDict(frozen=True)
    name: str
    variants: list[Variant]
    baseline: str
    metrics: list[str]


def read_sweep(name_or_path: str | Path) -> Sweep:
    """A sweep by name (configs/sweeps) or path. Raises InputError: what is wrong, what exists."""
    path = find_config("sweeps", name_or_path)
    try:
        file = SweepFile.model_validate(read_mapping(path))
    except ValidationError as problem:
        raise InputError(f"{path.name}: {explain(problem, SweepFile)}") from problem
    variants = [_variant(path.name, near=path.parent, **parts) for parts in _parts(file, path.name)]
    names = [variant.name for variant in variants]
    if not variants:
        raise InputError(f"{path.name}: 'vary' or 'variants' has to name something to compare.")
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise InputError(f"{path.name}: two variants are called '{twice}'; give each its own name.")
    baseline = _baseline(file, names, path.name)
    for variant in variants:
        if variant.against is not None and (variant.against not in names or variant.against == variant.name):
            raise InputError(
                f"{path.name}: variant '{variant.name}' is against '{variant.against}', which is none of the others: "
                f"{', '.join(name for name in names if name != variant.name)}."
            )
        if variant.against is not None and variant.name == baseline:
            raise InputError(f"{path.name}: '{baseline}' is the baseline, which is compared with nothing ('against').")
    return Sweep(name=path.stem, variants=variants, baseline=baseline, metrics=file.metrics)


def _parts(file: SweepFile, where: str) -> Iterator[dict[str, Any]]:
    if empty := next((key for key, values in file.vary.items() if not values), None):
        raise InputError(f"{where}: vary, '{empty}' lists no value.")
    if file.vary:
        for values in itertools.product(*file.vary.values()):
            point = dict(zip(file.vary, values, strict=True))
            yield {"name": point_name(point), "system": file.system, "settings": {**file.set, **point}}
    for listed in file.variants:
        settings = {**file.set, **listed.set, "questions": listed.questions}
        system = listed.system or file.system
        yield {"name": listed.name, "system": system, "settings": settings, "against": listed.against}


def point_name(point: Mapping[str, Any]) -> str:
    """A grid point's name: `min_cosine=0.35`, keys shortened to their last word where that tells them apart."""
    short = {key: key.rpartition(".")[2] for key in point}
    keys = short if len(set(short.values())) == len(short) else {key: key for key in point}
    text = ",".join(f"{keys[key]}={_shown(value)}" for key, value in point.items())
    return UNSAFE.sub("-", text).strip("-")


def _shown(value: Any) -> str:
    if value is None:
        return "off"
    return value if isinstance(value, str) else json.dumps(value).replace('"', "")


def _variant(
    where: str, near: Path, name: str, system: str | None, settings: dict[str, Any], against: str | None = None
) -> Variant:
    if system is None:
        raise InputError(f"{where}: variant '{name}' names no system, nor does the file ('system: NAME').")
    settings = dict(settings)
    form = settings.pop("questions", "as_given")
    if form not in FORMS:
        raise InputError(
            f"{where}: variant '{name}': no form of questions is called {form!r}; forms: {', '.join(FORMS)}."
        )
    of_index: dict[str, dict[str, Any]] = {}
    for key in [key for key in settings if key.startswith("index.")]:
        parts = key.split(".", 2)
        if len(parts) < 3:
            raise InputError(f"{where}: '{key}' wants index.NAME.KEY, such as index.plaid.split.size.")
        of_index.setdefault(parts[1], {})[parts[2]] = settings.pop(key)
    safe = UNSAFE.sub("-", name).strip("-.")
    if not safe:
        raise InputError(f"{where}: the variant name {name!r} has no letter or digit; it becomes a folder's name.")
    beside = near / system
    place = str(beside) if "/" in system and beside.is_file() else system
    return Variant(name=safe, system=place, settings=settings, questions=form, against=against, index_settings=of_index)


def _baseline(file: SweepFile, names: list[str], where: str) -> str:
    wanted = file.baseline
    if isinstance(wanted, dict):
        if set(wanted) != set(file.vary):
            raise InputError(f"{where}: baseline wants a value for each key of vary: {', '.join(file.vary) or 'none'}.")
        wanted = point_name({key: wanted[key] for key in file.vary})
    safe = UNSAFE.sub("-", wanted).strip("-.")
    if safe not in names:
        raise InputError(f"{where}: the baseline '{wanted}' is none of the variants: {', '.join(names)}.")
    return safe
