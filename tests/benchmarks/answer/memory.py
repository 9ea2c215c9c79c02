"""Memory of the driver and of each actor over thousands of questions: of the last fifth against the first."""

import statistics
from collections.abc import Iterator

import psutil
import pyarrow as pa

from jobs.answer_bars import AnswerBars
from tests.benchmarks.answer.bench import Bench, clear, engines, factbook_questions, run
from tests.benchmarks.answer.stub_engine import BY_WORDS, MAKERS
from tests.benchmarks.figures import Figure
from tests.benchmarks.index.memory import peak_mib

QUESTIONS = 5_000
GOAL = ("at most", 1.1)
DRIVER = "driver"


def memory(bench: Bench) -> Iterator[Figure]:
    """`rag` with the stub engine and search by words."""
    count = bench.count(QUESTIONS)
    job = bench.job("rag", bench.factbook(), factbook_questions(count), BY_WORDS)
    pools = engines(job, MAKERS)
    bars = MemoryBars()
    try:
        finished = run(job, pools, bars)
        written = peak_mib() - bars.resident
    finally:
        pools.stop()
    fifth = max(1, len(bars.seen) // 5)
    first, last = bars.seen[:fifth], bars.seen[-fifth:]
    names = sorted(set(first[-1]) & set(last[-1]))
    rate = f"{count:,} questions, {60 * count / finished['seconds']:,.0f} a minute"
    for what, members in (("driver", [DRIVER]), ("actors together", [name for name in names if name != DRIVER])):
        before, after = ([sum(held.get(name, 0.0) for name in members) for held in part] for part in (first, last))
        peak = max(sum(held.get(name, 0.0) for name in members) for held in bars.seen)
        note = f"{statistics.median(before):.0f} and {statistics.median(after):.0f} MiB, peak {peak:.0f}; {rate}"
        ratio = statistics.median(after) / statistics.median(before)
        yield Figure(f"memory of {what}, last fifth / first", ratio, GOAL, note)
    grown = {name: _median(last, name) - _median(first, name) for name in names}
    most = max(grown, key=lambda name: grown[name])
    yield Figure("memory of the process that grew most, MiB", grown[most], note=f"{most}; of {len(names)} processes")
    yield Figure("the driver's growth while it writes the run's files, MiB", written)
    clear(job)


class MemoryBars(AnswerBars):
    """Remembers what each process held whenever a part had been answered."""

    def __init__(self) -> None:
        super().__init__(quiet=True)
        self.seen: list[dict[str, float]] = []
        self.resident = 0.0  # MiB of the driver, what it shares included, after the last part

    def add(self, table: pa.Table) -> None:
        super().add(table)
        self.seen.append(held())
        self.resident = psutil.Process().memory_info().rss / 2**20
        peak_mib()  # counts from here on


def held() -> dict[str, float]:
    """MiB of this process and of Ray's busy ones below it, without what they share: process -> resident set."""
    driver = psutil.Process()
    found = {DRIVER: _private(driver)}
    for child in driver.children(recursive=True):
        try:
            name = child.cmdline()[0]
            if name.startswith("ray::") and not name.startswith("ray::IDLE"):
                found[f"{name.split('.')[0]} {child.pid}"] = _private(child)
        except (psutil.Error, IndexError):
            continue  # ended meanwhile
    return found


def _private(process: psutil.Process) -> float:
    memory = process.memory_info()
    return (memory.rss - memory.shared) / 2**20


def _median(samples: list[dict[str, float]], name: str) -> float:
    return statistics.median(held.get(name, 0.0) for held in samples)
