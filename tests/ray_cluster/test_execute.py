import os
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
import ray

from jobs.stopping import Work
from pipeline.env import EngineError
from pipeline.errors import InputError
from pipeline.execute import declared, run_local
from pipeline.request_cache import CachingEnv
from ray_cluster.execute import run_on_ray
from tests.ray_cluster.stubs import Find, LocalStubEnv, Say, questions
from tests.stubs import timeless

pytestmark = pytest.mark.usefixtures("ray_session")
STAGES = [Find(), Say()]


def many(parts: int, rows: int) -> list[tuple[int, pa.Table]]:
    texts = [["bad" if (part + row) % 5 == 4 else "x" * (part + row) for row in range(rows)] for part in range(parts)]
    return [(part * 3, questions(*texts[part])) for part in range(parts)]


def rows_of(table: pa.Table) -> list[dict]:
    """Rows without what may differ: times, and the batch size the stub stage noted."""
    return [timeless(row) for row in table.drop_columns("batch").to_pylist()]


@pytest.mark.parametrize(("batch_size", "concurrency"), [(1, 2), (7, 1)])
def test_equals_the_local_executor(batch_size: int, concurrency: int) -> None:
    parts = [*many(3, 9), (99, questions())]
    expected = dict(run_local(STAGES, LocalStubEnv(), parts))
    found = dict(run_on_ray(STAGES, LocalStubEnv(), parts, batch_size=batch_size, concurrency=concurrency))
    assert set(found) == set(expected) == {0, 3, 6, 99}
    for number, table in expected.items():
        assert found[number].schema == table.schema == declared(STAGES)
        assert rows_of(found[number]) == rows_of(table)
    assert sum(row["error"] is not None for table in found.values() for row in table.to_pylist()) == 5


def test_stages_go_on_from_a_table_that_others_left() -> None:
    """As a sweep does: the first stage once, the second from what it left."""
    parts = many(2, 5)
    columns = declared(STAGES[:1])
    left = list(run_local(STAGES[:1], LocalStubEnv(), parts))
    given = dict(zip(columns.names, columns.types, strict=True))
    found = dict(run_on_ray(STAGES[1:], LocalStubEnv(), left, given=given, batch_size=16))
    for number, table in run_local(STAGES, LocalStubEnv(), parts):
        assert found[number].schema == table.schema
        assert rows_of(found[number]) == rows_of(table)


def test_stages_see_batches_of_the_size_asked_for() -> None:
    ((_, table),) = run_on_ray([Say()], LocalStubEnv(), [(0, questions(*"abcdefghij"))], batch_size=4, concurrency=1)
    assert table["batch"].to_pylist() == [4] * 8 + [2] * 2


def test_no_questions_give_the_full_schema_without_any_work() -> None:
    ((number, table),) = run_on_ray(STAGES, LocalStubEnv(), [(0, questions())])
    assert number == 0
    assert table.num_rows == 0
    assert table.schema == declared(STAGES)


@pytest.mark.parametrize("executor", [run_local, run_on_ray])
def test_a_lost_engine_ends_the_job_and_no_row_is_blamed(executor) -> None:
    with pytest.raises(EngineError, match="model 'm' is gone: out of memory"):
        list(executor([Say(), Find()], LocalStubEnv(), [(0, questions("a", "engine down", "c"))]))


@pytest.mark.parametrize("executor", [run_local, run_on_ray])
def test_bad_input_found_in_setup_keeps_its_sentence(executor) -> None:
    with pytest.raises(InputError, match="role 'missing' is not in the profile"):
        list(executor([Say(role="missing")], LocalStubEnv(), [(0, questions("a"))]))


def test_driven_from_a_thread_with_models_that_remember(tmp_path: Path) -> None:
    """As `tartan answer` does it: each stage worker keeps what its model said, and a second run finds it."""
    parts = [(0, questions(*"abcdef")), (1, questions("gh", "bad", "ij", "kl", "mn", "op"))]
    env = CachingEnv(LocalStubEnv(), tmp_path / "requests", {"answerer": {"source": "m"}})
    for _ in range(2):
        arriving = run_on_ray(STAGES, env, parts, batch_size=3, concurrency=2)
        found: list[tuple[int, pa.Table]] = []
        assert Work(lambda part=found, more=arriving: _took(part, more)).wait(None, lambda: None)  # type: ignore[misc]
        expected = dict(run_local(STAGES, LocalStubEnv(), parts))
        assert {number: rows_of(table) for number, table in found} == {
            number: rows_of(table) for number, table in expected.items()
        }
        kept = [line for file in (tmp_path / "requests").glob("*.jsonl") for line in file.read_text().splitlines()]
        assert kept
    assert len(kept) == len({line[:73] for line in kept})  # nothing was asked twice


def _took(found: list[tuple[int, pa.Table]], more: Iterator[tuple[int, pa.Table]]) -> bool:
    part = next(more, None)
    found += [part] if part else []
    return part is not None


class Mortal(Say):
    """Its process dies at "die", once where `marker` names a file that is not there yet, else always."""

    marker: str = ""

    def process(self, batch: pa.Table) -> dict[str, list]:
        if "die" in batch["question"].to_pylist() and not (self.marker and Path(self.marker).exists()):
            if self.marker:
                Path(self.marker).touch()
            os._exit(1)
        return super().process(batch)


def test_a_stage_worker_that_dies_once_is_replaced(tmp_path: Path) -> None:
    stage = Mortal(marker=str(tmp_path / "died"))
    ((_, table),) = run_on_ray([stage], LocalStubEnv(), [(0, questions("a", "die", "c"))], batch_size=1, concurrency=1)
    assert (tmp_path / "died").exists()
    assert table["answer"].to_pylist() == ["a", "eid", "c"]


def test_a_batch_that_always_kills_its_worker_is_not_tried_for_ever() -> None:
    with pytest.raises(EngineError, match=r"a stage worker is gone: .*died"):
        list(run_on_ray([Mortal()], LocalStubEnv(), [(0, questions("a", "die"))], batch_size=1, concurrency=1))


def test_works_while_pools_hold_every_cpu() -> None:
    holder = ray.remote(num_cpus=8)(Idle).remote()
    ray.get(holder.ready.remote())
    ((_, table),) = run_on_ray(STAGES, LocalStubEnv(), [(0, questions("ab"))])
    assert table["answer"].to_pylist() == ["ba"]
    ray.kill(holder)


class Idle:
    def ready(self) -> bool:
        return True
