"""Two ways of doing the same work, timed in turn so that a machine's drift meets both."""

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Comparison:
    """Medians of wall seconds, and of the ratio peer / ours taken pair by pair (above 1: ours is faster)."""

    what: str
    peer: str
    ours_s: float
    peer_s: float
    ratio: float
    runs: int
    note: str = ""


def compare(
    what: str, peer: str, ours: Callable[[], object], theirs: Callable[[], object], runs: int = 5, note: str = ""
) -> Comparison:
    """One warm-up of each, then `runs` pairs."""
    ours()
    theirs()
    pairs = [(_seconds(ours), _seconds(theirs)) for _ in range(runs)]
    return Comparison(
        what,
        peer,
        statistics.median(own for own, _ in pairs),
        statistics.median(other for _, other in pairs),
        statistics.median(other / own for own, other in pairs),
        runs,
        note,
    )


def _seconds(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started
