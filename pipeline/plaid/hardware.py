"""The machines a build is planned for: a cluster file, and how fast an encoder is on them."""

import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from pipeline.errors import InputError
from pipeline.plaid.estimate import EncoderShape
from pipeline.plaid.pieces import DocumentEncoder
from pipeline.settings import explain, find_config, read_mapping

_TEXTS_AT_ONCE = 64


class ClusterConfig(BaseModel):
    """`configs/clusters/*.yaml`. Rates are of one GPU, or of a whole node where it has none."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    nodes: int = Field(1, gt=0)
    gpus_per_node: int = Field(0, ge=0, description="0: the processor encodes")
    gpu: str | None = None
    tflops: float | None = Field(None, gt=0, description="effective 1e12 FLOP/s, not the data sheet's peak")
    tokens_per_second: float | None = Field(None, gt=0, description="that the encoder reads")
    dollars_per_node_hour: float | None = Field(None, ge=0)
    memory_gib: float | None = Field(None, gt=0, description="of a node")

    @model_validator(mode="after")
    def _one_rate(self) -> "ClusterConfig":
        if self.tflops is not None and self.tokens_per_second is not None:
            raise ValueError("a cluster states tflops or tokens_per_second, not both")
        return self

    @property
    def encoders(self) -> int:
        return self.nodes * max(1, self.gpus_per_node)


def load_cluster(name_or_path: str) -> ClusterConfig:
    """A shipped cluster file or one's own. Raises InputError: no such file, not YAML, an unknown or ill-typed key."""
    path = find_config("clusters", name_or_path)
    try:
        return ClusterConfig.model_validate(read_mapping(path))
    except ValidationError as problem:
        raise InputError(f"{path.name}: {explain(problem, ClusterConfig)}") from problem


@dataclass(frozen=True)
class Throughput:
    """Of one encoder: tokens it reads a second, FLOP/s where its arithmetic is known, and where that comes from."""

    tokens_per_second: float
    flops: float | None
    source: str


def from_tokens(tokens_per_second: float, shape: EncoderShape | None, length: float, source: str) -> Throughput:
    """`length`: mean tokens of a passage, on which the FLOP of a token depend."""
    flops = None if shape is None else tokens_per_second * shape.flop(length)
    return Throughput(tokens_per_second, flops, source)


def from_cluster(cluster: ClusterConfig, shape: EncoderShape | None, length: float) -> Throughput | None:
    """What the cluster file states; None where it states no rate.

    Raises InputError for tflops with an encoder that does not say its sizes.
    """
    if cluster.tokens_per_second is not None:
        return from_tokens(cluster.tokens_per_second, shape, length, "the cluster file's tokens_per_second")
    if cluster.tflops is None:
        return None
    if shape is None:
        raise InputError(
            "the cluster file states tflops, but the checkpoint's config.json does not say its layers and widths, so "
            "its FLOP are unknown; give --tokens-per-second or set estimate.dim, layers, hidden_size, intermediate_size"
        )
    flops = cluster.tflops * 1e12
    return Throughput(flops / shape.flop(length), flops, f"the cluster file's {cluster.tflops:g} TFLOP/s")


def measure(encoder: DocumentEncoder, texts: Sequence[str], lengths: np.ndarray, seconds: float) -> float:
    """Tokens read a second, encoding passages of `lengths` tokens for about `seconds`, after one batch to warm up."""
    encoder.encode_tokens(encoder.tokenise_documents(texts[:_TEXTS_AT_ONCE]))
    done, at, started = 0, 0, time.perf_counter()
    while True:
        batch = slice(at, at + _TEXTS_AT_ONCE)
        encoder.encode_tokens(encoder.tokenise_documents(texts[batch]))
        done += int(lengths[batch].sum())
        at = at + _TEXTS_AT_ONCE if at + _TEXTS_AT_ONCE < len(texts) else 0
        if (spent := time.perf_counter() - started) >= seconds:
            return done / spent
