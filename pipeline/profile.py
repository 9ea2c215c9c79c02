"""A profile: which models fill the roles a system names, and the hardware they get. One YAML file, checked whole.

models:                               # each model is loaded once, whoever asks for it
  smollm2: {engine: vllm, source: 'embedded:smollm2-135m-instruct', max_model_len: 8192}
roles: {query_writer: smollm2, answerer: smollm2}

A model served elsewhere, by anything that speaks OpenAI's HTTP interface; the key stays in the environment:

  qwen: {engine: openai, source: Qwen/Qwen2.5-7B-Instruct, base_url: 'http://gpu1:8000/v1', api_key_env: QWEN_KEY}
"""

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, model_validator

from pipeline.env import Method
from pipeline.errors import InputError

RETRIEVER = "retriever"  # the role that encodes the queries of every index searched by plaid
DENSE_RETRIEVER = "dense_retriever"  # the role that embeds those of every index searched by dense vectors
RETRIEVERS: dict[Method, tuple[str, str]] = {"plaid": (RETRIEVER, "encoder"), "dense": (DENSE_RETRIEVER, "embedder")}
Engine = Literal["late-interaction", "sentence-transformers", "vllm", "openai", "transformers", "fid"]
# What a model can be asked for, the first being what it is called.
KINDS: dict[str, tuple[str, ...]] = {
    "late-interaction": ("encoder",),
    "sentence-transformers": ("embedder",),
    "vllm": ("llm", "scorer"),
    "openai": (
        "llm",
    ),  # endpoints that give a prompt's log-probabilities are few, and none gives all of the vocabulary
    "transformers": ("scorer", "divergence", "llm"),  # likelihoods over the whole vocabulary
    "fid": ("reader",),
}


class ModelSpec(BaseModel):
    """One model: where it comes from, which engine runs it, and what it gets."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    engine: Engine
    source: str = Field(
        description="embedded:NAME, a folder, or a Hugging Face hub id; openai: the served model's name"
    )
    revision: str | None = None
    dtype: Literal["auto", "float32", "bfloat16", "float16"] = "auto"
    trust_remote_code: bool = False
    max_model_len: int | None = Field(
        None, gt=0, description="tokens: prompt and continuation together; fid: one encoder input"
    )
    engine_options: dict[str, str | int | float | bool] = Field(
        {}, description="vllm: passed to the engine as they are"
    )
    kv_cache_gib: int = Field(2, gt=0, description="vllm on CPU: GiB of KV cache")
    base_url: str | None = Field(None, description="openai: where it is served, up to and with /v1")
    api_key_env: str | None = Field(None, description="openai: the environment variable that holds the key, if any")
    concurrency: int = Field(32, gt=0, description="openai: requests under way at once, from one replica")
    timeout_s: float = Field(300, gt=0, description="openai: of one try; an endpoint answers when all is generated")
    patience_s: float = Field(1200, gt=0, description="openai: of all tries of a request together, waits included")
    doc_maxlen: int | None = Field(None, gt=0, description="late-interaction: tokens of a passage, markers included")
    batch_tokens: int = Field(8192, gt=0, description="padded tokens a forward pass, where not vllm's business")
    replicas: int = Field(1, gt=0)
    min_replicas: int | None = Field(None, gt=0, description="the job starts with these, others join; null: with all")
    tensor_parallel: int = Field(1, gt=0, description="vllm: GPUs that a replica spreads the model over")
    cpus: float = Field(1, ge=0, description="of a replica, for Ray's scheduler; also its number of threads")
    gpus: float = Field(0, ge=0, description="of a replica; below 1 it shares a GPU; tensor_parallel sets it")

    @model_validator(mode="before")
    @classmethod
    def _one_gpu_a_part(cls, given: Any) -> Any:
        """A model in several parts takes a whole GPU for each, unless `gpus` is there to be refused below."""
        parts = given.get("tensor_parallel") if isinstance(given, dict) else None
        return {"gpus": parts, **given} if isinstance(parts, int) and parts > 1 else given

    @model_validator(mode="after")
    def _fits_together(self) -> "ModelSpec":
        if self.min_replicas and self.min_replicas > self.replicas:
            raise ValueError(f"min_replicas is {self.min_replicas} and replicas only {self.replicas}")
        if self.tensor_parallel > 1 and (self.engine != "vllm" or self.gpus != self.tensor_parallel):
            raise ValueError("tensor_parallel is for engine vllm, with as many gpus (leave gpus away)")
        if "tensor_parallel_size" in self.engine_options:
            raise ValueError("engine_options has tensor_parallel_size, which is the setting tensor_parallel here")
        if self.engine == "openai":
            _check_endpoint(self.base_url, self.api_key_env)
        elif self.base_url or self.api_key_env:
            raise ValueError(f"base_url and api_key_env are for engine openai, and this model's is {self.engine}")
        return self

    @property
    def kind(self) -> str:
        return self.kinds[0]

    @property
    def kinds(self) -> tuple[str, ...]:
        return KINDS[self.engine]


def _check_endpoint(base_url: str | None, api_key_env: str | None) -> None:
    """Raises ValueError, without repeating what may be a secret."""
    parts = urlsplit(base_url or "")
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError("engine openai wants base_url, such as http://localhost:8000/v1")
    if parts.username or parts.password or parts.query:
        raise ValueError("base_url holds a password or a query, and run manifests show it; name a key by api_key_env")
    if api_key_env is not None and not re.fullmatch(r"[A-Z_][A-Z0-9_]*", api_key_env):
        raise ValueError("api_key_env wants the name of an environment variable (capitals), never the key itself")


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
