"""Real SIGKILLs while `tartan answer` runs over Ray, as in test_answer.py: whole nodes, the cluster under a job, the
driver at random moments, and whatever chance picks.
"""

import random
import signal
from collections.abc import Callable
from typing import Any

import pytest

from tests.chaos.processes import STAGE_WORKER, Driver, kill_one, workers
from tests.chaos.room import IDS, PART, NewRoom, Result, Room, too_busy

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]


def test_nodes_die_with_all_they_hold(room: NewRoom, undisturbed: Result, cluster: Any) -> None:
    there = room(replicas=2)
    node = cluster.add_node(num_cpus=3)
    with there.answer("--address", cluster.address) as job:
        for _ in range(2):
            assert job.wait_for(there.progress())
            following = cluster.add_node(num_cpus=3)  # joins, and is all there is from now on
            cluster.remove_node(node, allow_graceful=False)
            there.killed("node")
            node = following
        job.succeed()
    assert there.kills == {"node": 2}
    assert there.result() == undisturbed


@pytest.mark.parametrize("service", ["gcs_server", "raylet"])
def test_a_cluster_that_dies_under_the_job_ends_it(room: NewRoom, undisturbed: Result, service: str) -> None:
    there = room()
    with there.answer("--address", "local") as job:
        assert job.wait_for(there.part(1))
        assert job.wait_for(lambda: job.kill_service(service))
        there.killed(service)
        code, said = job.finish()
    assert code != 0, said
    there.complete("--address", "local")
    assert there.result() == undisturbed


@pytest.mark.parametrize(("seed", "alone"), [(0, True), (1, False)])
def test_the_driver_dies_at_random(
    room: NewRoom, undisturbed: Result, joined: list[str], seed: int, alone: bool
) -> None:
    """With a Ray of its own, and in a cluster that others use, too."""
    there, chance, options = room(replicas=2), random.Random(seed), ["--address", "local"] if alone else joined
    while there.kills.total() < 6:
        with there.answer(*options) as job:
            if job.wait_for(some_moment(there, chance)):
                job.kill()
                there.killed("driver")
                continue
            code, said = job.finish()
        if not too_busy(said):
            assert code == 0, said
            break
    assert there.kills["driver"] >= 4
    there.complete(*options)
    assert there.result() == undisturbed
    assert there.asked().total() <= len(IDS) + 3 * PART * there.kills.total()


def some_moment(there: Room, chance: random.Random) -> Callable[[], bool]:
    born, parts, asked = there.born(""), there.parts(), there.asked().total()
    more = chance.randrange(1, 5)
    return chance.choice(
        [
            lambda: there.born("") >= born + more,  # while the pools fill
            lambda: there.asked().total() >= asked + more * PART,
            lambda: there.parts() >= parts + more,
            lambda: (there.run / "manifest.json").exists(),
        ]
    )


def test_anything_dies_at_random(room: NewRoom, undisturbed: Result, standing: Any, joined: list[str]) -> None:
    """Until ten have; a job that ends over it says what is gone, and goes on when it is run again."""
    there, chance, ended = room(replicas=2), random.Random(5), False
    while not ended:
        with there.answer(*joined) as job:
            while there.kills.total() < 10 and job.wait_for(victim(there, chance, standing, job)):
                if not job.wait_for(there.progress(chance.randrange(2))):
                    break
            code, said = job.finish()
        assert code in (0, 1, -signal.SIGKILL), said
        assert code != 1 or " is gone" in said, said
        ended = code == 0
    assert there.kills.total() >= 6
    assert there.result() == undisturbed


def victim(there: Room, chance: random.Random, cluster: Any, job: Driver) -> Callable[[], bool]:
    """The moment at which one of the job's processes is killed."""

    def stage_worker() -> bool:
        return there.parts() > 0 and kill_one(workers(cluster.head_node), STAGE_WORKER) and there.killed("worker")

    def driver() -> bool:
        job.process.kill()
        return there.killed("driver")

    kinds = [there.kill_busy(kind) for kind in ("engine", "searcher", "encoder")]
    return chance.choice([*kinds, stage_worker, driver])
