"""The figures the project is shown by, on real web documents and on XQuAD. Slow: `make test-slow`."""

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from jobs.cli import main
from pipeline.scoring.run import read_run

DATA = Path(__file__).resolve().parents[2].parent / "shared" / "data"

pytestmark = [pytest.mark.slow, pytest.mark.timeout(2400)]


def _data(name: str) -> Path:
    if not (DATA / name).is_dir():
        pytest.skip(f"the test data {DATA / name} is not on this machine")
    return DATA / name


def _tartan(*arguments: object) -> int:
    with pytest.raises(SystemExit) as stopped:
        main([str(argument) for argument in arguments])
    return int(stopped.value.code or 0)


def _scores(run: Path) -> dict[str, float]:
    assert _tartan("score", run) == 0
    return {row["metric"]: row["mean"] for row in pq.read_table(run / "scores.parquet").to_pylist()}


def test_hltcoe_on_web_documents(tmp_path: Path, ray_session: None) -> None:
    data = _data("liverag-mini")
    index = tmp_path / "index"
    assert _tartan("index", "--corpus", data, "--out", index, "--set", "shards.documents=18") == 0
    options = ["--questions", data / "questions.jsonl", "--index", f"plaid={index}", "--out", tmp_path / "run"]
    assert _tartan("answer", "hltcoe", *options) == 0
    asked = [json.loads(line) for line in (data / "questions.jsonl").read_text().splitlines()]
    rows = read_run(tmp_path / "run")
    assert [row["id"] for row in rows] == [str(question["id"]) for question in asked]
    assert len(rows) == 30
    answers = [json.loads(line) for line in (tmp_path / "run" / "answers.jsonl").read_text().splitlines()]
    assert [answer["id"] for answer in answers] == [question["id"] for question in asked]
    assert _tartan("validate", tmp_path / "run" / "answers.jsonl") == 0
    assert _scores(tmp_path / "run")["R@10"] >= 0.95


def test_retrieval_on_xquad(tmp_path: Path, ray_session: None) -> None:
    data = _data("xquad-en")
    index = tmp_path / "index"
    assert _tartan("index", "--corpus", data, "--out", index, "--set", "shards.documents=60") == 0
    system = tmp_path / "retrieval.yaml"
    system.write_text("stages:\n  - search: {index: plaid, queries: question, k: 10, into: passages}\n")
    options = ["--questions", data / "questions.jsonl", "--index", f"plaid={index}", "--out", tmp_path / "run"]
    assert _tartan("answer", system, *options) == 0
    assert len(read_run(tmp_path / "run")) == 1190
    assert _scores(tmp_path / "run")["R@5"] >= 0.96
