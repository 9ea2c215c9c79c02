"""The demo, for real and small: real Ray, real encoder, real vLLM, real PLAID; then the same system in this process."""

import json
import shutil
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from jobs.cli import main
from jobs.demo import SLICE_SETS
from pipeline.corpus.factbook import QUESTIONS
from pipeline.scoring.run import read_run

pytestmark = pytest.mark.timeout(1200)  # the first test waits for the whole demo, models loaded and all

COUNT = 4
IDS = [json.loads(line)["id"] for line in QUESTIONS.read_text().splitlines()[:COUNT]]


def _tartan(*arguments: object) -> int:
    with pytest.raises(SystemExit) as stopped:
        main([str(argument) for argument in arguments])
    return int(stopped.value.code or 0)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory, ray_session: None) -> Path:
    out = tmp_path_factory.mktemp("demo")
    assert _tartan("demo", "--out", out, "--pages", 8, "--questions", COUNT) == 0
    return out


def _options(home: Path, system: str) -> list[object]:
    """What the demo gave to `tartan answer`."""
    sets = [part for option in SLICE_SETS[system] for part in ("--set", option)]
    return ["--questions", home / "questions.jsonl", "--index", f"plaid={home / 'index'}", *sets]


def _answer_here(home: Path, system: str) -> list[dict[str, Any]]:
    run = home / "local" / system
    assert _tartan("answer", system, *_options(home, system), "--executor", "local", "--out", run) == 0
    return read_run(run)


def test_a_run_holds_every_question_in_order_with_everything_it_saw(home: Path) -> None:
    rows = read_run(home / "runs" / "hltcoe")
    assert [row["id"] for row in rows] == IDS
    manifest = json.loads((home / "runs" / "hltcoe" / "manifest.json").read_text())
    assert manifest["finished"]["rows"] == COUNT
    assert manifest["finished"]["failed"] == 0
    assert manifest["models"]["answerer"]["source"] == "embedded:smollm2-135m-instruct"
    assert {"ray", "torch", "tartan"} <= set(manifest["versions"])
    corpus = {
        row["id"]: row["text"] for f in (home / "corpus").glob("*.parquet") for row in pq.read_table(f).to_pylist()
    }
    stages = ["search", "write_queries", "search", "filter_snippets", "answer"]
    for row in rows:
        assert [step["stage"] for step in row["trace"]] == stages
        assert row["error"] is None
        assert 3 <= len(row["passages"]) <= 9
        assert len(row["queries"]) <= 2
        for passage in row["passages"]:
            text = corpus[passage["doc_id"]]
            assert text[passage["start"] : passage["start"] + len(passage["text"])] == passage["text"]
        assert sum(snippet["kept"] for snippet in row["snippets"]) <= 5
        for snippet in row["snippets"]:
            below = snippet["score"] < 0.35
            assert (snippet["reason"] or "").endswith("< 0.35") == below
            assert snippet["kept"] == (snippet["reason"] is None)
        if any(snippet["kept"] for snippet in row["snippets"]):
            assert row["question"] in row["final_prompt"]
            assert row["finish_reason"] in ("stop", "length")
            assert row["trace"][4]["prompt_tokens"] > 0


def test_the_files_for_others(home: Path) -> None:
    run = home / "runs" / "hltcoe"
    assert _tartan("validate", run / "answers.jsonl") == 0
    assert len((run / "answers.jsonl").read_text().splitlines()) == COUNT
    trec = [line.split() for line in (run / "run.trec").read_text().splitlines()]
    assert {line[0] for line in trec} == set(IDS)
    assert all(len(line) == 6 for line in trec)
    scores = {row["metric"]: row for row in pq.read_table(run / "scores.parquet").to_pylist()}
    assert {"nDCG@10", "R@10", "RR", "EM", "F1", "containment", "ROUGE-L"} <= set(scores)
    assert scores["R@10"]["n"] + scores["R@10"]["missing_gold"] == COUNT
    assert scores["R@10"]["mean"] > 0.5


