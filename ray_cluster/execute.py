"""Runs stages over parts of a question table by Ray Data, one `map_batches` a stage: the only adapter there is."""

import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import ray
from ray.data.exceptions import ExecutionTimeoutError
from ray.exceptions import RayError, RayTaskError

from pipeline.env import EngineError, Env
from pipeline.errors import InputError
from pipeline.execute import Part, conform, declared
from pipeline.schema import BASE
from pipeline.stage import Stage
from ray_cluster.actors import one_line

PART, ROW, STOP = "__part", "__row", "__stop"  # columns that stages do not see: where a row belongs, why the job ends
HIDDEN = pa.schema([(PART, pa.int64()), (ROW, pa.int64()), (STOP, pa.string())])
STOPPING: dict[str, type[Exception]] = {kind.__name__: kind for kind in (EngineError, InputError)}
NO_PROGRESS_S = 4 * 3600  # each call to a pool has a bound of its own; this one catches what is not such a call
RESTARTS = 3  # of a stage worker whose process or node dies; Ray Data's own default is for ever
# Of a batch: as long as its worker is restarted. For some seconds after a node has died its actors count as alive, and
# every try fails at once, so that a number of tries would be used up before they are started elsewhere.
TRIES = -1


def run_on_ray(
    stages: Sequence[Stage],
    env: Env,
    parts: Iterable[Part],
    *,
    given: Mapping[str, pa.DataType] = BASE,
    batch_size: int = 16,
    concurrency: int = 2,
) -> Iterator[Part]:
    """Each part after all stages, as soon as all of its rows are back, so not always in the order given; its rows in
    their order, its schema `declared(stages, given)`. All parts are read before anything runs; they are one pipeline.

    `given`: the columns the parts come with. `batch_size`: questions a stage sees at once. `concurrency`: workers of
    each stage; they take no CPU of their own, because they wait for the pools of `env`. EngineError and InputError come
    out as the stage raised them.
    """
    missing: dict[int, int] = {}
    blocks = []
    for number, table in parts:
        if table.num_rows == 0:
            yield number, declared(stages, given).empty_table()
            continue
        missing[number] = table.num_rows
        marked = _with_hidden(conform(table, declared([], given)), number)
        blocks += [marked.slice(start, batch_size) for start in range(0, table.num_rows, batch_size)]
    if not blocks:
        return
    held: dict[int, list[pa.Table]] = {number: [] for number in missing}
    for block in _results(_dataset(stages, env, given, blocks, concurrency)):
        for number in pc.unique(block[PART]).to_pylist():
            rows = block.filter(pc.equal(block[PART], number))
            held[number].append(rows)
            missing[number] -= rows.num_rows
            if missing[number] == 0:
                whole = pa.concat_tables(held.pop(number))
                yield number, conform(whole.take(pc.sort_indices(whole[ROW])), declared(stages, given))
    if held:
        raise EngineError(f"Ray Data lost rows of the parts {sorted(held)}; run again to redo these parts")


def _dataset(
    stages: Sequence[Stage], env: Env, given: Mapping[str, pa.DataType], blocks: list[pa.Table], concurrency: int
) -> Any:
    """One block is one batch from end to end: stages keep rows, and `batch_size=None` hands on blocks as they are."""
    # Not from_arrow, which reads the blocks' sizes in tasks of one CPU each: the pools may hold every CPU there is.
    dataset = ray.data.from_blocks(blocks)
    dataset.context.execution_no_progress_timeout_s = NO_PROGRESS_S
    pool = ray.data.ActorPoolStrategy(size=min(concurrency, len(blocks)))
    with warnings.catch_warnings():
        # max_restarts has no other way in until Ray 2.64, which pyproject.toml excludes.
        warnings.filterwarnings("ignore", message=".*ray_remote_args.*")
        for place, stage in enumerate(stages):
            dataset = dataset.map_batches(
                StageWorker,
                fn_constructor_args=(stage, env, declared(stages[: place + 1], given)),
                batch_size=None,
                batch_format="pyarrow",
                compute=pool,
                num_cpus=0,
                udf_modifying_row_count=False,
                max_restarts=RESTARTS,
                max_task_retries=TRIES,
            )
    return dataset


def _results(dataset: Any) -> Iterator[pa.Table]:
    try:
        for block in dataset.iter_batches(batch_size=None, batch_format="pyarrow"):
            for reason in block[STOP].drop_null().to_pylist():
                kind, _, message = reason.partition(":")
                raise STOPPING[kind](message)
            yield block
    except RayTaskError:
        raise  # a fault in a stage's setup or in this file: its traceback is wanted
    except (RayError, ExecutionTimeoutError) as problem:
        raise EngineError(f"a stage worker is gone: {one_line(problem)}") from problem


class StageWorker:
    """What Ray Data calls with batches: one stage, set up once.

    A stage that ends the job does so through the `__stop` column, not by raising: Ray Data would log the exception as a
    fault of its own and lose its type.
    """

    def __init__(self, stage: Stage, env: Env, schema: pa.Schema) -> None:
        self._stage, self._env, self._schema = stage.model_copy(), env, schema
        self._ready = False

    def __call__(self, batch: pa.Table) -> pa.Table:
        hidden, visible = batch.select(HIDDEN.names), batch.drop_columns(HIDDEN.names)
        if hidden[STOP].null_count == batch.num_rows:
            try:
                if not self._ready:
                    self._stage.setup(self._env)
                    self._ready = True
                return _joined(conform(self._stage(visible), self._schema), hidden)
            except tuple(STOPPING.values()) as problem:
                kind = next(name for name, kind in STOPPING.items() if isinstance(problem, kind))
                reason = f"{kind}:{problem}"
                stop = pa.array([reason] * batch.num_rows, pa.string())
                hidden = hidden.set_column(HIDDEN.get_field_index(STOP), HIDDEN.field(STOP), stop)
        empty = [pa.nulls(batch.num_rows, kind) for kind in self._schema.types]
        return _joined(pa.table(empty, schema=self._schema), hidden)


def _with_hidden(table: pa.Table, number: int) -> pa.Table:
    rows = table.num_rows
    columns = [pa.array([number] * rows, pa.int64()), pa.array(range(rows), pa.int64()), pa.nulls(rows, pa.string())]
    return _joined(table, pa.table(columns, schema=HIDDEN))


def _joined(left: pa.Table, right: pa.Table) -> pa.Table:
    schema = pa.schema([*left.schema, *right.schema])
    return pa.table([*left.columns, *right.columns], schema=schema)
