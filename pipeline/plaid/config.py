"""What an index is built from and how: one YAML file (configs/indexes), checked whole before anything starts."""

from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from pipeline.corpus.document import Columns
from pipeline.corpus.split import Unit
from pipeline.errors import InputError
from pipeline.settings import explain, find_config, parse_set, read_mapping, set_value

# Size and overlap by unit. Tokens: HLTCOE's passages. Sentences: the official LiveRAG indices'.
SPLITS = {"tokens": (450, 0), "characters": (1000, 100), "sentences": (512, 0)}


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class CorpusConfig(_Section):
    path: str | None = None
    text: str = "text"
    id: str = "id"
    url: str = "url"
    title: str | None = None
    title_tokens: int = Field(32, gt=0)
    on_bad_file: Literal["error", "skip"] = "error"

    @property
    def columns(self) -> Columns:
        return Columns(self.text, self.id, self.url, self.title)


class SplitConfig(_Section):
    """`size` and `overlap` left null are the unit's own."""

    unit: Unit = "tokens"
    size: int = Field(450, gt=0)
    overlap: int = Field(0, ge=0)

    @model_validator(mode="before")
    @classmethod
    def _of_unit(cls, values: Any) -> Any:
        if not isinstance(values, dict) or not isinstance(unit := values.get("unit", "tokens"), str):
            return values
        size, overlap = SPLITS.get(unit, SPLITS["tokens"])
        overlap = 0 if values.get("size") is not None else overlap  # the usual overlap belongs to the usual size
        given = {key: value for key, value in values.items() if value is not None}
        return {"size": size, "overlap": overlap} | given

    @model_validator(mode="after")
    def _moves_forward(self) -> "SplitConfig":
        if self.overlap >= self.size:
            raise ValueError(f"overlap {self.overlap} must be smaller than size {self.size}")
        return self

    def check_room(self, room: int, title_tokens: int | None, source: str) -> None:
        """Raises InputError where a checkpoint that reads `room` tokens of a passage would not read all of one, with
        its title and the line break after it where `title_tokens` are set apart for that. Of passages measured in
        characters the tokens are not known."""
        title = 0 if title_tokens is None else title_tokens + 1
        if self.unit == "characters" or self.size + title <= room:
            return
        also = f" and its title up to {title} (corpus.title_tokens and a line break)" if title else ""
        fits = f"set split.size={room - title} or smaller" if room > title else "set corpus.title_tokens smaller"
        raise InputError(
            f"split.size is {self.size} tokens{also}, but {source} reads {room} of a passage (doc_maxlen {room + 3} "
            f"less 3 markers); {fits}, or the profile's models.NAME.doc_maxlen larger where the model reads more"
        )


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


class EstimateConfig(_Section):
    """Totals that `tartan plan` takes where corpus or checkpoint are not at hand; no build reads them."""

    documents: int | None = Field(None, gt=0)
    tokens_per_document: float | None = Field(None, gt=0)
    bytes_per_document: float | None = Field(None, gt=0)
    dim: int | None = Field(None, gt=0)
    layers: int | None = Field(None, gt=0)
    hidden_size: int | None = Field(None, gt=0)
    intermediate_size: int | None = Field(None, gt=0)

    @model_validator(mode="after")
    def _whole(self) -> "EstimateConfig":
        for names in (
            ("documents", "tokens_per_document", "bytes_per_document"),
            ("dim", "layers", "hidden_size", "intermediate_size"),
        ):
            missing = [name for name in names if getattr(self, name) is None]
            if missing and len(missing) < len(names):
                raise ValueError(f"states some of {', '.join(names)}; it needs {', '.join(missing)}, too")
        return self


class DenseConfig(_Section):
    role: str | None = Field(None, description="role of the embedder; null: no dense vectors")
    index: Literal["exact", "flat", "ivf", "hnsw"] = "exact"
    cells: int | None = Field(None, gt=0, description="ivf: k-means cells of a shard; null: 4 sqrt(passages)")
    links: int = Field(32, gt=1, description="hnsw: M, links of a passage")
    ef_construction: int = Field(200, gt=0, description="hnsw: candidates kept while building")


class IndexConfig(_Section):
    corpus: CorpusConfig = CorpusConfig()
    split: SplitConfig = SplitConfig()
    encoder: EncoderConfig = EncoderConfig()
    codec: CodecConfig = CodecConfig()
    shards: ShardsConfig = ShardsConfig()
    lexical: LexicalConfig = LexicalConfig()
    dense: DenseConfig = DenseConfig()
    estimate: EstimateConfig = Field(EstimateConfig(), exclude=True)  # no part of an index or its fingerprint

    @model_validator(mode="after")
    def _titles_fit(self) -> "IndexConfig":
        if self.corpus.title is not None and self.split.unit == "characters":
            raise ValueError(
                "corpus.title needs split.unit tokens or sentences: whether title and passage fit into the model is "
                "counted in tokens"
            )
        return self


def load_index_config(
    name_or_path: str | Path, corpus: str | None, sets: list[str], need_corpus: bool = True
) -> IndexConfig:
    """The file (a path, or a name in configs/indexes) with `--corpus` and `--set section.key=value` applied.

    Raises InputError: no such file, not YAML, an unknown or ill-typed key, no corpus named (if `need_corpus`).
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
    if need_corpus and config.corpus.path is None:
        raise InputError(f"{path.name}: no corpus; give --corpus 'FILES' or set corpus.path")
    return config
