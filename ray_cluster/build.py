"""An index build over a cluster: the steps of pipeline/plaid/build.py as Ray Data jobs, a row being a shard.

Passages are read by CPU workers, encoding is done by actors that load the encoder once. Only the names of shards
travel through the object store: text and vectors go from storage to storage inside one worker. What is committed is
not redone. Workers come and go while a step runs; a worker that dies costs its shard one of its tries.
"""

import logging
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import ray
import ray.data
from ray.exceptions import RayError, RayTaskError

from pipeline.errors import InputError, UnfinishedError
from pipeline.lexical.build import collection_key
from pipeline.plaid.plan import Plan
from pipeline.plaid.publish import collection, publish_step
from pipeline.profile import ModelSpec
from pipeline.storage import Home
from ray_cluster import workers
from ray_cluster.actors import one_line
from ray_cluster.progress import Live, Watch

TRIES = 3  # at a shard whose worker dies under it
PER_DOCUMENT = ("passages",)  # steps whose progress is counted in documents; the others' in passages


@dataclass
class Job:
    """One build: what it is to do, and what has failed so far (shard -> reason). Not `partial`: a failure ends it with
    its step, for what follows would be that of another collection."""

    plan: Plan
    home: Home
    live: Live
    tries: int = TRIES
    partial: bool = False
    failed: dict[str, str] = field(default_factory=dict)

    def shards(
        self, step: str, names: Sequence[str], work: workers.Work, held: dict[str, Any], actors: int | None = None
    ) -> None:
        """One step over the shards of `names` that lack its commit or have it damaged.

        By at most so many `actors`, which set themselves up once, or by tasks, whose processes Ray keeps for the next
        step; each holds `held`. There are as many at a time as the cluster has room for, with nodes that join later.
        Raises as `stop_if_failed` does, unless the build may be partial.
        """
        done = self.home.done(step)
        missing = [name for name in names if name not in done or self._damaged(f"{step}/{name}")]
        units = {name: self._units(step, name) for name in names}
        total = sum(units.values())
        with self.live.step(step, total - sum(units[name] for name in missing), total):
            if missing:
                self._run(step, missing, work, held, actors)
        if not self.partial:
            self.stop_if_failed(step, names)

    def _run(
        self, step: str, missing: Sequence[str], work: workers.Work, held: dict[str, Any], actors: int | None
    ) -> None:
        left = set(missing)
        how: dict[str, Any]
        if actors is None:
            how = {"fn": workers.run, "fn_args": (work, self.live.teller()), "max_retries": self.tries - 1}
        else:
            pool = ray.data.ActorPoolStrategy(
                min_size=1, max_size=max(1, min(actors, len(missing))), max_tasks_in_flight_per_actor=1
            )
            # Restarts without limit: a poison shard spends its own tries, not the pool.
            tries = {"max_restarts": -1, "max_task_retries": self.tries - 1}
            how = {
                "fn": workers.Worker,
                "fn_constructor_args": (work, self.live.teller()),
                "compute": pool,
                **tries,
            }
        with _ray_data_for_builds(), _as_unfinished(f"{self.home}, step {step}"):
            rows = ray.data.from_items([{"shard": name} for name in missing], override_num_blocks=len(missing))
            outcomes = rows.map_batches(batch_size=1, batch_format="pyarrow", **how, **held)
            for outcome in outcomes.iter_rows():
                left.discard(outcome["shard"])
                if outcome["error"]:
                    self._fail(outcome["shard"], outcome["error"])
        committed = self.home.done(step) if left else set()
        for name in sorted(left - committed):
            self._fail(name, f"its worker died {self.tries} times (killed, out of memory, or a crash), step {step}")

    def _fail(self, name: str, reason: str) -> None:
        self.failed[name] = f"{reason} [{self.plan.shard(name).place()}]"
        self.live.fail()

    def _damaged(self, name: str) -> bool:
        """Whether a commit's files are not what it says; it is then forgotten, so that it is done again."""
        if not self.home.damage(self.home.need(name)):
            return False
        self.home.forget(name)
        return True

    def _units(self, step: str, name: str) -> int:
        if step in PER_DOCUMENT:
            return self.plan.shard(name).documents
        return self.home.need(f"passages/{name}")["passages"]

    def without_failed(self, names: Sequence[str]) -> list[str]:
        return [name for name in names if name not in self.failed]

    def stop_if_failed(self, step: str, names: Sequence[str]) -> None:
        """Raises UnfinishedError that names each shard of `names` which failed, with its reason and its documents."""
        if failed := [name for name in names if name in self.failed]:
            reasons = "; ".join(f"shard {name}: {self.failed[name]}" for name in failed)
            raise UnfinishedError(f"{self.home}, step {step}: {len(failed)} of {len(names)} shards failed: {reasons}")


