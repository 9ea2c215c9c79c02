"""What pools do when replicas die, start late or have more to do than others; stub engines."""

import os
import pickle
import signal
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest
import ray

from pipeline.env import ChatRequest, Completion, EngineError
from pipeline.profile import ModelSpec, Profile
from ray_cluster.actors import ModelActor, Turns
from ray_cluster.pools import ModelClient, RayEnv
from tests.ray_cluster.stubs import MAKERS


def ask(*texts: str) -> list[ChatRequest]:
    return [ChatRequest(({"role": "user", "content": text},), 8) for text in texts]


def process(completion: Completion) -> str:
    return completion.text.split("|")[1]


@pytest.fixture
def start(ray_session: None) -> Iterator[Callable[..., RayEnv]]:
    started: list[RayEnv] = []

    def run(source: str = "fine", timeout_s: float = 60, **settings: Any) -> RayEnv:
        spec = ModelSpec(engine="vllm", source=source, cpus=0.1, **settings)
        profile = Profile(models={"m": spec}, roles={"answerer": "m"})
        started.append(RayEnv.start(profile, ["answerer"], makers=MAKERS, say=lambda _: None, timeout_s=timeout_s))
        return started[-1]

    yield run
    for env in started:
        env.stop()


def test_a_request_that_kills_every_engine_fails_alone(start: Callable[..., RayEnv]) -> None:
    llm = start(replicas=2).llm("answerer")
    with ThreadPoolExecutor(4) as threads:
        batches = [ask("a", "die", "b"), *(ask(f"c{n}", f"d{n}") for n in range(3))]
        killed, *others = threads.map(llm.chat, batches)
    assert [one.prompt for one in killed] == ["a", "", "b"]
    assert killed[0].error is None
    assert killed[2].error is None
    assert killed[1].finish_reason == "error"
    assert str(killed[1].error).startswith(
        "the engine died 2 times over this request, alone in it: model 'm' (fine) is"
    )
    for n, completions in enumerate(others):
        assert [(one.prompt, one.error) for one in completions] == [(f"c{n}", None), (f"d{n}", None)]
    assert llm.chat(ask("after"))[0].error is None
    assert llm.count_tokens([{"role": "user", "content": "abc"}]) == 3


def test_a_call_that_kills_every_engine_is_at_fault_itself(start: Callable[..., RayEnv]) -> None:
    embedder = start().embedder("answerer")
    with ThreadPoolExecutor(2) as threads:
        killing, other = threads.submit(embedder.embed, ["a", "die"]), threads.submit(embedder.embed, ["ab"])
        assert other.result()[0, 0] == 2
        with pytest.raises(
            RuntimeError, match=r"the model died 2 times over this call, alone in it: model 'm' \(fine\)"
        ):
            killing.result()
    assert embedder.embed(["abc"])[0, 0] == 3


def test_quick_questions_outlive_what_others_do_to_the_engine(start: Callable[..., RayEnv]) -> None:
    env = start()
    with ThreadPoolExecutor(2) as threads:
        killing = threads.submit(env.llm("answerer").chat, ask("a", "die", "b", "die"))
        llm, counted = env.llm("answerer"), 0
        while not killing.done():
            assert llm.count_tokens([{"role": "user", "content": "abc"}]) == 3
            counted += 1
    assert counted > 10
    assert [one.error is None for one in killing.result()] == [True, False, True, False]


@pytest.mark.parametrize("how", ["die once", "break once"])
def test_an_engine_that_dies_is_restarted_and_asked_again(
    how: str, start: Callable[..., RayEnv], tmp_path: Path
) -> None:
    llm = start().llm("answerer")
    before = llm.chat(ask("a"))[0]
    again = llm.chat(ask("b", f"{how}:{tmp_path / 'died'}"))
    assert [one.error for one in again] == [None, None]
    assert process(again[0]) != process(before)
    assert again[0].queue_s > 0


def test_the_job_ends_when_no_replica_is_left(start: Callable[..., RayEnv], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ModelActor, "restarts", 0)
    llm = start(replicas=2).llm("answerer")
    with pytest.raises(EngineError, match=r"model 'm' \(fine\) is gone, no replica of 2 is left: The actor"):
        llm.chat(ask("a", "die"))
    with pytest.raises(EngineError, match="no replica of 2 is left"):
        llm.chat(ask("a"))


