"""Runs stages over parts of a question table in this process; `ray_cluster/execute.py` gives equal results."""

from collections.abc import Iterable, Iterator, Sequence

import pyarrow as pa

from pipeline.env import Env
from pipeline.schema import BASE
from pipeline.stage import Stage

Part = tuple[int, pa.Table]  # number, and its rows of the question table


def declared(stages: Sequence[Stage]) -> pa.Schema:
    """The columns of a question table after these stages: the base's, then each stage's, in the order first written."""
    columns = dict(BASE)
    for stage in stages:
        columns.update(stage.writes())
    return pa.schema(list(columns.items()))


def conform(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """The table with exactly the schema's columns, order and types. KeyError where it lacks one."""
    return pa.table([table[name].cast(schema.field(name).type) for name in schema.names], schema=schema)


def run_local(stages: Sequence[Stage], env: Env, parts: Iterable[Part]) -> Iterator[Part]:
    """Each part after all stages, one part after another; its schema is `declared(stages)`.

    The stages given stay light: copies of them are set up.
    """
    workers = [stage.model_copy() for stage in stages]
    for worker in workers:
        worker.setup(env)
    schema = declared(stages)
    for number, table in parts:
        for worker in workers:
            table = worker(table)
        yield number, conform(table, schema)
