"""One thread that owns a vLLM engine: it builds it, feeds it and steps it, so that calls from many threads share the
engine's running batch (continuous batching) and nothing of the engine is touched from two threads.
"""

import queue
import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from itertools import count
from threading import Lock, Thread
from typing import Any, Protocol

from pipeline.env import EngineError

# vLLM keeps the batch of a step in a module-level variable (vllm.forward_context): two engines in one process must not
# step, start or end at the same time.
_TURN = Lock()


class Engine(Protocol):
    """What is used of vllm.v1.engine.llm_engine.LLMEngine."""

    def add_request(self, request_id: str, prompt: Any, params: Any) -> Any: ...

    def step(self) -> list[Any]: ...

    def has_unfinished_requests(self) -> bool: ...


class Running(Future[Any]):
    """A request under way. Its times are perf_counter's: sent, taken up by the engine, finished.

    `engine_s`: its share of the steps that it was part of, all requests of a step having equal ones.
    """

    def __init__(self) -> None:
        super().__init__()
        self.sent = self.begun = self.ended = time.perf_counter()
        self.engine_s = 0.0


@dataclass
class _Job:
    prompt: Any
    params: Any
    done: Running = field(default_factory=Running)


class EngineThread:
    """Runs requests on an engine that lives in its own thread.

    A request that the engine refuses (by one of `refusals`) fails alone. Anything raised by a step means that the
    engine is gone: every waiting and later request gets an EngineError that names the cause.
    """

    def __init__(
        self,
        build: Callable[[], Any],
        close: Callable[[Any], None],
        refusals: tuple[type[Exception], ...] = (ValueError,),
    ) -> None:
        """Builds the engine and returns when it is ready; an error while building is raised here, as it was."""
        self._waiting: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._running: dict[str, _Job] = {}
        self._names = count()
        self._refusals = refusals
        self._gate = Lock()  # between "the engine has ended" and "a job is put in the queue"
        self._ended: EngineError | None = None
        self.finished = 0  # requests
        ready: Future[Any] = Future()
        self._thread = Thread(target=self._run, args=(build, close, ready), name="vllm-engine", daemon=True)
        self._thread.start()
        self.built: Any = ready.result()  # to read its settings from; everything else belongs to the thread

    def submit(self, prompt: Any, params: Any) -> Running:
        """A future of the engine's finished output for this prompt. Raises EngineError where the engine has ended."""
        job = _Job(prompt, params)
        with self._gate:
            if self._ended:
                raise EngineError(str(self._ended)) from self._ended.__cause__
            self._waiting.put(job)
        return job.done

    def alive(self) -> bool:
        return self._ended is None

    def stop(self) -> None:
        """Ends the engine; requests still running fail with an EngineError. Calling it again does nothing."""
        self._waiting.put(None)
        self._thread.join()
        self.built = None  # else its weights and cache would stay in memory as long as this object

    def _run(self, build: Callable[[], Any], close: Callable[[Any], None], ready: "Future[Any]") -> None:
        try:
            with _TURN:
                engine = build()
        except BaseException as problem:  # noqa: BLE001 - raised again in the thread that waits for the engine
            self._ended = EngineError("the engine did not start")
            ready.set_exception(problem)
            return
        ready.set_result(engine)
        cause: BaseException | None = None
        try:
            while self._admit(engine):
                with _TURN:
                    began = time.perf_counter()
                    outputs = engine.step()
                    share = (time.perf_counter() - began) / max(1, len(self._running))
                for job in self._running.values():
                    job.done.engine_s += share
                for output in outputs:
                    if output.finished:
                        done = self._running.pop(output.request_id).done
                        done.ended = time.perf_counter()
                        self.finished += 1
                        done.set_result(output)
        except Exception as problem:  # noqa: BLE001 - whatever it was, no request can be served any more
            cause = problem
        finally:
            self._end(cause)
            with _TURN:
                close(engine)

    def _admit(self, engine: Engine) -> bool:
        """Hands all waiting jobs to the engine, and waits for one where it has nothing to do. False: time to stop."""
        while True:
            try:
                job = self._waiting.get(block=not engine.has_unfinished_requests())
            except queue.Empty:
                return True
            if job is None:
                return False
            self._serve(engine, job)

    def _serve(self, engine: Engine, job: _Job) -> None:
        name = str(next(self._names))
        job.done.begun = time.perf_counter()
        self._running[name] = job  # before the engine sees it: if that kills the engine, this job has to hear of it
        try:
            engine.add_request(name, job.prompt, job.params)
        except self._refusals as problem:
            self._running.pop(name).done.set_exception(problem)

    def _end(self, cause: BaseException | None) -> None:
        reason = f"the engine died: {type(cause).__name__}: {cause}" if cause else "the engine was shut down"
        ended = EngineError(reason)
        ended.__cause__ = cause
        with self._gate:
            self._ended = ended
        left = list(self._running.values())
        while not self._waiting.empty():
            if job := self._waiting.get():
                left.append(job)
        for job in left:
            job.done.set_exception(ended)
