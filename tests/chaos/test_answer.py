"""Real SIGKILLs while `tartan answer` runs over Ray, with models that are stubs: each question once, finished parts
with the bytes they had, answers as in an undisturbed run, or an exit that names what is gone.

The tests kill 21 processes here at least, 3 of them in what is not slow, and stubs that are told to do so kill
themselves another 36 times; test_answer_at_random.py has 18 kills at least.
"""

import signal
from typing import Any

import psutil
import pytest

from tests.chaos.answer import TIMEOUT
from tests.chaos.processes import STAGE_WORKER, kill_one, workers
from tests.chaos.room import IDS, PART, NewRoom, Result, Room

pytestmark = pytest.mark.timeout(1800)


def test_an_engine_of_two_a_searcher_and_then_the_driver_die(
    room: NewRoom, undisturbed: Result, joined: list[str]
) -> None:
    there = room(replicas=2)
    with there.answer(*joined) as job:
        assert job.wait_for(there.kill_busy("engine"))
        assert job.wait_for(there.kill_busy("searcher"))
        assert job.wait_for(there.progress())
        job.kill()
        there.killed("driver")
    said = there.complete(*joined)
    assert " of 12 parts are there, " in said, said
    assert there.kills == {"engine": 1, "searcher": 1, "driver": 1}
    assert there.result() == undisturbed
    assert there.asked().total() <= len(IDS) + 2 * 3 * PART  # of a kill: what two stage workers and the way back held


@pytest.mark.slow
@pytest.mark.parametrize("replicas", [1, 2])
def test_engines_die_in_mid_batch_again_and_again(
    room: NewRoom, undisturbed: Result, joined: list[str], replicas: int
) -> None:
    there = room(replicas=replicas)
    with there.answer(*joined) as job:
        for _ in range(3):
            assert job.wait_for(there.kill_busy("engine"))
            assert job.wait_for(there.progress())
        job.succeed()
    assert there.kills == {"engine": 3}
    assert there.result() == undisturbed
    assert there.born("engine") >= 3 + (replicas == 1)  # each was replaced, but perhaps the last of two
    assert there.asked().total() <= len(IDS) + 2 * PART * there.kills.total()


@pytest.mark.slow
def test_an_engine_that_cannot_be_loaded_again_ends_the_job(
    room: NewRoom, undisturbed: Result, joined: list[str]
) -> None:
    there = room()
    with there.answer(*joined) as job:
        assert job.wait_for(there.part(1))
        (there.folder / "unloadable").touch()
        assert job.wait_for(there.kill_busy("engine"))
        code, said = job.finish()
    assert code == 1
    assert "model 'm' (stub) is gone, no replica of 1 is left: OSError: no room for the weights" in said, said
    again(there, "unloadable", undisturbed, joined)


@pytest.mark.slow
def test_an_engine_that_dies_every_time_ends_the_job(room: NewRoom, undisturbed: Result, joined: list[str]) -> None:
    there = room()
    with there.answer(*joined) as job:
        assert job.wait_for(there.part(1))
        (there.folder / "deadly").touch()
        assert job.wait_for(there.kill_busy("engine"))
        code, said = job.finish()  # twenty restarts later
    assert code == 1
    assert "model 'm' (stub) is gone, no replica of 1 is left: The actor died" in said, said
    again(there, "deadly", undisturbed, joined)


def again(there: Room, mark: str, undisturbed: Result, joined: list[str]) -> None:
    """The cause is mended, the same command completes the run."""
    (there.folder / mark).unlink()
    there.complete(*joined)
    assert there.result() == undisturbed


@pytest.mark.slow
@pytest.mark.parametrize(
    ("replicas", "kind", "error"),
    [
        (1, "engine", "answer: generation: the engine died 2 times over this request, alone in it: model 'm' (stub)"),
        (2, "engine", "answer: generation: the engine died 2 times over this request, alone in it: model 'm' (stub)"),
        (
            1,
            "encoder",
            "search: RuntimeError: the model died 2 times over this call, alone in it: model 'e' (embedded:",
        ),
    ],
    ids=["engine", "engines", "encoder"],
)
def test_a_question_that_kills_whoever_sees_it_fails_alone(
    room: NewRoom, undisturbed: Result, joined: list[str], replicas: int, kind: str, error: str
) -> None:
    there = room(replicas=replicas, poisoned={"null": kind})
    with there.answer(*joined) as job:
        code, said = job.finish()
    assert code == 1
    assert "48 questions, 1 failed" in said, said
    assert f"failed null: {error}" in said, said
    found = {row["id"]: row for row in there.result()["rows"]}
    expected = {row["id"]: row for row in undisturbed["rows"]}
    assert {id for id in IDS if found[id] != expected[id]} == {"null"}
    (there.folder / "mended").touch()
    there.complete(*joined)
    rows = {row["id"]: row for row in there.result()["rows"]}
    assert rows.pop("null")["answer"].startswith("answer null, ")
    assert rows == {id: row for id, row in found.items() if id != "null"}
    assert there.asked()["null"] == 1


@pytest.mark.slow
def test_a_searcher_and_the_encoder_die_in_mid_call(room: NewRoom, undisturbed: Result, joined: list[str]) -> None:
    there = room()
    with there.answer(*joined) as job:
        for kind in ("searcher", "encoder", "searcher"):
            assert job.wait_for(there.kill_busy(kind))
            assert job.wait_for(there.progress())
        job.succeed()
    assert there.kills == {"searcher": 2, "encoder": 1}
    assert there.result() == undisturbed


@pytest.mark.slow
def test_a_searcher_that_dies_too_often_ends_the_job(room: NewRoom, undisturbed: Result, joined: list[str]) -> None:
    there = room()
    with there.answer(*joined) as job:
        while job.wait_for(there.kill_busy("searcher")):
            assert there.kills.total() <= 2 * 4  # three restarts of either
        code, said = job.finish()
    assert code == 1
    assert f"tartan: index 'plaid' ({there.folder / 'index'}) is gone: " in said, said
    there.complete(*joined)
    assert there.result() == undisturbed


@pytest.mark.slow
def test_stage_workers_die(room: NewRoom, undisturbed: Result, standing: Any, joined: list[str]) -> None:
    there = room()
    with there.answer(*joined) as job:
        for _ in range(3):
            assert job.wait_for(there.progress())
            assert job.wait_for(lambda: kill_one(workers(standing.head_node), STAGE_WORKER))
            there.killed("stage worker")
        job.succeed()
    assert there.result() == undisturbed


@pytest.mark.slow
def test_an_engine_that_hangs_ends_the_job(room: NewRoom, undisturbed: Result, joined: list[str]) -> None:
    """Stopped, not dead: the limit of a call finds it out, and its process is ended with the job."""
    there = room()
    with there.answer(*joined, env={TIMEOUT: "20"}) as job:
        assert job.wait_for(there.part(1))
        engine = psutil.Process(there.pids("engine")[-1])
        assert job.wait_for(there.kill_busy("engine", signal.SIGSTOP))
        code, said = job.finish()
    assert code == 1
    assert "tartan: model 'm' (stub): no answer within 20 s" in said, said
    engine.wait(60)
    there.complete(*joined)
    assert there.result() == undisturbed
