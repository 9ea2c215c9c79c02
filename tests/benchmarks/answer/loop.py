"""The system `rag` through Tartan, against the same stages called for one question after another."""

from collections.abc import Iterator

from jobs.answer import Job
from pipeline.execute import run_local
from pipeline.local import LocalEnv
from ray_cluster.pools import Makers
from tests.benchmarks.answer.bench import Bench, clear, engines, factbook_questions, run
from tests.benchmarks.answer.stub_engine import BY_WORDS, MAKERS, StubbedEnv
from tests.benchmarks.compare import compare
from tests.benchmarks.figures import Figure

QUESTIONS = 28  # of a run: no run asks what another has asked, which would be in vLLM's prefix cache
STUB_QUESTIONS = 256


def loop(bench: Bench) -> Iterator[Figure]:
    """With SmolLM2 in vLLM on both sides, each with all cores, in turn; the system as it ships."""
    yield _compared(bench, "vLLM", ("at least", 1.5), bench.count(QUESTIONS), Makers(), LocalEnv, [])


def stub(bench: Bench) -> Iterator[Figure]:
    """With an engine that only takes time, and search by words, so that no other model takes the processor's instead of
    a GPU's; prompts, Ray, cache and commits are what they always are."""
    count = bench.count(STUB_QUESTIONS)
    yield _compared(bench, "stub engine", ("at least", 8), count, MAKERS, StubbedEnv, BY_WORDS)


def _compared(
    bench: Bench,
    what: str,
    goal: tuple[str, float],
    count: int,
    makers: Makers,
    here: type[LocalEnv],
    sets: list[str],
) -> Figure:
    index = bench.factbook()
    counts = [min(2, count)] + [count] * bench.runs
    starts = [sum(counts[:n]) for n in range(len(counts))]
    jobs = [
        bench.job("rag", index, factbook_questions(count, first), sets)
        for count, first in zip(counts, starts, strict=True)
    ]
    ours, theirs = iter(jobs), iter(jobs)
    pools = engines(jobs[0], makers)
    places = {name: manifest.home.place for name, manifest in jobs[0].indexes.items()}
    alone = here(jobs[0].profile, places, jobs[0].system.methods())
    try:
        found = compare("", "", lambda: run(next(ours), pools), lambda: one_by_one(next(theirs), alone), bench.runs)
    finally:
        pools.stop()
        alone.close()
    note = f"{60 * count / found.ours_s:.1f} against {60 * count / found.peer_s:.1f}, {count} questions a run"
    for job in jobs:
        clear(job)
    return Figure(f"{what}: questions a minute, Tartan / plain loop", found.ratio, goal, note, found.runs)


def one_by_one(job: Job, env: LocalEnv) -> None:
    """The plain loop: nothing is kept, nothing runs beside it."""
    parts = ((n, job.table.slice(n, 1)) for n in range(job.table.num_rows))
    for _, rows in run_local(job.system.stages, env, parts):
        assert rows["error"].null_count == 1, rows["error"]
