"""`make bench-index`: a table of figures and goals, and the same as JSON beside the cached results."""

import argparse
import sys
from collections.abc import Callable, Iterator
from functools import partial

from pipeline.storage.cache import node_folder
from tests.benchmarks.figures import Figure, report
from tests.benchmarks.index.assignment import assignment
from tests.benchmarks.index.bench import DATA, Bench
from tests.benchmarks.index.build_time import build, size
from tests.benchmarks.index.fidelity import fidelity
from tests.benchmarks.index.memory import memory
from tests.benchmarks.index.throughput import throughput

# `build` leaves the index that size, throughput and fidelity look at.
MEASURES: dict[str, Callable[[Bench], Iterator[Figure]]] = {
    "build": build,
    "size": size,
    "throughput": throughput,
    "memory": memory,
    "fidelity": fidelity,
    "assignment": assignment,
}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.index", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(MEASURES)}; none: all")
    parser.add_argument("--documents", type=int, help="of each corpus at most, for a trial")
    parser.add_argument("--fresh", action="store_true", help="measure colbert-ai again, too (about 20 minutes)")
    parser.add_argument("--runs", type=int, default=3)
    given = parser.parse_args()
    if unknown := [name for name in given.names if name not in MEASURES]:
        parser.error(f"no measurement '{unknown[0]}'; there are: {', '.join(MEASURES)}")
    if not DATA.is_dir():
        print(f"bench-index needs the collections vaswani and xquad-en in {DATA}", file=sys.stderr)
        return 2
    cache = node_folder("bench-index")
    bench = Bench(cache, given.documents, given.fresh, given.runs)
    parts = {name: partial(measure, bench) for name, measure in MEASURES.items()}
    report("an index build", parts, given.names or list(MEASURES), cache / f"figures-{given.documents or 'all'}.json")
    return 0


if __name__ == "__main__":
    sys.exit(main())
