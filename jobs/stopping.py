"""Work in a thread, so that the main one can end it: by a signal, or because time is up."""

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

EVERY_S = 0.5
JOIN_S = 10.0  # for the thread to notice that its models are gone


class Terminated(KeyboardInterrupt):
    """SIGTERM. The exit code is 143, where SIGINT's is 130."""


@contextmanager
def stoppable() -> Iterator[None]:
    """In here SIGINT raises KeyboardInterrupt and SIGTERM Terminated, whatever a library has made of them. Signals are
    the main thread's: in another one this does nothing."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, _terminate)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _terminate(number: int, frame: object) -> None:
    raise Terminated


class Work:
    """`step()` is called in a thread until it says False; what it raises is raised by `wait`."""

    def __init__(self, step: Callable[[], bool]) -> None:
        self._step = step
        self._stop = threading.Event()
        self._problem: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="work", daemon=True)

    def wait(self, deadline: float | None, look: Callable[[], None]) -> bool:
        """Starts the work and returns when all is done, True, or when time.monotonic() passes the deadline, False.

        `look()` is called meanwhile, in this thread. No other step begins after this has returned or raised.
        """
        self._thread.start()
        try:
            while self._thread.is_alive():
                if deadline is not None and time.monotonic() >= deadline:
                    return False
                left = EVERY_S if deadline is None else min(EVERY_S, max(deadline - time.monotonic(), 0.0))
                self._thread.join(left)
                look()
        finally:
            self._stop.set()
        if self._problem is not None:
            raise self._problem
        return True

    def join(self) -> None:
        """Waits a bounded time for a step under way."""
        if self._thread.ident is not None:
            self._thread.join(JOIN_S)

    def _run(self) -> None:
        try:
            while not self._stop.is_set() and self._step():
                pass
        except BaseException as problem:  # noqa: BLE001 - it is raised again in the thread that waits
            self._problem = problem
