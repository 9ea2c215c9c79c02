"""What the workers of a build have done so far, gathered in one small actor and shown by the driver."""

import threading
import time
from collections.abc import Callable
from typing import Any, Protocol

import ray
from ray.exceptions import RayError

from pipeline.plaid.meter import Counts

EVERY_S = 0.5
SETTLE_S = 2.0


class Watch(Protocol):
    """Shows a build. Units are documents in step passages, passages in the others."""

    def begin(self, step: str, done: int, total: int) -> None:
        """A step starts; `done` of `total` units were there already."""

    def update(self, step: str, counts: Counts, failed: int) -> None:
        """What has been done since, and how many shards have failed."""


class Board:
    """Sums of counts by step. A restart loses what was counted: it is shown, never stored."""

    def __init__(self) -> None:
        self._steps: dict[str, Counts] = {}

    def add(self, step: str, counts: Counts) -> None:
        held = self._steps.setdefault(step, Counts())
        held += counts

    def read(self, step: str) -> Counts:
        return self._steps.get(step, Counts())


class Live:
    """Shows one step while it runs: `with live.step("shards", done, total): ...`."""

    def __init__(self, watch: Watch) -> None:
        self._watch = watch
        self.board: Any = ray.remote(num_cpus=0, max_restarts=-1)(Board).remote()
        self._failed = self._new = 0
        self._step = ""
        self._stop = threading.Event()

    def step(self, step: str, done: int, total: int) -> "Live":
        self._step, self._failed, self._new = step, 0, total - done
        self._watch.begin(step, done, total)
        return self

    def fail(self) -> None:
        """One more shard has failed."""
        self._failed += 1

    def teller(self) -> Callable[[Counts], None]:
        """What a worker's meter calls; picklable. Nothing waits for it."""
        return _Teller(self.board, self._step)

    def __enter__(self) -> "Live":
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._poll, args=(self._stop,), daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *problem: object) -> None:
        self._stop.set()
        self._thread.join(timeout=10)
        until = time.monotonic() + SETTLE_S
        while not self._show() and problem[0] is None and not self._failed and time.monotonic() < until:
            time.sleep(0.05)  # the workers are done; what they told is on its way

    def _poll(self, stop: threading.Event) -> None:
        while not stop.wait(EVERY_S):
            self._show()

    def _show(self) -> bool:
        """Whether everything that there was to do has been counted."""
        try:
            counts = ray.get(self.board.read.remote(self._step), timeout=5)
        except RayError:  # the board's node died: it comes back, and counts anew
            return False
        self._watch.update(self._step, counts, self._failed)
        return max(counts.documents, counts.passages) >= self._new


class _Teller:
    def __init__(self, board: Any, step: str) -> None:
        self._board, self._step = board, step

    def __call__(self, counts: Counts) -> None:
        self._board.add.remote(self._step, counts)
