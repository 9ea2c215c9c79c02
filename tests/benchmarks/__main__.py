"""`make bench`, or `python -m tests.benchmarks encoding clustering`: a table of medians and ratios."""

import os
import sys

from rich.console import Console
from rich.table import Table

from tests.benchmarks.measures import MEASURES


def main(names: list[str]) -> int:
    if unknown := [name for name in names if name not in MEASURES]:
        print(f"no benchmark '{unknown[0]}'; there are: {', '.join(MEASURES)}", file=sys.stderr)
        return 2
    table = Table(title=f"{os.cpu_count()} cores; medians; ratio = peer / ours, pair by pair")
    for column in ("what", "ours, s", "peer, s", "ratio", "runs", "peer", "note"):
        table.add_column(column)
    for name in names or list(MEASURES):
        for found in MEASURES[name]():
            figures = (f"{found.ours_s:.2f}", f"{found.peer_s:.2f}", f"{found.ratio:.2f}", str(found.runs))
            table.add_row(found.what, *figures, found.peer, found.note)
    Console(width=140).print(table)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