def test_again_there_is_nothing_to_redo(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = home / "runs" / "hltcoe"
    before = {path: path.stat().st_mtime_ns for path in run.glob("answers/*")}
    options = [*_options(home, "hltcoe"), "--out", run]
    assert _tartan("answer", "hltcoe", *options) == 0
    assert f"all {COUNT} questions are answered" in capsys.readouterr().err
    assert {path: path.stat().st_mtime_ns for path in run.glob("answers/*")} == before
    assert _tartan("answer", "hltcoe", *options, "--set", "filter_snippets.min_cosine=0.5") == 2
    assert "min_cosine was 0.35, now it is 0.5" in capsys.readouterr().err


def test_search_shows_hits(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    assert _tartan("search", home / "index", "highest point in Iceland", "-k", 2, "--json") == 0
    (found,) = [json.loads(line) for line in capsys.readouterr().out.splitlines() if line.startswith("[")][-1]
    assert [hit["rank"] for hit in found["hits"]] == [0, 1]
    assert found["hits"][0]["doc_id"] == "factbook:iceland"
    assert _tartan("search", home / "index", "highest point in Iceland", "-k", 2) == 0
    assert "factbook:iceland" in capsys.readouterr().out


def _same(items: list[dict[str, Any]], others: list[dict[str, Any]]) -> None:
    """Equal but for the last bits of scores, which depend on a process's number of threads."""
    scores, other_scores = [item["score"] for item in items], [item["score"] for item in others]
    assert scores == pytest.approx(other_scores, rel=1e-5)
    plain = [{**item, "score": None} for item in items]
    assert plain == [{**item, "score": None} for item in others]


@pytest.mark.slow
def test_local_and_ray_give_equal_tables(home: Path) -> None:
    """Without generated queries everything before generation is equal; with them, whatever follows from equal queries
    is (greedy decoding may differ with the make-up of a batch; law 5)."""
    assert _tartan("answer", "rag", *_options(home, "rag"), "--out", home / "runs" / "rag") == 0
    for row, local in zip(read_run(home / "runs" / "rag"), _answer_here(home, "rag"), strict=True):
        assert row.keys() == local.keys()
        _same(row["passages"], local["passages"])
        assert row["final_prompt"] == local["final_prompt"]
    for row, local in zip(read_run(home / "runs" / "hltcoe"), _answer_here(home, "hltcoe"), strict=True):
        assert row.keys() == local.keys()
        _same(row["context"], local["context"])
        if row["queries"] == local["queries"]:
            _same(row["passages"], local["passages"])
            _same(row["snippets"], local["snippets"])
            assert row["final_prompt"] == local["final_prompt"]


def test_an_index_grows_and_shrinks(home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    index = tmp_path / "index"
    shutil.copytree(home / "index", index)
    text = "The Republic of Zubrowka exports marzipan. Its national flower is the edelweiss."
    (tmp_path / "new.jsonl").write_text(json.dumps({"id": "zubrowka", "text": text}) + "\n")
    assert _tartan("index", "--add", tmp_path / "new.jsonl", "--out", index) == 0
    assert "5 shards" in capsys.readouterr().out

    def best(*options: str) -> str:
        assert _tartan("search", index, "who exports marzipan", "-k", 1, "--json", *options) == 0
        (found,) = json.loads(capsys.readouterr().out.splitlines()[-1])
        return found["hits"][0]["doc_id"] if found["hits"] else ""

    assert best() == best("--method", "bm25") == "zubrowka"
    assert _tartan("index", "--drop-shard", "00004", "--out", index) == 0
    capsys.readouterr()
    assert best() != "zubrowka"
    assert best("--method", "bm25") != "zubrowka"
    report = json.loads((index / "report.json").read_text())
    assert report["dropped"] == ["00004"]
    assert report["steps"]["encode"]["vectors_per_second"] > 0


SWEEP = """description: Two thresholds.
system: hltcoe
vary:
  filter_snippets.min_cosine: [0.35, 0.7]
baseline: {filter_snippets.min_cosine: 0.35}
metrics: [F1, abstained]
"""
SHORT = ["filter_snippets.k=2", "stages.1.k=1", "stages.3.k=1", "write_queries.max_tokens=24", "answer.max_tokens=24"]


@pytest.mark.slow
def test_a_sweep_on_ray_with_a_judge(home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Every model is real; what a judge of 135M says is not looked at, that it was asked and counted is."""
    (tmp_path / "two.yaml").write_text(SWEEP)
    sets = [part for option in SHORT for part in ("--set", option)]
    given = ["--questions", home / "questions.jsonl", "--index", f"plaid={home / 'index'}", "--limit", 2, *sets]
    out = tmp_path / "sweep"
    assert _tartan("sweep", tmp_path / "two.yaml", *given, "--judge", "judge", "--out", out) == 0
    lines = pq.read_table(out / "outcome.parquet").to_pylist()
    assert len({line["run"] for line in lines}) == 2
    assert {"F1", "abstained", "similarity", "groundedness", "correctness", "faithfulness"} <= {
        line["metric"] for line in lines
    }
    runs = sorted((out / "runs").iterdir())
    traces = [[step["stage"] for step in row["trace"]] for run in runs for row in read_run(run)]
    assert traces == [["search", "write_queries", "search", "filter_snippets", "answer"]] * 4
    labels = tmp_path / "labels.jsonl"
    pair = {"question": "What is the capital of Nepal?", "reference": "Kathmandu", "label": 10}
    other = {**pair, "answer": "I like trains.", "label": 0}
    labels.write_text("".join(json.dumps(line) + "\n" for line in ({**pair, "answer": "It is Kathmandu."}, other)))
    capsys.readouterr()
    assert _tartan("judge-check", labels, "--repeats", 2, "--json") == 0
    agreement = json.loads(capsys.readouterr().out)["agreement"]
    assert all(line["n"] + line["excluded"] > 0 for line in agreement)
