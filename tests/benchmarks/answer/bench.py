"""What the measurements share: questions, an index, and an answering job as `tartan answer` runs it."""

import json
import shutil
import subprocess
import sys
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jobs.answer import Job, prepare
from jobs.answer_bars import AnswerBars
from pipeline.corpus.factbook import QUESTIONS, write_factbook
from ray_cluster.pools import Makers, RayEnv

PAGES, SHARDS = 12, 4  # of the Factbook's index


@dataclass(frozen=True)
class Bench:
    """`work`: a cache folder; `questions`: of a part at most, and `tokens`: of an answer at most, for a trial."""

    work: Path
    questions: int | None = None
    tokens: int | None = None
    runs: int = 3

    def count(self, wanted: int) -> int:
        return min(wanted, self.questions or wanted)

    def factbook(self) -> Path:
        """An index of its first pages, in shards."""
        corpus = self.work / "corpus"
        if not corpus.exists():
            write_factbook(corpus, pages=PAGES)
        return self.index("factbook", corpus, f"shards.documents={PAGES // SHARDS}")

    def index(self, name: str, corpus: Path, *sets: str) -> Path:
        """The index of a corpus, built by `tartan index` where it is not there yet."""
        out = self.work / f"index-{name}"
        if not (out / "MANIFEST.json").exists():
            options = [part for option in sets for part in ("--set", option)]
            arguments = ["--corpus", str(corpus), "--out", str(out), "--json", *options]
            done = subprocess.run([sys.executable, "-m", "jobs.index", *arguments], capture_output=True, text=True)
            if done.returncode:
                raise RuntimeError(f"tartan index failed: {done.stderr[-3000:]}")
        return out

    def job(self, system: str, index: Path, rows: list[dict[str, Any]], sets: list[str]) -> Job:
        """What `tartan answer` makes of its arguments, in a new folder."""
        folder = self.work / "runs" / uuid.uuid4().hex[:8]
        folder.mkdir(parents=True)
        shorter = [f"answer.max_tokens={self.tokens}"] if self.tokens else []
        questions = folder / "questions.jsonl"
        questions.write_text("".join(json.dumps(row) + "\n" for row in rows))
        return prepare(system, [questions], [f"plaid={index}"], "embedded", [*sets, *shorter], folder / "run")


def factbook_questions(count: int, first: int = 0) -> list[dict[str, Any]]:
    """So many of the Factbook's, from number `first` on; numbered, after its last one, to be different again."""
    asked = [json.loads(line)["question"] for line in QUESTIONS.read_text().splitlines()]
    return [
        {"id": f"q{n}", "question": asked[n % len(asked)] + (f" ({n})" if n >= len(asked) else "")}
        for n in range(first, first + count)
    ]


def engines(job: Job, makers: Makers = Makers()) -> RayEnv:
    """The pools that a job's system needs; several jobs may use them."""
    methods = job.system.methods()
    return RayEnv.start(
        job.profile, job.system.roles(), job.indexes, methods=methods, makers=makers, say=lambda _: None
    )


def run(job: Job, pools: RayEnv, bars: AnswerBars | None = None) -> dict[str, Any]:
    """Answers, commits and finishes, all but the loading of models; returns the manifest's `finished`."""
    finished = job.run(lambda _: None, bars or AnswerBars(quiet=True), engines=pools)
    if failed := job.folder.failed_rows():
        raise RuntimeError(f"{len(failed)} questions failed, the first: {failed[0]}")
    return finished


def clear(job: Job) -> None:
    shutil.rmtree(job.folder.folder.parent)
