"""`make bench-answer`: a table of figures and goals, and the same as JSON in the cache folder."""

import argparse
import sys
from collections.abc import Callable, Iterator
from functools import partial

from pipeline.storage.cache import node_folder
from tests.benchmarks.answer.bench import Bench
from tests.benchmarks.answer.dryrun import dryrun
from tests.benchmarks.answer.generation import generation
from tests.benchmarks.answer.loop import loop, stub
from tests.benchmarks.answer.memory import memory
from tests.benchmarks.answer.settings import settings
from tests.benchmarks.figures import Figure, report

MEASURES: dict[str, Callable[[Bench], Iterator[Figure]]] = {
    "generation": generation,
    "loop": loop,
    "stub": stub,
    "memory": memory,
    "dryrun": dryrun,
    "settings": settings,
}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.answer", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(MEASURES)}; none: all")
    parser.add_argument("--questions", type=int, help="of each part at most (generation: prompts), for a trial")
    parser.add_argument("--tokens", type=int, help="generated for an answer, at most, for a trial")
    parser.add_argument("--runs", type=int, default=3)
    given = parser.parse_args()
    if unknown := [name for name in given.names if name not in MEASURES]:
        parser.error(f"no measurement '{unknown[0]}'; there are: {', '.join(MEASURES)}")
    cache = node_folder("bench-answer")
    bench = Bench(cache, given.questions, given.tokens, given.runs)
    parts = {name: partial(measure, bench) for name, measure in MEASURES.items()}
    kept = cache / f"figures-{given.questions or 'all'}.json"
    report("an answering job", parts, given.names or list(MEASURES), kept)
    return 0


if __name__ == "__main__":
    sys.exit(main())
