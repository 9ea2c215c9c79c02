"""An index build over a cluster: the steps of pipeline/plaid/build.py as Ray Data jobs, a row being a shard.

Passages are read by CPU workers, encoding is done by actors that load the encoder once. Only the names of shards travel
through the object store: text and vectors go from disk to disk inside one worker. What is committed is not redone.
"""

import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import ray
import ray.data
from ray.exceptions import RayError, RayTaskError

from pipeline import storage
from pipeline.errors import InputError, UnfinishedError
from pipeline.lexical.build import STATISTICS
from pipeline.plaid.plan import Plan
from pipeline.profile import ModelSpec
from ray_cluster.actors import one_line

Progress = Callable[[str, int, int], None]  # step, shards done, shards in all
DEATHS = 2  # of a worker, or of workers under one shard, before a build gives up; Ray Data's own default is no limit


def build(plan: Plan, out: Path, spec: ModelSpec, tokenizer: Path, progress: Progress) -> dict[str, Any]:
    """Runs every step that `out` still lacks and returns the manifest.

    Raises UnfinishedError naming the shards that failed, each with its reason; the others are committed.
    """
    from pipeline.plaid.build import publish_step

    _cpu_step("passages", plan, out, progress, _Passages, tokenizer)
    if plan.config.lexical.bm25:
        build_lexical(plan, out, progress)
    progress("codec", 0, 1)
    held: dict[str, Any] = {"num_cpus": spec.cpus, "num_gpus": spec.gpus}
    if storage.committed(out, "codec") is None:
        with _as_unfinished(f"{out}, step codec"):
            ray.get(_codec.options(**held).remote(plan, out, spec))
    progress("codec", 1, 1)
    _shards_step("shards", plan, out, progress, _Encoder, (plan, out, spec), spec.replicas, held)
    return publish_step(plan, out)


def build_lexical(plan: Plan, out: Path, progress: Progress) -> None:
    """BM25's steps over committed passages; raises as `build` does."""
    _cpu_step("lexical", plan, out, progress, _Postings)
    with _as_unfinished(f"{out}, step {STATISTICS}"):
        ray.get(_statistics.remote(plan, out))
    _cpu_step("weights", plan, out, progress, _Weights)


def _cpu_step(step: str, plan: Plan, out: Path, progress: Progress, worker: type, made_from: Any = None) -> None:
    cpus = max(1, int(ray.cluster_resources().get("CPU", 1)))
    _shards_step(step, plan, out, progress, worker, (plan, out, made_from), cpus, {"num_cpus": 1})


def _shards_step(
    step: str,
    plan: Plan,
    out: Path,
    progress: Progress,
    worker: type,
    arguments: tuple[Any, ...],
    most_workers: int,
    held: dict[str, Any],
) -> None:
    """One step over the shards that lack its commit, by at most `most_workers` actors that hold `held` each."""
    shards = [shard.shard for shard in plan.shards]
    missing = [shard for shard in shards if storage.committed(out, f"{step}/{shard}") is None]
    done = len(shards) - len(missing)
    progress(step, done, len(shards))
    if not missing:
        return
    pool = ray.data.ActorPoolStrategy(min_size=1, max_size=min(most_workers, len(missing)))
    failed = []
    with warnings.catch_warnings(), _as_unfinished(f"{out}, step {step}"):
        # max_restarts has no other way in until Ray 2.64, which pyproject.toml excludes.
        warnings.filterwarnings("ignore", message=".*ray_remote_args.*")
        rows = ray.data.from_items([{"shard": shard} for shard in missing], override_num_blocks=len(missing))
        outcomes = rows.map_batches(
            worker,
            fn_constructor_args=arguments,
            batch_size=1,
            batch_format="pyarrow",
            compute=pool,
            max_restarts=DEATHS,
            max_task_retries=DEATHS,
            **held,
        )
        for outcome in outcomes.iter_rows():
            if outcome["error"]:
                failed.append(f"shard {outcome['shard']}: {outcome['error']}")
            else:
                done += 1
                progress(step, done, len(shards))
    if failed:
        raise UnfinishedError(
            f"{out}, step {step}: {len(failed)} of {len(shards)} shards failed: {'; '.join(sorted(failed))}"
        )


@contextmanager
def _as_unfinished(where: str) -> Iterator[None]:
    """What a worker raises comes out as itself where it is Tartan's own, else as an UnfinishedError that says where."""
    try:
        yield
    except RayTaskError as problem:
        if isinstance(problem.cause, InputError | UnfinishedError):
            raise problem.cause from None
        raise UnfinishedError(f"{where}: {type(problem.cause).__name__}: {one_line(problem.cause)}") from problem
    except RayError as problem:
        raise UnfinishedError(
            f"{where}: workers died more than {DEATHS} times ({one_line(problem)}); what was committed stays, run the "
            "command again to continue"
        ) from problem


class _Worker(ABC):
    """Does one step for the shards it is given; sets itself up with the first, so that a failure there has a name."""

    def __init__(self, plan: Plan, out: Path, made_from: Any) -> None:
        self._plan, self._out, self._made_from = plan, out, made_from
        self._held: Any = None
        self._made = False

    def __call__(self, batch: pa.Table) -> pa.Table:
        shard, error = batch["shard"][0].as_py(), None
        try:
            if not self._made:
                self._held, self._made = self.make(), True
            self.work(shard)
        except Exception as problem:  # noqa: BLE001 - one bad shard must not end the job of the others
            error = f"{type(problem).__name__}: {problem}"
        return pa.table({"shard": pa.array([shard], pa.string()), "error": pa.array([error], pa.string())})

    def make(self) -> Any:
        """What all shards share."""
        return self._made_from

    @abstractmethod
    def work(self, shard: str) -> None: ...


class _Passages(_Worker):
    def work(self, shard: str) -> None:
        from pipeline.plaid.build import passages_step

        passages_step(self._plan, shard, self._out, self._held)


class _Postings(_Worker):
    def work(self, shard: str) -> None:
        from pipeline.lexical.build import postings_step

        postings_step(self._plan, shard, self._out)


class _Weights(_Worker):
    def work(self, shard: str) -> None:
        from pipeline.lexical.build import weights_step

        weights_step(self._plan, shard, self._out)


class _Encoder(_Worker):
    def make(self) -> Any:
        from pipeline.local import make_model
        from pipeline.plaid.build import open_codec

        encoder = make_model(self._made_from)
        return (encoder, *open_codec(self._out, encoder))

    def work(self, shard: str) -> None:
        from pipeline.plaid.build import encode_step

        encode_step(self._plan, shard, self._out, *self._held)


@ray.remote(max_retries=DEATHS)
def _statistics(plan: Plan, out: Path) -> None:
    from pipeline.lexical.build import statistics_step

    statistics_step(plan, out)


@ray.remote(max_retries=DEATHS)
def _codec(plan: Plan, out: Path, spec: ModelSpec) -> None:
    from pipeline.local import make_model
    from pipeline.plaid.build import codec_step

    codec_step(plan, out, make_model(spec))
