"""Actors that hold a model or some shards of an index."""

import os
import sys
import time
from collections.abc import Callable, Iterator, Sized
from contextlib import contextmanager
from importlib import import_module
from threading import Condition
from typing import Any

import ray

from pipeline.env import EngineError

# A question that kills its engine does so four times before it is found out (replicas.py), as often again where a stage
# then does its batch row by row: a replica survives two to five.
MODEL_RESTARTS = 20
SEARCH_RESTARTS = 3
MARK_S = 0.05  # for a mark to leave this process before whatever follows it may end the process


class Turns:
    """Calls run together; one that is to be alone waits until they have ended, and lets none begin meanwhile."""

    def __init__(self) -> None:
        self._changed = Condition()
        self._alone = 0  # calls that are alone or wait for it
        self._together = 0
        self.requests = 0  # under way or waiting

    @contextmanager
    def together(self, requests: int) -> Iterator[None]:
        with self._changed:
            self.requests += requests
            self._changed.wait_for(lambda: not self._alone)
            self._together += 1
        try:
            yield
        finally:
            with self._changed:
                self.requests -= requests
                self._together -= 1
                self._changed.notify_all()

    @contextmanager
    def alone(self) -> Iterator[None]:
        with self._changed:
            self._alone += 1
            self.requests += 1
            self._changed.wait_for(lambda: not self._together)
            self._together += 1
        try:
            yield
        finally:
            with self._changed:
                self._together -= 1
                self._alone -= 1
                self.requests -= 1
                self._changed.notify_all()


class _Holder:
    """An actor around one object. What its construction raises is kept and raised by every call, so that the caller
    sees the original exception, not the death of an actor."""

    def __init__(self, maker: str, arguments: tuple[Any, ...], threads: int) -> None:
        # Read when torch or numba load, which happens inside the maker.
        os.environ["OMP_NUM_THREADS"] = os.environ["NUMBA_NUM_THREADS"] = str(threads)
        self._held: Any = None
        self._problem: Exception | None = None
        self._turns = Turns()
        try:
            self._held = imported(maker)(*arguments)
        except Exception as problem:  # noqa: BLE001 - raised again by the first call, in the caller's process
            self._problem = problem

    # Sent again while the actor starts or restarts: an answer says that it is up, an error that it is gone for good.
    @ray.method(concurrency_group="aside", max_task_retries=-1)
    def state(self) -> dict[str, Any]:
        """Once the object is built: the facts a client answers without a call, how many requests are under way, and how
        many are finished where the object counts them."""
        held = self._object()
        length, finished = getattr(held, "max_model_len", None), getattr(held, "finished", 0)
        return {"max_model_len": length, "requests": self._turns.requests, "finished": finished}

    def ask(self, method: str, *arguments: Any) -> tuple[Any, float]:
        """The object's answer, and the seconds it took."""
        first = arguments[0] if arguments else None
        with self._turns.together(len(first) if isinstance(first, Sized) else 1):
            return self._timed(method, arguments)

    @ray.method(num_returns="streaming")
    def ask_alone(self, method: str, *arguments: Any) -> Iterator[Any]:
        """None when nothing else runs here, then what `ask` returns. An actor that dies between the two was killed by
        this call, or from outside."""
        with self._turns.alone():
            yield None
            time.sleep(MARK_S)
            yield self._timed(method, arguments)

    @ray.method(concurrency_group="aside")
    def aside(self, method: str, *arguments: Any) -> Any:
        """The answer to a quick question, which does not queue behind long ones."""
        return getattr(self._object(), method)(*arguments)

    def _timed(self, method: str, arguments: tuple[Any, ...]) -> tuple[Any, float]:
        began = time.perf_counter()
        held = self._object()
        try:
            answer = getattr(held, method)(*arguments)
        except EngineError as problem:
            if hasattr(held, "alive") and not held.alive():
                # A process whose engine has ended is of no use: Ray starts another, and callers send again.
                print(f"ending this replica: {problem}", file=sys.stderr, flush=True)
                os._exit(1)
            raise
        return answer, time.perf_counter() - began

    def _object(self) -> Any:
        if self._problem is not None:
            raise self._problem
        return self._held


class ModelActor(_Holder):
    """One replica of a model. A call that its death interrupts is not Ray's to send again, but its caller's."""

    restarts, retries = MODEL_RESTARTS, 0


class SearchActor(_Holder):
    """Some shards of an index. A call that its death interrupts is sent again as long as it is restarted, because tries
    that fail while its node is dead and nobody has noticed cannot be told from those that kill it."""

    restarts, retries = SEARCH_RESTARTS, -1


def new_actor(
    kind: type[ModelActor] | type[SearchActor],
    maker: str,
    arguments: tuple[Any, ...],
    *,
    calls: int,
    cpus: float,
    gpus: float,
) -> Any:
    """Starts an actor that builds `maker(*arguments)` and serves so many calls at once; returns its handle at once."""
    options: dict[str, Any] = {
        "num_cpus": cpus,
        "num_gpus": gpus,
        "max_concurrency": calls,
        "concurrency_groups": {"aside": 4},
    }
    remote = ray.remote(**options, max_restarts=kind.restarts, max_task_retries=kind.retries)(kind)
    return remote.remote(maker, arguments, max(1, int(cpus)))


def free_now() -> str:
    free = ray.available_resources()
    return f"{free.get('CPU', 0):g} CPUs, {free.get('GPU', 0):g} GPUs"


def imported(place: str) -> Callable[..., Any]:
    module, name = place.split(":")
    return getattr(import_module(module), name)


def one_line(problem: BaseException, most: int = 500) -> str:
    words = " ".join(str(problem).split())
    return words if len(words) <= most else f"{words[:most]} ..."
