"""An index build over a cluster: the steps of pipeline/plaid/build.py as Ray Data jobs, a row being a shard.

Passages run as CPU tasks, encoding as an actor pool that loads the encoder once per actor. Only commit records travel
through the object store: text and vectors go from disk to disk inside one worker. What is committed is not redone.
"""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
import ray
import ray.data

from pipeline import storage
from pipeline.errors import UnfinishedError
from pipeline.plaid.plan import Plan
from pipeline.profile import ModelSpec

Progress = Callable[[str, int, int], None]  # step, shards done, shards in all


def build(plan: Plan, out: Path, spec: ModelSpec, tokenizer: Path, progress: Progress) -> dict[str, Any]:
    """Runs every step that `out` still lacks and returns the manifest.

    Raises UnfinishedError naming the shards that failed, each with its reason; the others are committed.
    """
    names = [shard.shard for shard in plan.shards]
    _run(
        "passages",
        names,
        out,
        progress,
        lambda rows: rows.map_batches(
            _Passages,
            fn_constructor_args=(plan, out, tokenizer),
            batch_size=1,
            batch_format="pyarrow",
            num_cpus=1,
            compute=ray.data.ActorPoolStrategy(min_size=1, max_size=max(1, int(ray.cluster_resources().get("CPU", 1)))),
        ),
    )
    progress("codec", 0, 1)
    if storage.committed(out, "codec") is None:
        ray.get(_codec.options(num_cpus=spec.cpus, num_gpus=spec.gpus).remote(plan, out, spec))
    progress("codec", 1, 1)
    _run(
        "shards",
        names,
        out,
        progress,
        lambda rows: rows.map_batches(
            _Encoder,
            fn_constructor_args=(plan, out, spec),
            batch_size=1,
            batch_format="pyarrow",
            num_cpus=spec.cpus,
            num_gpus=spec.gpus,
            compute=ray.data.ActorPoolStrategy(min_size=1, max_size=spec.replicas),
        ),
    )
    from pipeline.plaid.build import publish_step

    return publish_step(plan, out)


def _run(
    step: str, shards: list[str], out: Path, progress: Progress, job: Callable[[ray.data.Dataset], ray.data.Dataset]
) -> None:
    missing = [shard for shard in shards if storage.committed(out, f"{step}/{shard}") is None]
    done = len(shards) - len(missing)
    progress(step, done, len(shards))
    if not missing:
        return
    failed = []
    for outcome in _rows(
        job(ray.data.from_items([{"shard": shard} for shard in missing], override_num_blocks=len(missing)))
    ):
        if outcome["error"]:
            failed.append(f"shard {outcome['shard']}: {outcome['error']}")
        else:
            done += 1
            progress(step, done, len(shards))
    if failed:
        raise UnfinishedError(
            f"{out}, step {step}: {len(failed)} of {len(shards)} shards failed: {'; '.join(sorted(failed))}"
        )


def _rows(data: ray.data.Dataset) -> Iterable[dict[str, Any]]:
    return data.iter_rows()


def _outcome(shard: str, error: str | None) -> pa.Table:
    return pa.table({"shard": pa.array([shard], pa.string()), "error": pa.array([error], pa.string())})


class _Passages:
    def __init__(self, plan: Plan, out: Path, tokenizer: Path) -> None:
        self._plan, self._out, self._tokenizer = plan, out, tokenizer

    def __call__(self, batch: pa.Table) -> pa.Table:
        from pipeline.plaid.build import passages_step

        shard = batch["shard"][0].as_py()
        return _outcome(shard, _attempt(lambda: passages_step(self._plan, shard, self._out, self._tokenizer)))


class _Encoder:
    def __init__(self, plan: Plan, out: Path, spec: ModelSpec) -> None:
        from pipeline.local import make_model
        from pipeline.plaid.build import open_codec

        self._plan, self._out, self._encoder = plan, out, make_model(spec)
        self._codec, self._folder = open_codec(out, self._encoder)

    def __call__(self, batch: pa.Table) -> pa.Table:
        from pipeline.plaid.build import encode_step

        shard = batch["shard"][0].as_py()
        return _outcome(
            shard,
            _attempt(lambda: encode_step(self._plan, shard, self._out, self._encoder, self._codec, self._folder)),
        )


@ray.remote(max_retries=2)
def _codec(plan: Plan, out: Path, spec: ModelSpec) -> None:
    from pipeline.local import make_model
    from pipeline.plaid.build import codec_step

    codec_step(plan, out, make_model(spec))


def _attempt(work: Callable[[], object]) -> str | None:
    """The reason why `work` failed, in words, or None: one bad shard must not end the job of the others."""
    try:
        work()
    except Exception as problem:  # noqa: BLE001 - whatever it is, it is this shard's failure and is reported with it
        return f"{type(problem).__name__}: {problem}"
    return None
