"""What an index is built from and how: one YAML file (configs/indexes), checked whole before anything starts."""

from pathlib import Path
from typing import Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from pipeline.errors import InputError
from pipeline.profile import config_file


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class CorpusConfig(_Section):
    path: str
    text: str = "text"
    id: str = "id"


class SplitConfig(_Section):
    unit: Literal["tokens", "characters"] = "tokens"
    size: int = Field(450, gt=0)
    overlap: int = Field(0, ge=0)

    @model_validator(mode="after")
    def _moves_forward(self) -> "SplitConfig":
        if self.overlap >= self.size:
            raise ValueError(f"overlap {self.overlap} must be smaller than size {self.size}")
        return self


class EncoderConfig(_Section):
    role: str = "retriever"


class CodecConfig(_Section):
    nbits: int = 2
    kmeans_iterations: int = Field(4, gt=0)
    bucket_recipe: Literal["lloyd-max", "quantile"] = "lloyd-max"
    sample_memory_gib: float = Field(8, gt=0)
    seed: int = 0


class ShardsConfig(_Section):
    documents: int = Field(50_000, gt=0)


class IndexConfig(_Section):
    corpus: CorpusConfig
    split: SplitConfig = SplitConfig()
    encoder: EncoderConfig = EncoderConfig()
    codec: CodecConfig = CodecConfig()
    shards: ShardsConfig = ShardsConfig()


def load_index_config(path: Path | None, corpus: str | None, sets: list[str]) -> IndexConfig:
    """The file (configs/indexes/default.yaml where None) with `--corpus` and `--set section.key=value` applied.

    Raises InputError: no such file, not YAML, an unknown or ill-typed key, no corpus named.
    """
    path = path or config_file("indexes", "default")
    if not path.is_file():
        raise InputError(f"{path}: no such index config; `tartan index --corpus 'FILES' --out FOLDER` needs none")
    try:
        values = yaml.safe_load(path.read_text()) or {}
    except yaml.YAMLError as problem:
        raise InputError(f"{path} is not YAML: {' '.join(str(problem).split())}") from problem
    if not isinstance(values, dict):
        raise InputError(
            f"{path}: expected sections {', '.join(IndexConfig.model_fields)}, found {type(values).__name__}"
        )
    for assignment in sets:
        _assign(values, assignment)
    if corpus:
        values.setdefault("corpus", {})["path"] = corpus
    if not (values.get("corpus") or {}).get("path"):
        raise InputError(f"{path.name}: no corpus; give --corpus 'FILES' or set corpus.path")
    try:
        return IndexConfig.model_validate(values)
    except ValidationError as problem:
        raise InputError(f"{path.name}: {_sentence(problem)}") from problem


def _assign(values: dict[str, Any], assignment: str) -> None:
    key, found, text = assignment.partition("=")
    section, dot, field = key.partition(".")
    if not found or not dot:
        raise InputError(f"--set {assignment}: expected SECTION.KEY=VALUE, for example codec.nbits=4")
    known = IndexConfig.model_fields
    if section not in known:
        raise InputError(f"--set {assignment}: no section '{section}'; sections: {', '.join(known)}")
    values[section] = {**(values.get(section) or {}), field: yaml.safe_load(text)}


def _sentence(problem: ValidationError) -> str:
    first = problem.errors()[0]
    where = ".".join(str(part) for part in first["loc"])
    if first["type"] == "extra_forbidden":
        model: Any = IndexConfig
        for part in first["loc"][:-1]:
            model = model.model_fields[str(part)].annotation
        return f"unknown key '{where}'; keys there: {', '.join(model.model_fields)}"
    return f"{where}: {first['msg']} (found {first['input']!r})"