def build(
    plan: Plan,
    names: Sequence[str],
    home: Home,
    spec: ModelSpec,
    tokenizer: Path,
    watch: Watch,
    *,
    dense: ModelSpec | None = None,
    allow_missing: bool = False,
    drop: Sequence[str] = (),
    tries: int = TRIES,
    maker: str = workers.MAKE_MODEL,
) -> dict[str, Any]:
    """Runs every step that `home` still lacks and returns the manifest.

    `names`: the shards to build; `plan` may have more. `dense`: the model of `dense.role`, if the plan has one.
    `allow_missing`: shards that fail are left out, and the manifest says so. Raises UnfinishedError naming the shards
    that failed, each with its reason; the others are committed.
    """
    job = Job(plan, home, Live(watch), tries, partial=allow_missing)
    names = collection(names, home, drop)
    cpu = {"num_cpus": 1}
    job.shards("passages", names, workers.Passages(plan, home, tokenizer), cpu)
    bm25 = plan.config.lexical.bm25
    if bm25:
        job.shards("lexical", job.without_failed(names), workers.Postings(plan, home), cpu)
    held: dict[str, Any] = {"num_cpus": spec.cpus, "num_gpus": spec.gpus}
    _codec(job, names, spec, maker, held)
    encoder = workers.Encode(plan, home, spec, maker)
    job.shards("shards", job.without_failed(names), encoder, held, spec.replicas)
    if dense is not None:
        held = {"num_cpus": dense.cpus, "num_gpus": dense.gpus}
        embedder = workers.Vectors(plan, home, dense, maker)
        job.shards("vectors", job.without_failed(names), embedder, held, dense.replicas)
    if bm25:
        build_statistics(job, job.without_failed(names))
    return publish_step(plan, names, home, job.failed, drop, partial=allow_missing)


def build_statistics(job: Job, names: Sequence[str]) -> None:
    """BM25's statistics and weights for the collection of `names`; raises as `build` does."""
    key = collection_key(names)
    with _as_unfinished(f"{job.home}, step statistics"):
        ray.get(workers.statistics.remote(list(names), job.home))
    work = workers.Weights(job.plan, job.home, key)
    job.shards(f"weights/{key}", names, work, {"num_cpus": 1})
    job.stop_if_failed("weights", names)


def _codec(job: Job, names: Sequence[str], spec: ModelSpec, maker: str, held: dict[str, Any]) -> None:
    if job.home.committed("codec") is not None:
        return
    sampled = job.without_failed(names)
    total = sum(job.home.need(f"passages/{name}")["passages"] for name in sampled)
    with job.live.step("codec", 0, total), _as_unfinished(f"{job.home}, step codec"):
        teller = job.live.teller()
        ray.get(workers.codec.options(**held).remote(job.plan, job.home, spec, maker, sampled, teller))


@contextmanager
def _ray_data_for_builds() -> Iterator[None]:
    """Ray Data goes on after a worker's death, adds workers as soon as there is room, and leaves the telling to us."""
    context = ray.data.DataContext.get_current()
    scaling = context.autoscaling_config
    before = context.max_errored_blocks, scaling.actor_pool_util_upscaling_threshold
    context.max_errored_blocks, scaling.actor_pool_util_upscaling_threshold = -1, 1.0
    noisy = logging.getLogger("ray.data._internal.execution.streaming_executor_state")
    level = noisy.level
    noisy.setLevel(logging.CRITICAL)  # a suppressed error's traceback; the shard is named in our own words
    try:
        with warnings.catch_warnings():
            # Retries have no other way in until Ray 2.64, which pyproject.toml excludes.
            warnings.filterwarnings("ignore", message=".*ray_remote_args.*")
            yield
    finally:
        context.max_errored_blocks, scaling.actor_pool_util_upscaling_threshold = before
        noisy.setLevel(level)


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
            f"{where}: its workers died ({one_line(problem)}); what was committed stays, run the command again to "
            "continue"
        ) from problem
