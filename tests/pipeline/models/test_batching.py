"""The engine's thread, on a fake engine that generates one token a step."""

from concurrent.futures import ThreadPoolExecutor
from threading import Event, get_ident
from time import sleep
from types import SimpleNamespace
from typing import Any

import pytest

from pipeline.env import EngineError
from pipeline.models.batching import EngineThread


class FakeEngine:
    """`prompt`: steps until the request is finished. It notes the batch of each step and the threads that called it."""

    def __init__(self) -> None:
        self.left: dict[str, int] = {}
        self.batches: list[int] = []
        self.threads = {get_ident()}
        self.broken: Exception | None = None
        self.gate = Event()
        self.gate.set()
        self.closed = False

    def has_unfinished_requests(self) -> bool:
        return bool(self.left)

    def add_request(self, request_id: str, prompt: int, params: Any) -> None:
        self.threads.add(get_ident())
        if prompt < 0:
            raise ValueError("a negative length")
        self.left[request_id] = prompt

    def step(self) -> list[Any]:
        self.gate.wait()
        self.threads.add(get_ident())
        if self.broken:
            raise self.broken
        self.batches.append(len(self.left))
        self.left = {name: steps - 1 for name, steps in self.left.items()}
        done = [name for name, steps in self.left.items() if steps <= 0]
        for name in done:
            del self.left[name]
        return [SimpleNamespace(request_id=name, finished=True) for name in done]


def start() -> tuple[FakeEngine, EngineThread]:
    def close(engine: FakeEngine) -> None:
        engine.closed = True

    thread = EngineThread(FakeEngine, close)
    return thread.built, thread


def test_calls_from_many_threads_share_the_batch_and_one_thread_touches_the_engine() -> None:
    engine, thread = start()
    engine.gate.clear()
    first = thread.submit(5, None)
    with ThreadPoolExecutor(8) as pool:
        futures = list(pool.map(lambda _: thread.submit(2, None), range(8)))
    engine.gate.set()
    for future in [first, *futures]:
        assert future.result(10).finished
    assert thread.finished == 9
    assert max(engine.batches) == 9  # the late eight joined the first, which was running
    assert len(engine.threads) == 1
    assert get_ident() not in engine.threads
    thread.stop()
    assert engine.closed


def test_requests_share_the_engines_time() -> None:
    engine, thread = start()
    step = engine.step

    def slow_step() -> list[Any]:
        sleep(0.02)
        return step()

    engine.step = slow_step  # type: ignore[method-assign]
    engine.gate.clear()
    futures = [thread.submit(steps, None) for steps in (4, 4, 1)]
    engine.gate.set()
    for future in futures:
        future.result(10)
    thread.stop()
    worked = 0.02 * len(engine.batches)
    shares = [future.engine_s for future in futures]
    assert sum(shares) >= worked - 1e-3  # no step is counted twice or left out
    assert sum(shares) <= futures[0].ended - futures[0].sent + 1e-3
    assert min(shares[:2]) > shares[2] > 0


def test_a_refused_request_fails_alone() -> None:
    _, thread = start()
    bad, good = thread.submit(-1, None), thread.submit(1, None)
    with pytest.raises(ValueError, match="negative length"):
        bad.result(10)
    assert good.result(10).finished
    assert thread.alive()
    thread.stop()


def test_a_step_that_raises_is_the_end_for_all() -> None:
    engine, thread = start()
    engine.gate.clear()
    futures = [thread.submit(3, None) for _ in range(3)]
    engine.broken = RuntimeError("out of memory")
    engine.gate.set()
    for future in futures:
        with pytest.raises(EngineError, match="died: RuntimeError: out of memory") as caught:
            future.result(10)
        assert caught.value.__cause__ is engine.broken
    assert not thread.alive()
    with pytest.raises(EngineError, match="out of memory"):
        thread.submit(1, None)
    thread.stop()
    assert engine.closed


def test_stop_fails_what_is_running_and_may_be_called_twice() -> None:
    engine, thread = start()
    engine.gate.clear()
    running = thread.submit(10**9, None)
    engine.gate.set()
    thread.stop()
    thread.stop()
    with pytest.raises(EngineError, match="shut down"):
        running.result(10)
    with pytest.raises(EngineError, match="shut down"):
        thread.submit(1, None)


def test_an_engine_that_does_not_start_says_why() -> None:
    def build() -> FakeEngine:
        raise ValueError("no such model")

    with pytest.raises(ValueError, match="no such model"):
        EngineThread(build, lambda _: None)
