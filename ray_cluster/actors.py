"""Actors that hold a model or some shards of an index, and pools of them."""

import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

import ray
from ray.exceptions import GetTimeoutError, RayError, RayTaskError

from pipeline.env import EngineError
from pipeline.errors import InputError

RESTARTS = (
    3  # of an actor; a call that was under way is then tried once more, so a call that kills it twice is given up
)


class _Holder:
    """An actor around one object. What its construction raises is kept and raised by every call, so that the caller
    sees the original exception, not the death of an actor."""

    def __init__(self, maker: str, arguments: tuple[Any, ...], threads: int) -> None:
        # Read when torch or numba load, which happens inside the maker.
        os.environ["OMP_NUM_THREADS"] = os.environ["NUMBA_NUM_THREADS"] = str(threads)
        self._held: Any = None
        self._problem: Exception | None = None
        try:
            self._held = imported(maker)(*arguments)
        except Exception as problem:  # noqa: BLE001 - raised again by the first call, in the caller's process
            self._problem = problem

    def ready(self) -> dict[str, Any]:
        """Returns once the object is built: the facts a client answers without a call."""
        return {"max_model_len": getattr(self._object(), "max_model_len", None)}

    def ask(self, method: str, *arguments: Any) -> Any:
        return getattr(self._object(), method)(*arguments)

    @ray.method(concurrency_group="aside")
    def aside(self, method: str, *arguments: Any) -> Any:
        """`ask` for quick questions, which do not queue behind long ones."""
        return self.ask(method, *arguments)

    def _object(self) -> Any:
        if self._problem is not None:
            raise self._problem
        return self._held


class ModelActor(_Holder):
    """One replica of a model."""


class SearchActor(_Holder):
    """Some shards of an index."""


@dataclass
class Pool:
    """Actors that hold the same model, or one index between them. Picklable; `what` names it in messages."""

    what: str
    actors: list[Any]
    timeout_s: float
    facts: dict[str, Any] = field(default_factory=dict)
    asked: int = 0

    def ask(self, method: str, *arguments: Any) -> Any:
        """One replica's answer, replicas in turn; processes begin at different ones."""
        self.asked += 1
        return self._wait([self._next().ask.remote(method, *arguments)])[0]

    def aside(self, method: str, *arguments: Any) -> Any:
        return self._wait([self._next().aside.remote(method, *arguments)])[0]

    def ask_all(self, method: str, *arguments: Any) -> list[Any]:
        """Every actor's answer; the arguments are stored once for all of them."""
        shared = [ray.put(argument) for argument in arguments]
        return self._wait([actor.ask.remote(method, *shared) for actor in self.actors])

    def _next(self) -> Any:
        return self.actors[(os.getpid() + self.asked) % len(self.actors)]

    def _wait(self, calls: list[Any]) -> list[Any]:
        try:
            return ray.get(calls, timeout=self.timeout_s)
        except RayTaskError as problem:
            raise problem.cause from None  # what the model raised, as it would be raised without Ray
        except GetTimeoutError:
            raise EngineError(f"{self.what}: no answer within {self.timeout_s:g} s") from None
        except RayError as problem:
            raise EngineError(f"{self.what} is gone: {one_line(problem)}") from None

    def fill(self, deadline: float) -> None:
        """Waits until every actor is built. Raises InputError as it came; EngineError for anything else."""
        calls = [actor.ready.remote() for actor in self.actors]
        try:
            while calls:
                done, calls = ray.wait(calls, timeout=max(0.0, deadline - time.monotonic()))
                if not done:
                    raise EngineError(
                        f"{self.what}: {len(calls)} of {len(self.actors)} actors were not ready in time; the cluster "
                        f"may be busy with other jobs (free now: {free_now()})"
                    )
                self.facts = ray.get(done[0])
        except RayTaskError as problem:
            if isinstance(problem.cause, InputError):
                raise problem.cause from None
            kind = type(problem.cause).__name__
            raise EngineError(f"{self.what} could not be loaded: {kind}: {one_line(problem.cause)}") from problem
        except RayError as problem:
            raise EngineError(f"{self.what} could not be loaded: {one_line(problem)}") from problem


def new_actor(
    kind: type[_Holder], maker: str, arguments: tuple[Any, ...], *, calls: int, cpus: float, gpus: float
) -> Any:
    """Starts an actor that builds `maker(*arguments)` and serves so many calls at once; returns its handle at once."""
    options: dict[str, Any] = {
        "num_cpus": cpus,
        "num_gpus": gpus,
        "max_concurrency": calls,
        "concurrency_groups": {"aside": 4},
    }
    remote = ray.remote(**options, max_restarts=RESTARTS, max_task_retries=1)(kind)
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
