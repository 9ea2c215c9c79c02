"""Seconds a question of `hltcoe` on the 50 questions of LiveRAG's dry run, over documents of FineWeb."""

import json
import time
from collections.abc import Iterator

from tests.benchmarks.answer.bench import Bench, clear, engines, run
from tests.benchmarks.figures import Figure
from tests.benchmarks.index.bench import DATA

GOAL_S = 7.2  # HLTCOE's 500 questions in an hour, on GPUs
FOLDER = DATA / "liverag-mini"


def dryrun(bench: Bench) -> Iterator[Figure]:
    """By the embedded profile; the index is built before, models are loaded within the second figure only."""
    questions = FOLDER / "dryrun-50-questions.jsonl"
    if not questions.exists():
        print(f"dryrun is left out: {questions} is not there")
        return
    rows = [json.loads(line) for line in questions.read_text().splitlines()]
    rows = rows[: bench.count(len(rows))]
    index = bench.index("liverag-mini", FOLDER / "docs-*.parquet")
    began = time.perf_counter()
    job = bench.job("hltcoe", index, rows, [])
    pools = engines(job)
    try:
        loaded = time.perf_counter()
        finished = run(job, pools)
        ended = time.perf_counter()
    finally:
        pools.stop()
    cost = finished["cost"][-1]
    note = (
        f"{len(rows)} questions, {finished['finish_reasons']}, {cost['prompt_tokens']:,} tokens read, "
        f"{cost['generated_tokens']:,} written"
    )
    yield Figure("dry run: seconds a question", (ended - loaded) / len(rows), ("at most", GOAL_S), note)
    note = f"{loaded - began:.0f} s to load"
    yield Figure("dry run: the same with loading the models", (ended - began) / len(rows), note=note)
    clear(job)
