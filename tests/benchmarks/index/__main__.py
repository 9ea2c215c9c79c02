"""`make bench-index`: a table of figures and goals, and the same as JSON beside the cached results."""

import argparse
import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict

from rich.console import Console
from rich.table import Table

from pipeline.storage.cache import node_folder
from tests.benchmarks.index.assignment import assignment
from tests.benchmarks.index.bench import DATA, Bench, Figure, machine
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
    kept = cache / f"figures-{given.documents or 'all'}.json"
    figures = json.loads(kept.read_text())["figures"] if kept.exists() else {}
    table = Table(title="an index build")
    for column in ("what", "value", "goal", "met", "runs", "note"):
        table.add_column(column)
    for name in given.names or MEASURES:
        found = list(MEASURES[name](bench))
        figures[name] = [asdict(figure) | {"met": figure.met} for figure in found]
        kept.write_text(json.dumps({"machine": machine(), "figures": figures}, indent=2))
        for figure in found:
            goal = f"{figure.goal[0]} {figure.goal[1]:g}" if figure.goal else ""
            met = {True: "yes", False: "NO", None: ""}[figure.met]
            table.add_row(figure.what, f"{figure.value:.3f}", goal, met, str(figure.runs), figure.note)
    Console(width=180).print(table)
    print(f"also in {kept}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
