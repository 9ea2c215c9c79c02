"""Runs stages over parts of a question table in this process; `ray_cluster/execute.py` gives equal results."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

import pyarrow as pa

from pipeline.env import Env
from pipeline.schema import BASE
from pipeline.stage import Stage

Part = tuple[int, pa.Table]  # number, and its rows of the question table


def declared(stages: Sequence[Stage], given: Mapping[str, pa.DataType] = BASE) -> pa.Schema:
    """The columns of a question table after these stages: those given, then each stage's, as first written."""
    columns = dict(given)
    for stage in stages:
        columns.update(stage.writes())
    return pa.schema(list(columns.items()))


def conform(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """The table with exactly the schema's columns, order and types. KeyError where it lacks one."""
    return pa.table([table[name].cast(schema.field(name).type) for name in schema.names], schema=schema)


def run_local(
    stages: Sequence[Stage], env: Env, parts: Iterable[Part], *, given: Mapping[str, pa.DataType] = BASE
) -> Iterator[Part]:
    """Each part after all stages, one part after another; its schema is `declared(stages, given)`.

    `given`: the columns the parts come with, where other stages were there before. The stages given stay light: copies
    of them are set up.
    """
    workers = [stage.model_copy() for stage in stages]
    for worker in workers:
        worker.setup(env)
    schema = declared(stages, given)
    for number, table in parts:
        for worker in workers:
            table = worker(table)
        yield number, conform(table, schema)
