"""`tartan demo`: the main job on data and models that install from PyPI."""

import sys
import time
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from jobs.answer import prepare, shared_engines
from jobs.answer_bars import AnswerBars
from jobs.index import build_index
from jobs.options import AddressOption, SetOption, counted, out_option
from jobs.score import score_run

SHARDS = 4
PART_SIZE = 8  # questions: progress is seen part by part
FEW = 12  # questions, where all systems are run
# Two cores read some 500 tokens a second and write 10: the demo's slice keeps little evidence and short answers.
SLICE_SETS = {
    "closed-book": ["answer.max_tokens=96"],
    "rag": ["answer.max_tokens=96"],
    "hltcoe": ["filter_snippets.k=5", "answer.max_tokens=96"],
    "adobe": ["answer.max_tokens=96"],
    "elite": [
        "search.k=20",
        "explore.overlap.hits=10",
        "explore.importance=null",
        "explore.rounds=2",
        "explore.max_context=1500",
        "explore.reserve=400",
        "vote.voter_num=3",
        "vote.max_tokens=64",
    ],
    "elite-as-released": [
        "search.k=20",
        "explore.overlap.hits=10",
        "explore.max_context=1500",
        "explore.reserve=400",
        "vote.voter_num=3",
        "vote.max_tokens=64",
    ],
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
    out: Annotated[Path | None, out_option("Folder of corpus, index and runs; none: demo.")] = None,
    systems: Annotated[str, typer.Option("--systems", help="Systems to run, with commas between, or all.")] = "hltcoe",
    pages: Annotated[int, typer.Option(min=1, help="Pages of the World Factbook to index.")] = 60,
    questions: Annotated[
        int | None, typer.Option(min=1, help="Questions to answer, from the shipped set's start; none: 24, of all: 12.")
    ] = None,
    full: Annotated[bool, typer.Option("--full", help="All pages and all questions.")] = False,
    sets: SetOption = [],  # noqa: B006 - typer reads the default, nobody changes it
    address: AddressOption = None,
) -> int:
    """Index a slice of the CIA World Factbook, answer questions about it, score the answers, and report.

    Run again to continue. Another size needs another --out, and so do systems that search by dense vectors where the
    first ones did not (`--systems all` has its own, demo-all).

    Examples:

        tartan demo

        tartan demo --systems all

        tartan demo --full --out demo-full
    """
    from pipeline.compose import load_system
    from pipeline.report.report import write_report
    from pipeline.report.source import read_reported

    started = time.perf_counter()
    names = list(SLICE_SETS) if systems == "all" else systems.split(",")
    out = out or Path("demo-all" if systems == "all" else "demo")
    asked = _prepare_questions(out, pages, questions or (FEW if systems == "all" else 24), full)
    count = sum(_rows(file) for file in (out / "corpus").glob("*.parquet"))
    settings = [f"shards.documents={-(-count // SHARDS)}"]
    if any("dense" in ways for name in names for ways in load_system(name).methods().values()):
        settings.append("dense.role=dense_retriever")
    report = build_index(None, str(out / "corpus"), out / "index", "embedded", settings, address)
    print(
        f"2. Index: {report['passages']:,} passages, {report['embeddings']:,} vectors, "
        f"{counted(report['shards'], 'shard')}, {report['bytes'] / 1e6:.0f} MB in {report['seconds']:.0f} s, "
        f"{out / 'index'}"
    )
    failed = _run_systems(
        names, out, asked, {name: [] if full else SLICE_SETS.get(name, []) for name in names}, sets, address
    )
    write_report(read_reported([out / "runs" / name for name in names]), out / "report.html")
    print(f"Done in {time.perf_counter() - started:.0f} s. Look at hits: tartan search {out / 'index'} 'your query'")
    print(f"4. Report, every question to look into: {out / 'report.html'}")
    return 1 if failed else 0


def _prepare_questions(out: Path, pages: int, questions: int, full: bool) -> Path:
    """Writes the corpus and the questions about it; returns the question file."""
    from pipeline.corpus.factbook import QUESTIONS, write_factbook

    files = write_factbook(out / "corpus", None if full else pages, None if full else questions)
    lines = QUESTIONS.read_text(encoding="utf-8").splitlines()
    asked = out / "questions.jsonl"
    asked.write_text("\n".join(lines if full else lines[:questions]) + "\n", encoding="utf-8")
    count = sum(map(_rows, files))
    print(f"1. Corpus: {count} pages of the World Factbook in {len(files)} files, {out / 'corpus'}")
    return asked


def _run_systems(
    names: list[str], out: Path, asked: Path, slices: dict[str, list[str]], sets: list[str], address: str | None
) -> int:
    """Answers and scores by each system, one set of engines for all; returns the number of failed rows."""
    from pipeline.compose import load_system

    jobs = {}
    for name in names:
        indexes = [f"{index}={out / 'index'}" for index in load_system(name).indexes()]
        run = out / "runs" / name
        jobs[name] = prepare(
            name, [asked], indexes, "embedded", [*slices[name], *sets], run, address=address, part_size=PART_SIZE
        )
    engines = None
    if not all(job.folder.is_complete() for job in jobs.values()):
        engines = shared_engines(list(jobs.values()), address, _say)
    tables, costs, failed = {}, {}, 0
    try:
        for name, job in jobs.items():
            for option in [*slices[name], *sets]:
                print(f"   --set {option}")
            with AnswerBars(quiet=False) as bars:
                finished = job.run(_say, bars, engines=engines)
            failed += finished["failed"]
            run = out / "runs" / name
            print(f"3. Run of {name}: {finished['rows']} questions in {finished['seconds']:.0f} s, {run}")
            tables[name] = score_run(run)
            costs[name] = f"{finished['seconds'] / max(1, finished['rows']):.1f}"
            Console().print(tables[name].to_rich())
            print(f"   scores: {run / 'scores.parquet'}, answers for LiveRAG's checker: {run / 'answers.jsonl'}")
    finally:
        if engines is not None:
            engines.stop()
    if len(tables) > 1:
        from pipeline.scoring.side_by_side import side_by_side

        Console().print(side_by_side(tables, {"seconds a question": costs}))
    return failed


def _say(text: str) -> None:
    print(f"   {text}", file=sys.stderr)


def _rows(file: Path) -> int:
    import pyarrow.parquet as pq

    return pq.read_metadata(file).num_rows


if __name__ == "__main__":
    from jobs.cli import run_alone

    run_alone("demo")
