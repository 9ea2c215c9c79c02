import pyarrow as pa
import pytest

from pipeline.execute import conform, declared, run_local
from pipeline.schema import BASE, PASSAGE
from tests.ray_cluster.stubs import Find, LocalStubEnv, Say, questions


def test_the_declared_schema_is_the_base_and_what_stages_write_in_that_order() -> None:
    schema = declared([Find(), Say(), Find()])
    assert schema.names == [*BASE, "passages", "nothing", "answer", "batch"]
    assert schema.field("passages").type == pa.list_(PASSAGE)


def test_parts_come_out_in_order_with_every_row_and_the_declared_schema() -> None:
    parts = [(4, questions("a", "bad", "ccc")), (2, questions())]
    found = list(run_local([Find(), Say()], LocalStubEnv(), parts))
    assert [number for number, _ in found] == [4, 2]
    assert [table.num_rows for _, table in found] == [3, 0]
    assert all(table.schema == declared([Find(), Say()]) for _, table in found)
    rows = found[0][1].to_pylist()
    assert [row["answer"] for row in rows] == ["a", None, "ccc"]
    assert rows[1]["error"] == {"stage": "say", "kind": "ValueError", "message": "bad question"}
    assert [[step["stage"] for step in row["trace"]] for row in rows] == [["find", "say"]] * 3


def test_the_stages_given_are_not_set_up_themselves() -> None:
    stage = Say()
    list(run_local([stage], LocalStubEnv(), [(0, questions("a"))]))
    assert stage.__pydantic_private__ == {}


def test_conform_orders_casts_and_refuses_what_is_missing() -> None:
    schema = pa.schema([("b", pa.int64()), ("a", pa.list_(pa.string()))])
    table = pa.table({"a": pa.nulls(2), "extra": [1, 2], "b": pa.array([1, 2], pa.int32())})
    assert conform(table, schema).schema == schema
    with pytest.raises(KeyError):
        conform(table.drop_columns("b"), schema)