def test_the_others_go_on_where_one_replica_is_gone(start: Callable[..., RayEnv]) -> None:
    env = start(replicas=2)
    pool = env._models["m"]
    llm: ModelClient = env.llm("answerer")
    assert len({process(llm.chat(ask("a"))[0]) for _ in range(4)}) == 2, "in turn, where both are idle"
    ray.kill(pool.actors[0])
    assert len({process(llm.chat(ask("a"))[0]) for _ in range(4)}) == 1
    assert llm.count_tokens([{"role": "user", "content": "abc"}]) == 3


def test_requests_go_where_fewest_are_under_way(start: Callable[..., RayEnv], tmp_path: Path) -> None:
    llm = start(replicas=2).llm("answerer")
    go = tmp_path / "go"
    with ThreadPoolExecutor(1) as threads:
        held = threads.submit(llm.chat, ask(f"hold:{go}"))
        time.sleep(0.5)
        others = {process(llm.chat(ask("a"))[0]) for _ in range(5)}
        go.touch()
        assert others == others - {process(held.result()[0])}
    assert len(others) == 1


def test_a_job_starts_with_the_least_and_others_join(start: Callable[..., RayEnv], tmp_path: Path) -> None:
    llm = start(f"late:{tmp_path}", replicas=2, min_replicas=1).llm("answerer")
    assert len({process(llm.chat(ask("a"))[0]) for _ in range(3)}) == 1
    (tmp_path / "go").touch()
    end, seen = time.monotonic() + 30, set[str]()
    while len(seen) < 2 and time.monotonic() < end:
        seen.add(process(llm.chat(ask("a"))[0]))
    assert len(seen) == 2


def test_how_many_engines_are_up(start: Callable[..., RayEnv], tmp_path: Path) -> None:
    env = start(f"late:{tmp_path}", replicas=2, min_replicas=1)  # a second start waits for a file
    pids = {int(process(env.llm("answerer").chat(ask("a"))[0]))}
    assert env.engines()[:2] == (1, 2)
    (tmp_path / "go").touch()
    becomes(env, (2, 2))
    (tmp_path / "go").unlink()
    os.kill(pids.pop(), signal.SIGKILL)
    becomes(env, (1, 2))
    copy: RayEnv = pickle.loads(pickle.dumps(env))
    began = time.monotonic()
    copy.engines()
    assert time.monotonic() - began < 20, "a replica that loads is not waited for"
    (tmp_path / "go").touch()
    becomes(env, (2, 2))
    ray.kill(env._models["m"].actors[0])
    becomes(env, (1, 2))


def test_how_many_requests_engines_have_finished(start: Callable[..., RayEnv]) -> None:
    env = start(replicas=2)
    llm = env.llm("answerer")
    for _ in range(3):
        llm.chat(ask("a", "b"))
    end = time.monotonic() + 60
    while env.engines() != (2, 2, 6) and time.monotonic() < end:
        time.sleep(0.1)
    assert env.engines() == (2, 2, 6)


def becomes(env: RayEnv, engines: tuple[int, int], most_s: float = 60) -> None:
    end = time.monotonic() + most_s
    while env.engines()[:2] != engines and time.monotonic() < end:
        time.sleep(0.1)
    assert env.engines()[:2] == engines


def test_a_pool_that_does_not_come_back_is_waited_for_a_bounded_time(
    start: Callable[..., RayEnv], tmp_path: Path
) -> None:
    llm = start(f"late:{tmp_path}", timeout_s=4).llm("answerer")  # its second start waits for a file that never comes
    began = time.monotonic()
    with pytest.raises(EngineError, match="no replica was up within 4 s"):
        llm.chat(ask("die"))
    assert 3.5 < time.monotonic() - began < 40


def test_turns_run_together_or_alone() -> None:
    turns, inside, log = Turns(), Event(), list[str]()

    def alone() -> None:
        with turns.alone():
            log.append("alone")
            assert turns._together == 1
            time.sleep(0.05)

    def together() -> None:
        with turns.together(3):
            log.append("together")

    def two() -> None:
        with turns.together(2):
            inside.set()
            time.sleep(0.1)
            log.append("first")

    threads = [Thread(target=two), Thread(target=alone), Thread(target=together)]
    threads[0].start()
    inside.wait()
    for thread in threads[1:]:
        thread.start()
        time.sleep(0.02)
    assert turns.requests == 2 + 1 + 3
    for thread in threads:
        thread.join(5)
    assert log == ["first", "alone", "together"]
    assert turns.requests == 0
