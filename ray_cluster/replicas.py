"""Pools of actors: calls go to the replica with the least to do, and to another one when that dies."""

import os
import time
from dataclasses import dataclass, field
from typing import Any

import ray
from ray.exceptions import GetTimeoutError, RayError, RayTaskError

from pipeline.env import EngineError, Engines
from pipeline.errors import InputError
from ray_cluster.actors import free_now, one_line

TRIES = 2  # of a call that a replica's death interrupts, and then of it, or each of its requests, alone
LATE_S = 5.0  # a replica that says nothing in this time is counted as down
SOON_S = 0.1  # a replica that says nothing in this time is starting, and others are asked


class ReplicaLost(EngineError):
    """A replica died under a call, as often as it was tried. Ends the job where nobody knows better."""


@dataclass
class Pool:
    """Actors that hold the same model, or one index between them. Picklable; `what` names it in messages.

    Every call ends within `timeout_s`, restarts of replicas and tries included.
    """

    what: str
    actors: list[Any]
    timeout_s: float
    facts: dict[str, Any] = field(default_factory=dict)
    asked: int = 0
    _last: Any = None  # the replica that this copy of the pool has asked last
    _up: set[int] = field(default_factory=set)  # places in `actors` of those that were up when they last said something
    _finished: dict[int, int] = field(default_factory=dict)  # place -> requests, when it last said something
    _looking: dict[int, tuple[Any, float]] = field(default_factory=dict)  # place -> an unanswered call, since when

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_up": set(), "_finished": {}, "_looking": {}}

    def ask(self, method: str, *arguments: Any) -> Any:
        """One replica's answer. Raises what the model raised; EngineError where no replica is left, or none answers.

        RuntimeError says that this very call kills whoever serves it: its question is at fault, and not the pool.
        """
        try:
            return self.serve(method, *arguments)[0]
        except ReplicaLost:
            pass  # of this call, or of another's that was there too
        try:
            return self.serve_alone(method, *arguments)[0]
        except ReplicaLost as problem:
            raise RuntimeError(f"the model died {TRIES} times over this call, alone in it: {problem}") from None

    def serve(self, method: str, *arguments: Any) -> tuple[Any, float]:
        """One replica's answer, and the seconds before it began to work on it. Raises what the model raised;
        EngineError where no replica is left, or none answers; ReplicaLost where one died under it, TRIES times."""
        began = time.monotonic()
        lost: ReplicaLost | None = None
        for _ in range(TRIES):
            actor = self._least_busy(began, anew=lost is not None)
            try:
                answer, seconds = self._wait([actor.ask.remote(method, *arguments)], began)[0]
                return answer, max(0.0, time.monotonic() - began - seconds)
            except ReplicaLost as problem:
                lost = problem
        assert lost is not None
        raise lost

    def serve_alone(self, method: str, *arguments: Any) -> tuple[Any, float]:
        """`serve`, with nothing else on the replica: ReplicaLost says that this very call killed it, TRIES times."""
        began = time.monotonic()
        killed = 0
        while True:
            items = self._least_busy(began, anew=True).ask_alone.remote(method, *arguments)
            begun = False
            try:
                self._item(items, began)
                begun = True
                answer, seconds = self._item(items, began)
                return answer, max(0.0, time.monotonic() - began - seconds)
            except ReplicaLost:
                killed += begun  # else it died of another's call while this one waited for its turn
                if killed == TRIES:
                    raise

    def aside(self, method: str, *arguments: Any) -> Any:
        """The answer to a quick question. It kills nobody itself: sent again however often others' calls do."""
        began = time.monotonic()
        lost = False
        while True:
            actor = self._last or self._least_busy(began, anew=lost)
            try:
                answer = self._wait([actor.aside.remote(method, *arguments)], began)[0]
                self._last = actor
                return answer
            except ReplicaLost:
                self._last, lost = None, True

    def ask_all(self, method: str, *arguments: Any) -> list[Any]:
        """Every actor's answer; the arguments are stored once for all of them."""
        shared = [ray.put(argument) for argument in arguments]
        calls = [actor.ask.remote(method, *shared) for actor in self.actors]
        return [answer for answer, _ in self._wait(calls, time.monotonic())]

    def fill(self, deadline: float, least: int | None = None) -> None:
        """Waits until so many actors are built, by default all; the others may join later. Raises InputError as it
        came; EngineError for anything else."""
        places = {actor.state.remote(): place for place, actor in enumerate(self.actors)}
        missing = len(places) if least is None else least
        try:
            while missing:
                done, _ = ray.wait(list(places), timeout=max(0.0, deadline - time.monotonic()))
                if not done:
                    raise EngineError(
                        f"{self.what}: {len(places)} of {len(self.actors)} actors were not ready in time; the cluster "
                        f"may be busy with other jobs (free now: {free_now()})"
                    )
                self.facts = ray.get(done[0])
                self._up.add(places.pop(done[0]))
                missing -= 1
        except RayTaskError as problem:
            if isinstance(problem.cause, InputError):
                raise problem.cause from None
            kind = type(problem.cause).__name__
            raise EngineError(f"{self.what} could not be loaded: {kind}: {one_line(problem.cause)}") from problem
        except RayError as problem:
            raise EngineError(f"{self.what} could not be loaded: {one_line(problem)}") from problem

    def engines(self) -> Engines:
        """The replicas that are up. Waits for none: one that leaves this unanswered for LATE_S is not."""
        now = time.monotonic()
        for place, actor in enumerate(self.actors):
            if place not in self._looking:
                # Without retries: Ray would say that it tries again, when the actor has been ended.
                self._looking[place] = actor.state.options(max_task_retries=0).remote(), now
        calls = [call for call, _ in self._looking.values()]
        said = set(ray.wait(calls, num_returns=len(calls), timeout=0)[0]) if calls else set()
        for place, (call, since) in list(self._looking.items()):
            if call not in said:
                if now - since > LATE_S:
                    self._up.discard(place)
                continue
            del self._looking[place]
            try:
                self._finished[place] = ray.get(call)["finished"]
                self._up.add(place)
            except RayError:
                self._up.discard(place)
        return Engines(len(self._up), len(self.actors), sum(self._finished.values()))

    def _least_busy(self, began: float, anew: bool) -> Any:
        """The replica with the fewest requests under way, of those that are up; waits for one where none is.

        `anew`: a replica was lost, so that even a pool of one has to be asked whether it is up again. Replicas with
        equally much to do are taken in turn, and processes begin at different ones. Raises EngineError where none is
        left, or none comes up in time.
        """
        self.asked += 1
        first = (os.getpid() + self.asked) % len(self.actors)
        turn = self.actors[first:] + self.actors[:first]
        if len(turn) == 1 and not anew:
            self._last = turn[0]
            return turn[0]
        asked = {actor.state.remote(): actor for actor in turn}
        waiting, gone = list(asked), ""
        while waiting:
            up, waiting = ray.wait(waiting, timeout=self._left(began))
            if not up:
                raise EngineError(f"{self.what}: no replica was up within {self.timeout_s:g} s")
            more, waiting = ray.wait(waiting, num_returns=len(waiting), timeout=SOON_S) if waiting else ([], [])
            found: list[tuple[int, int, Any]] = []
            for call in (call for call in asked if call in {*up, *more}):
                try:
                    found.append((ray.get(call)["requests"], len(found), asked[call]))
                except RayTaskError as problem:
                    gone = f"{type(problem.cause).__name__}: {one_line(problem.cause)}"
                except RayError as problem:
                    gone = one_line(problem)
            if found:
                self._last = min(found)[2]
                return self._last
        raise EngineError(f"{self.what} is gone, no replica of {len(turn)} is left: {gone}")

    def _item(self, items: Any, began: float) -> Any:
        """The next item of a streaming call."""
        up, _ = ray.wait([items], timeout=self._left(began))
        if not up:
            raise EngineError(f"{self.what}: no answer within {self.timeout_s:g} s")
        return self._wait([next(items)], began)[0]

    def _wait(self, calls: list[Any], began: float) -> list[Any]:
        try:
            return ray.get(calls, timeout=self._left(began))
        except RayTaskError as problem:
            raise problem.cause from None  # what the model raised, as it would be raised without Ray
        except GetTimeoutError:
            raise EngineError(f"{self.what}: no answer within {self.timeout_s:g} s") from None
        except RayError as problem:
            raise ReplicaLost(f"{self.what} is gone: {one_line(problem)}") from None

    def _left(self, began: float) -> float:
        return max(0.0, began + self.timeout_s - time.monotonic())
