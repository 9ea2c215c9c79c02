"""The workers of an index build: each does one step for the shards it is given."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import ray

from pipeline.plaid.meter import Counts, Meter
from pipeline.plaid.plan import Plan
from pipeline.profile import ModelSpec
from pipeline.storage import Home
from ray_cluster.actors import imported

MAKE_MODEL = "pipeline.local:make_model"
RETRIES = 2  # of the steps that are one task
Tell = Callable[[Counts], None]


class Work(ABC):
    """One step; picklable. Where it is done by actors, `setup` runs once in each, with its first shard."""

    step: str

    def __init__(self, plan: Plan, home: Home) -> None:
        self.plan, self.home = plan, home

    def setup(self) -> None:
        """What all shards share."""
        return None

    @abstractmethod
    def __call__(self, shard: str, meter: Meter) -> None: ...


def run(batch: pa.Table, work: Work, tell: Tell, setup: bool = True) -> pa.Table:
    """What Ray Data calls: {"shard"} -> {"shard", "error"}, a row at a time."""
    shard, error = batch["shard"][0].as_py(), None
    try:
        if setup:
            work.setup()
        meter = Meter(tell)
        work(shard, meter)
        meter.save(work.home, work.step, shard)
    except Exception as problem:  # noqa: BLE001 - one bad shard must not end the job of the others
        error = f"{type(problem).__name__}: {problem}"
    return pa.table({"shard": pa.array([shard], pa.string()), "error": pa.array([error], pa.string())})


class Worker:
    """`run` in an actor, for work whose setup is dear; a setup that fails is tried again with the next shard."""

    def __init__(self, work: Work, tell: Tell) -> None:
        self._work, self._tell = work, tell
        self._ready = False

    def __call__(self, batch: pa.Table) -> pa.Table:
        outcome = run(batch, self._work, self._tell, setup=not self._ready)
        self._ready = self._ready or outcome["error"][0].as_py() is None
        return outcome


class Passages(Work):
    step = "passages"

    def __init__(self, plan: Plan, home: Home, tokenizer: Path) -> None:
        super().__init__(plan, home)
        self._tokenizer = tokenizer

    def __call__(self, shard: str, meter: Meter) -> None:
        from pipeline.plaid.build import passages_step

        passages_step(self.plan, shard, self.home, self._tokenizer, meter)


class Postings(Work):
    step = "lexical"

    def __call__(self, shard: str, meter: Meter) -> None:
        from pipeline.lexical.build import postings_step

        postings_step(self.plan, shard, self.home, meter)


class Weights(Work):
    step = "weights"

    def __init__(self, plan: Plan, home: Home, key: str) -> None:
        super().__init__(plan, home)
        self._key = key

    def __call__(self, shard: str, meter: Meter) -> None:
        from pipeline.lexical.build import weights_step

        weights_step(self.plan.config.lexical, self._key, shard, self.home, meter)


class Vectors(Work):
    step = "vectors"

    def __init__(self, plan: Plan, home: Home, spec: ModelSpec, maker: str = MAKE_MODEL) -> None:
        super().__init__(plan, home)
        self._spec, self._maker = spec, maker
        self._embedder: Any = None

    def setup(self) -> None:
        self._embedder = imported(self._maker)(self._spec)

    def __call__(self, shard: str, meter: Meter) -> None:
        from pipeline.dense.build import vectors_step

        vectors_step(self.plan, shard, self.home, self._embedder, meter)


class Encode(Work):
    step = "shards"

    def __init__(self, plan: Plan, home: Home, spec: ModelSpec, maker: str = MAKE_MODEL) -> None:
        super().__init__(plan, home)
        self._spec, self._maker = spec, maker
        self._encoder: Any = None
        self._codec: Any = None

    def setup(self) -> None:
        from pipeline.plaid.build import open_codec

        self._encoder = imported(self._maker)(self._spec)
        self._codec = open_codec(self.home, self._encoder)

    def __call__(self, shard: str, meter: Meter) -> None:
        from pipeline.plaid.build import encode_step

        codec, folder = self._codec
        encode_step(self.plan, shard, self.home, self._encoder, codec, folder, meter)


@ray.remote(max_retries=RETRIES)
def statistics(shards: Sequence[str], home: Home) -> None:
    from pipeline.lexical.build import statistics_step

    statistics_step(shards, home)


@ray.remote(max_retries=RETRIES)
def codec(plan: Plan, home: Home, spec: ModelSpec, maker: str, shards: Sequence[str], tell: Tell) -> None:
    from pipeline.plaid.build import codec_step

    meter = Meter(tell)
    with meter("load the model"):
        encoder = imported(maker)(spec)
    codec_step(plan, home, encoder, shards, meter)
    meter.save(home, "codec", "all")
