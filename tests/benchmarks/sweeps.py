"""`python -m tests.benchmarks.sweeps`: every shipped sweep, on few questions over the demo's index, and its table.

The tables become `configs/sweeps/README.md`. Run it again to continue; what has been answered is not answered again.
"""

import argparse
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from pipeline.settings import find_config, read_mapping
from pipeline.sweep.config import read_sweep

DEMO = Path("demo-all")
SHORT = "--set answer.max_tokens=48"
HLTCOE = f"--index plaid=INDEX --set stages.1.k=2 --set stages.3.k=2 {SHORT}"
BRMGR = f"--index plaid=INDEX --set draft_passages.max_tokens=48 {SHORT}"
ELITE = (
    "--index plaid=INDEX --limit 4 --set explore.importance=null --set explore.max_context=1500 "
    "--set explore.reserve=400 --set vote.max_tokens=48"
)
# The order is by what is learned a minute; evidence and answers are kept as short as in the demo.
OPTIONS = {
    "filter-threshold": f"--limit 12 {HLTCOE}",
    "question-forms": f"--limit 6 {HLTCOE} --set filter_snippets.k=5",
    "query-count": f"--limit 6 {HLTCOE} --set filter_snippets.k=5",
    "snippet-order": f"--limit 6 {HLTCOE} --set filter_snippets.k=5",
    "generator": f"--limit 8 {HLTCOE}",
    "pairing": f"--limit 4 {BRMGR} --set search.k=4 --set draft_passages.n=4",
    "length-normalisation": f"--limit 4 {BRMGR} --set search.k=4 --set draft_passages.n=4",
    "boosts": "--index chunks=INDEX --limit 12 --set answer.max_tokens=8",
    "aggregation": "--index chunks=INDEX --limit 12 --set answer.max_tokens=32",
    "chunk-size": "--corpus CORPUS --limit 8 --set answer.max_tokens=32",
    "votes": f"{ELITE} --set explore.rounds=2 --set explore.overlap.hits=10",
    "fixed-rounds": f"{ELITE} --set explore.rounds=2 --set explore.overlap.hits=5 --set vote.voter_num=3",
    "exploration": f"{ELITE} --set explore.judge=null --set explore.rounds=1 --set vote.voter_num=3",
    "unequal-lists": f"--limit 3 {BRMGR}",
}
HEAD = """# What the shipped sweeps gave on the embedded profile

Each was run once, on the first 3 to 12 of the demo's questions over its index of 60 pages, with evidence and answers
as short as its command says. **The models are tiny (135M and 22M parameters) and the questions few: the tables show
that each sweep runs, and what its outcome looks like. They say nothing about the systems.** Intervals as wide as
these are the honest outcome of so few questions.

The baseline's name is bold. A cell is a mean; in brackets, the difference to the baseline (or to the variant named),
its 95% interval by the paired bootstrap, the p value after Holm over the whole table where it is below 1, and n where
it is not the row's. s and calls are means a question, stages that were reused included. The embedded profile has one
model for all roles that generate, so that `generator` compares it with itself.

Made by `tartan demo --systems all`, then `python -m tests.benchmarks.sweeps --demo demo-all --out sweeps`.
"""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.sweeps", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(OPTIONS)}; none: all")
    parser.add_argument("--demo", type=Path, default=DEMO, help="what `tartan demo --systems all` left")
    parser.add_argument("--out", type=Path, default=Path("sweeps"), help="a folder for each sweep, and README.md")
    given = parser.parse_args()
    if unknown := [name for name in given.names if name not in OPTIONS]:
        parser.error(f"no sweep '{unknown[0]}'; there are: {', '.join(OPTIONS)}")
    for name in given.names or OPTIONS:
        options = options_of(name, given.demo)
        # In one process: with so few questions, starting a variant's stage workers takes as long as its answers.
        arguments = ["--executor", "local", "--questions", f"{given.demo}/questions.jsonl"]
        arguments += ["--out", str(given.out / name)]
        print(f"== {name}", flush=True)
        done = subprocess.run([sys.executable, "-m", "jobs.sweep", name, *shlex.split(options), *arguments])
        if done.returncode:
            return done.returncode
    found = [name for name in OPTIONS if (given.out / name / "outcome.parquet").exists()]
    missing = ", ".join(name for name in OPTIONS if name not in found)
    head = [HEAD, *([f"Not run yet: {missing}.\n"] if missing else [])]
    (given.out / "README.md").write_text("\n".join([*head, *(section(name, given.out / name) for name in found)]))
    print(given.out / "README.md")
    return 0


def options_of(name: str, demo: Path) -> str:
    return OPTIONS[name].replace("INDEX", f"{demo}/index").replace("CORPUS", f"{demo}/corpus")


def section(name: str, folder: Path) -> str:
    """A sweep's title, settings and table, in Markdown."""
    description, baseline = read_mapping(find_config("sweeps", name))["description"], read_sweep(name).baseline
    lines = pq.read_table(folder / "outcome.parquet").to_pylist()
    metrics = list(dict.fromkeys(line["metric"] for line in lines))
    heads = ["variant", "n", *metrics, "s", "calls"]
    rows = ["| " + " | ".join(heads) + " |", "|---" * len(heads) + "|"]
    for variant in dict.fromkeys(line["run"] for line in lines):
        own = {line["metric"]: line for line in lines if line["run"] == variant}
        first = own[metrics[0]]
        is_baseline = variant == first["baseline"]
        shown = variant if first["baseline"] in (variant, baseline) else f"{variant}, against {first['baseline']}"
        n = max(line["n"] for line in own.values())
        cells = [f"**{variant}**" if is_baseline else shown, str(n), *(_cell(own[metric], n) for metric in metrics)]
        rows.append("| " + " | ".join([*cells, f"{first['seconds']:.1f}", f"{first['calls']:.1f}"]) + " |")
    return f"## {name}\n\n{description} `{options_of(name, DEMO)}`\n\n" + "\n".join(rows) + "\n"


def _cell(line: dict[str, Any], n: int) -> str:
    if line["mean"] is None:
        return "-"
    beside = []
    if line["difference"] is not None:
        beside.append(f"{line['difference']:+.2f}")
    if line["difference_low"] is not None:
        beside.append(f"{line['difference_low']:+.2f} to {line['difference_high']:+.2f}")
    if line["p_holm"] is not None and line["p_holm"] < 1:
        beside.append(f"p {line['p_holm']:.2g}")
    if line["n"] != n:
        beside.append(f"n {line['n']}")
    return f"{line['mean']:.3g}" + (f" ({', '.join(beside)})" if beside else "")


if __name__ == "__main__":
    sys.exit(main())
