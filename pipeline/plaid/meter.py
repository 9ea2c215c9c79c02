"""What a step has done and where its seconds went: for the live line, and for the timings of a finished build."""

import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any

from pipeline.storage import Home, to_json

_NAMES = {"shards": "encode", "vectors": "embed", "lexical": "terms"}  # step -> what users call it, where that differs


def step_name(step: str) -> str:
    """What users call a step: "encode" for "shards", "weights" for "weights/<collection>"."""
    return _NAMES.get(step, step.partition("/")[0])


@dataclass
class Counts:
    """Work done: documents read, passages, token vectors."""

    documents: int = 0
    passages: int = 0
    vectors: int = 0

    def __iadd__(self, other: "Counts") -> "Counts":
        self.documents += other.documents
        self.passages += other.passages
        self.vectors += other.vectors
        return self


class Meter:
    """Seconds by phase and counts of one step over one shard; `tell` hears of each count as it comes.

    Phases of several threads overlap, so their sum may exceed the step's seconds.
    """

    def __init__(self, tell: Callable[[Counts], None] | None = None) -> None:
        self.counts = Counts()
        self._tell = tell
        self._phases: dict[str, float] = {}
        self._started = time.time()

    @contextmanager
    def __call__(self, phase: str) -> Iterator[None]:
        started = time.perf_counter()
        try:
            yield
        finally:
            self._phases[phase] = self._phases.get(phase, 0.0) + time.perf_counter() - started

    def count(self, documents: int = 0, passages: int = 0, vectors: int = 0) -> None:
        counts = Counts(documents, passages, vectors)
        self.counts += counts
        if self._tell is not None:
            self._tell(counts)

    def save(self, home: Home, step: str, shard: str) -> None:
        """Writes `timings/<step>/<shard>.json`; of a shard done twice the last one stays."""
        seconds = time.time() - self._started
        body = {
            **asdict(self.counts),
            "host": socket.gethostname(),
            "started": round(self._started, 3),
            "seconds": round(seconds, 3),
            "phases": {phase: round(spent, 3) for phase, spent in self._phases.items()},
        }
        home.write(f"timings/{step}/{shard}.json", to_json(body))


def timings(home: Home) -> dict[str, dict[str, Any]]:
    """Of each step that was timed: shards, counts, seconds of all its workers by phase, and passages and vectors a
    worker's second."""
    found: dict[str, dict[str, Any]] = {}
    for step in home.entries("timings"):
        total: dict[str, Any] = {"shards": 0, "documents": 0, "passages": 0, "vectors": 0, "seconds": 0.0, "phases": {}}
        for entry in home.entries(f"timings/{step}"):
            try:
                part = home.json(f"timings/{step}/{entry}")
            except FileNotFoundError:
                continue
            total["shards"] += 1
            for name in ("documents", "passages", "vectors", "seconds"):
                total[name] += part[name]
            for phase, spent in part["phases"].items():
                total["phases"][phase] = total["phases"].get(phase, 0.0) + spent
        total["passages_per_second"] = round(total["passages"] / max(total["seconds"], 1e-9), 1)
        total["vectors_per_second"] = round(total["vectors"] / max(total["seconds"], 1e-9), 1)
        total["seconds"] = round(total["seconds"], 3)
        total["phases"] = {phase: round(spent, 3) for phase, spent in total["phases"].items()}
        found[step_name(step)] = total
    return found
