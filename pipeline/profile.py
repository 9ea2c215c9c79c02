"""A profile: which models fill the roles a system names, and the hardware they get. One YAML file, checked whole.

models:                               # each model is loaded once, whoever asks for it
  smollm2: {engine: vllm, source: 'embedded:smollm2-135m-instruct', max_model_len: 8192}
roles: {query_writer: smollm2, answerer: smollm2}
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from pipeline.env import Method
from pipeline.errors import InputError

RETRIEVER = "retriever"  # the role that encodes the queries of every index searched by plaid
DENSE_RETRIEVER = "dense_retriever"  # the role that embeds those of every index searched by dense vectors
RETRIEVERS: dict[Method, tuple[str, str]] = {"plaid": (RETRIEVER, "encoder"), "dense": (DENSE_RETRIEVER, "embedder")}
Engine = Literal["late-interaction", "sentence-transformers", "vllm", "transformers", "fid"]
# What a model can be asked for, the first being what it is called.
KINDS: dict[str, tuple[str, ...]] = {
    "late-interaction": ("encoder",),
    "sentence-transformers": ("embedder",),
    "vllm": ("llm", "scorer"),
    "transformers": ("scorer", "divergence"),  # likelihoods over the whole vocabulary
    "fid": ("reader",),
}


class ModelSpec(BaseModel):
    """One model: where it comes from, which engine runs it, and what it gets."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    engine: Engine
    source: str = Field(description="embedded:NAME, a folder, or a Hugging Face hub id")
    revision: str | None = None
    dtype: Literal["auto", "float32", "bfloat16", "float16"] = "auto"
    trust_remote_code: bool = False
    max_model_len: int | None = Field(
        None, gt=0, description="tokens read: vllm, transformers: prompt and continuation; fid: one encoder input"
    )
    engine_options: dict[str, str | int | float | bool] = Field(
        {}, description="vllm: passed to the engine as they are"
    )
    kv_cache_gib: int = Field(2, gt=0, description="vllm on CPU: GiB of KV cache")
    doc_maxlen: int | None = Field(None, gt=0, description="late-interaction: tokens of a passage, markers included")
    batch_tokens: int = Field(8192, gt=0, description="padded tokens a forward pass, where not vllm's business")
    replicas: int = Field(1, gt=0)
    cpus: float = Field(1, ge=0, description="of a replica, for Ray's scheduler; also its number of threads")
    gpus: float = Field(0, ge=0, description="of a replica; below 1 it shares a GPU")

    @property
    def kind(self) -> str:
        return self.kinds[0]

    @property
    def kinds(self) -> tuple[str, ...]:
        return KINDS[self.engine]


class Profile(BaseModel):
    """Models by name, and roles that point at them."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    name: str = ""
    models: dict[str, ModelSpec]
    roles: dict[str, str]
    search_workers: int = Field(2, gt=0, description="actors that hold an index's shards between them")
    search_cpus: float = Field(0.5, ge=0, description="of one such actor, for Ray's scheduler")

    @model_validator(mode="after")
    def _roles_point_at_models(self) -> "Profile":
        for role, model in self.roles.items():
            if model not in self.models:
                raise ValueError(f"role '{role}' names model '{model}'; models here: {', '.join(self.models)}")
        return self

    def model(self, role: str) -> ModelSpec:
        return self.models[self.roles[role]]

    def retrievers(self, methods: Iterable[Method]) -> dict[str, ModelSpec]:
        """Role -> model, of the models that searching by these methods needs. InputError where one is lacking."""
        wanted = set(methods)
        found: dict[str, ModelSpec] = {}
        for method, (role, kind) in RETRIEVERS.items():
            if method not in wanted:
                continue
            if role not in self.roles or kind not in self.model(role).kinds:
                has = f"a model of kind {self.model(role).kind}" if role in self.roles else "nothing"
                fitting = ", ".join(name for name, spec in self.models.items() if kind in spec.kinds) or "none"
                raise InputError(
                    f"a search by {method} needs role '{role}' ({kind}), for which profile {self.name} has {has}; "
                    f"put '{role}: MODEL' under its 'roles' (models of kind {kind} there: {fitting})"
                )
            found[role] = self.model(role)
        return found


def config_file(kind: str, name: str) -> Path:
    """`configs/<kind>/<name>.yaml` of the installation."""
    return Path(__file__).resolve().parent.parent / "configs" / kind / f"{name}.yaml"
