"""`tartan demo`: the main job on data and models that install from PyPI."""

import sys
import time
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from jobs.answer import prepare
from jobs.index import build_index
from jobs.options import AddressOption, SetOption
from jobs.score import score_run

SHARDS = 4
PART_SIZE = 8  # questions: progress is seen part by part
# Two cores read some 500 tokens a second and write 10: the demo's slice keeps 5 snippets and short answers.
SLICE_SETS = {
    "hltcoe": ["filter_snippets.k=5", "answer.max_tokens=96"],
    "rag": ["answer.max_tokens=96"],
    "closed-book": ["answer.max_tokens=96"],
    "brmgr": ["search.k=4", "draft_passages.n=4", "draft_passages.max_tokens=64", "answer.max_tokens=96"],
    "hyde-rerank": [
        "write_hypothetical.max_tokens=48",
        "stages.2.k=4",
        "stages.3.k=4",
        "merge_passages.k=6",
        "rerank.at_least=3",  # SmolLM2-135M says No to nearly every passage
        "answer.max_tokens=96",
    ],
}


def demo(
    out: Annotated[Path, typer.Option("--out", help="Folder of corpus, index and runs.")] = Path("demo"),
    systems: Annotated[str, typer.Option("--systems", help="Systems to run, with commas between.")] = "hltcoe",
    pages: Annotated[int, typer.Option(min=1, help="Pages of the World Factbook to index.")] = 60,
    questions: Annotated[int, typer.Option(min=1, help="Questions to answer, from the shipped set's start.")] = 24,
    full: Annotated[bool, typer.Option("--full", help="All pages and all questions.")] = False,
    sets: SetOption = [],  # noqa: B006 - typer reads the default, nobody changes it
    address: AddressOption = None,
) -> int:
    """Index a slice of the CIA World Factbook, answer questions about it, score the answers, and report.

    Run again to continue. Another size needs another --out.

    Examples:

        tartan demo

        tartan demo --full --out demo-full
    """
    from pipeline.compose import load_system
    from pipeline.corpus.factbook import QUESTIONS, write_factbook
    from pipeline.report.report import write_report
    from pipeline.report.source import read_reported

    started = time.perf_counter()
    files = write_factbook(out / "corpus", None if full else pages, None if full else questions)
    lines = QUESTIONS.read_text(encoding="utf-8").splitlines()
    asked = out / "questions.jsonl"
    asked.write_text("\n".join(lines if full else lines[:questions]) + "\n", encoding="utf-8")
    count = sum(_rows(file) for file in files)
    print(f"1. Corpus: {count} pages of the World Factbook in {len(files)} files, {out / 'corpus'}")
    report = build_index(
        None, str(out / "corpus"), out / "index", "embedded", [f"shards.documents={-(-count // SHARDS)}"], address
    )
    print(
        f"2. Index: {report['passages']:,} passages, {report['embeddings']:,} vectors, {report['shards']} shards, "
        f"{report['bytes'] / 1e6:.0f} MB in {report['seconds']:.0f} s, {out / 'index'}"
    )
    failed = 0
    runs = [out / "runs" / name for name in systems.split(",")]
    for run in runs:
        name = run.name
        indexes = [f"{index}={out / 'index'}" for index in load_system(name).indexes()]
        options = [*([] if full else SLICE_SETS.get(name, [])), *sets]
        for option in options:
            print(f"   --set {option}")
        job = prepare(name, asked, indexes, "embedded", options, run, address=address, part_size=PART_SIZE)
        finished = job.run(lambda text: print(f"   {text}", file=sys.stderr))
        failed += finished["failed"]
        print(f"3. Run of {name}: {finished['rows']} questions in {finished['seconds']:.0f} s, {run}")
        Console().print(score_run(run).to_rich())
        print(f"   scores: {run / 'scores.parquet'}, answers for LiveRAG's checker: {run / 'answers.jsonl'}")
    write_report(read_reported(runs), out / "report.html")
    print(f"4. Report, every question to look into: {out / 'report.html'}")
    print(f"Done in {time.perf_counter() - started:.0f} s. Look at hits: tartan search {out / 'index'} 'your query'")
    return 1 if failed else 0


def _rows(file: Path) -> int:
    import pyarrow.parquet as pq

    return pq.read_metadata(file).num_rows


if __name__ == "__main__":
    from jobs.cli import run_alone

    run_alone("demo")
