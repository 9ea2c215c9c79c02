"""What an index is built from and how: one YAML file (configs/indexes), checked whole before anything starts."""

from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from pipeline.errors import InputError
from pipeline.settings import explain, find_config, parse_set, read_mapping, set_value


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class CorpusConfig(_Section):
    path: str | None = None
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
    nbits: int = Field(2, gt=0)
    kmeans_iterations: int = Field(4, gt=0)
    bucket_recipe: Literal["lloyd-max", "quantile"] = "lloyd-max"
    sample_memory_gib: float = Field(8, gt=0)
    renormalise: bool = True
    assignment: Literal["auto", "exact", "coarse"] = "auto"
    seed: int = 0


class ShardsConfig(_Section):
    documents: int = Field(50_000, gt=0)


class LexicalConfig(_Section):
    bm25: bool = True
    k1: float = Field(1.2, ge=0)
    b: float = Field(0.75, ge=0, le=1)


class IndexConfig(_Section):
    corpus: CorpusConfig = CorpusConfig()
    split: SplitConfig = SplitConfig()
    encoder: EncoderConfig = EncoderConfig()
    codec: CodecConfig = CodecConfig()
    shards: ShardsConfig = ShardsConfig()
    lexical: LexicalConfig = LexicalConfig()


def load_index_config(name_or_path: str | Path, corpus: str | None, sets: list[str]) -> IndexConfig:
    """The file (a path, or a name in configs/indexes) with `--corpus` and `--set section.key=value` applied.

    Raises InputError: no such file, not YAML, an unknown or ill-typed key, no corpus named.
    """
    path = find_config("indexes", name_or_path)
    values = read_mapping(path)
    for option in sets:
        set_value(values, *parse_set(option), IndexConfig, f"{path.name}, --set {option}")
    if corpus:
        set_value(values, ["corpus", "path"], corpus, IndexConfig, path.name)
    try:
        config = IndexConfig.model_validate(values)
    except ValidationError as problem:
        raise InputError(f"{path.name}: {explain(problem, IndexConfig)}") from problem
    if config.corpus.path is None:
        raise InputError(f"{path.name}: no corpus; give --corpus 'FILES' or set corpus.path")
    return config
