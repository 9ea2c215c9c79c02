"""What the project is shown by, on real web documents and on XQuAD, with real models on Ray. Slow: `make test-slow`."""

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from jobs.cli import main
from jobs.demo import SLICE_SETS
from pipeline.compose import load_system
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


@pytest.fixture(scope="module")
def web(tmp_path_factory: pytest.TempPathFactory, ray_session: None) -> Path:
    """A folder with `index`, by late interaction, words and dense vectors, over 70 web documents."""
    data, folder = _data("liverag-mini"), tmp_path_factory.mktemp("web")
    settings = ["--set", "shards.documents=18", "--set", "dense.role=dense_retriever"]
    assert _tartan("index", "--corpus", data, "--out", folder / "index", *settings) == 0
    return folder


@pytest.mark.parametrize("name", SLICE_SETS)
def test_a_system_on_web_documents(name: str, web: Path) -> None:
    """Thirty LiveRAG-style questions, with the settings of `tartan demo` for a machine of two cores."""
    questions, run = _data("liverag-mini") / "questions.jsonl", web / name
    indexes = [f"--index={index}={web / 'index'}" for index in load_system(name).indexes()]
    settings = [f"--set={setting}" for setting in SLICE_SETS[name]]
    assert _tartan("answer", name, "--questions", questions, *indexes, "--out", run, *settings) == 0
    asked = [json.loads(line) for line in questions.read_text().splitlines()]
    rows = read_run(run)
    assert [row["id"] for row in rows] == [str(question["id"]) for question in asked]
    assert len(rows) == 30
    answers = [json.loads(line) for line in (run / "answers.jsonl").read_text().splitlines()]
    assert [answer["id"] for answer in answers] == [question["id"] for question in asked]
    assert _tartan("validate", run / "answers.jsonl") == 0
    stages = [stage.name for stage in load_system(name).stages]
    for row in rows:
        assert [step["stage"] for step in row["trace"]] == stages
        assert sum(step["seconds"] for step in row["trace"]) > 0
        if row["finish_reason"] in ("stop", "length"):
            assert row["answer"]
            assert sum(step["calls"] for step in row["trace"]) > 0
            assert sum(step["generated_tokens"] or 0 for step in row["trace"]) > 0
    if name == "hltcoe":
        assert _scores(run)["R@10"] >= 0.95


def test_the_systems_side_by_side(web: Path, capsys: pytest.CaptureFixture[str]) -> None:
    runs = [web / name for name in SLICE_SETS if (web / name / "answers.jsonl").is_file()]
    if len(runs) < 2:
        pytest.skip("runs of the test above are compared: run the whole file")
    capsys.readouterr()
    assert _tartan("score", *runs) == 0
    shown = capsys.readouterr().out
    assert "side by side" in shown
    assert "containment" in shown


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
