"""Every sweep of configs/sweeps, run through to its outcome table and its figures, on stubs in the place of models."""

import hashlib
import json
import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from pipeline.env import ChatRequest, SearchRequest
from pipeline.execute import Part, run_local
from pipeline.report.sweep_figures import sweep_figures
from pipeline.report.sweep_tables import read_sweep_tables
from pipeline.scoring.run import read_run
from pipeline.scoring.table import write_table
from pipeline.stage import Stage
from pipeline.sweep.config import read_sweep
from pipeline.sweep.execute import run_variants
from pipeline.sweep.outcome import outcome_table, score_variants
from pipeline.sweep.variants import Checked
from tests.pipeline.sweep.sweeps import variants_of
from tests.pipeline.sweep.test_config import SHIPPED
from tests.stubs import StubEmbedder, StubEnv, StubLLM, StubScorer, StubSearcher, hit, said

TEXTS = [
    "Which animal stands for Belize?",
    "Where does the Sarstoon end at last?",
    "Who rules the hill of Petén?",
    "How many swim?",
    "When did the council meet?",
]
ANSWERS = [["tapir"], ["delta"], None, ["many"], ["north"]]
DOCUMENTS = [["d0"], ["d1"], None, ["d2"], ["d3"]]
WORDS = (
    "animal", "belize", "river", "sarstoon", "hill", "petén", "tapir", "delta", "council", "north", "small", "green",
    "old", "many", "swims", "rules", "ends",
)  # fmt: skip


def number(*of: Any) -> int:
    """The same for the same texts, anywhere."""
    return int(hashlib.sha256(repr(of).encode()).hexdigest()[:8], 16)


class Index(StubSearcher):
    """As many passages as are asked for, of `size` characters, others for each query and method."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.size = size

    def search(self, request: SearchRequest) -> list[list[dict[str, Any]]]:
        return [[self._hit(query, request.method, n) for n in range(request.k)] for query in request.queries]

    def _hit(self, query: str, method: str, n: int) -> dict[str, Any]:
        pid = number(query, method) % 8 + n  # searches meet in some passages and part in others
        words = random.Random(pid).choices(WORDS, k=self.size // 4)
        text = " ".join(word + "." * (at % 7 == 6) for at, word in enumerate(words))[: self.size]
        document = number(pid // 3) % 1000
        host = ("www.cia.gov", "example.org")[document % 2]
        score = 9 / (1 + n) if method == "bm25" else 0.9 - n / 100
        return hit(pid, text, score, doc_id=f"d{document}", url=f"https://{host}/{pid}")


class Embedder(StubEmbedder):
    """Vectors in the plane whose cosines with each other are anything."""

    def embed(self, texts: Sequence[str]) -> np.ndarray:
        turn = np.array([number(text) % 1000 / 1000 * np.pi for text in texts])
        return np.stack([np.cos(turn), np.sin(turn)], axis=1).astype(np.float32)


class Env(StubEnv):
    def llm(self, role: str) -> StubLLM:
        return StubLLM(lambda request: reply(role, request), max_model_len=8192)


def reply(role: str, request: ChatRequest) -> str:
    """A list for who asks for one, yes on a long text, else words that hang on role, prompt and seed."""
    text = said(request)
    if "JSON list" in text:
        return json.dumps([f"{word} {number(text) % 7}" for word in WORDS[: 4 if "web search" in text else 2]])
    if "without guessing" in text:
        return "yes" if number(text) % 3 == 0 else "no"
    answer = number(role, text, request.seed)
    return f"The {WORDS[answer % len(WORDS)]} is {' '.join(WORDS[: answer % 9])}."


def log_p(context: str, continuation: str) -> float:
    return -1 - number(context, continuation) % 89 / 89


class Engine:
    """Runs here; an index has the passages that its build's settings give it."""

    def run(self, one: Checked, stages: Sequence[Stage], parts: Iterator[Part], given: pa.Schema) -> Iterator[Part]:
        sizes = [keys["split.size"] for keys in one.variant.index_settings.values()]
        env = Env(Index(sizes[0] if sizes else 1200), embedder=Embedder(), scorer=StubScorer(log_p))
        return run_local(stages, env, parts, given=dict(zip(given.names, given.types, strict=True)))


def outcome_of(folder: Path) -> list[Any]:
    """What a variant did, without how long it took."""
    return [
        (row["answer"], row["final_prompt"], row.get("passages"), row["trace"][-1]["calls"]) for row in read_run(folder)
    ]


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_a_shipped_sweep_runs_through_to_its_table(path: Path, tmp_path: Path) -> None:
    sweep = read_sweep(path.stem)
    variants = variants_of(sweep, TEXTS, answers=ANSWERS, doc_ids=DOCUMENTS)
    folders = run_variants(variants, tmp_path / "out", Engine(), part_size=2)
    for name, folder in folders.items():
        assert [row["error"] for row in read_run(folder)] == [None] * len(TEXTS), name
    did = [outcome_of(folder) for folder in folders.values()]
    alike = [name for n, name in enumerate(folders) if did[n] in did[:n]]
    assert not alike, "a setting that changes nothing"

    table = outcome_table(sweep, folders, score_variants(folders, sweep.metrics))
    lines = {(line["run"], line["metric"]): line for line in table.to_pylist()}
    assert list(lines) == [(name, metric) for name in folders for metric in sweep.metrics]
    assert all(line["n"] for line in lines.values() if line["metric"] != "supported")
    for (name, metric), line in lines.items():
        assert (line["p_holm"] is None) == (name == sweep.baseline or not line["n"]), (name, metric)
        assert line["calls"] > 0
    write_table(table, tmp_path / "outcome.parquet")
    figures = sweep_figures(read_sweep_tables(tmp_path / "outcome.csv").outcome)
    assert [figure.name for figure in figures][:2] == ["outcome", "sweep-1"]
    assert all(len(figure.rows) == len(folders) for figure in figures[1:] if "supported" not in figure.title)
