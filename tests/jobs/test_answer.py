"""The answering job in this process, with a model of a given pace: what is asked, what is left, exit codes."""

import json
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import pipeline.local
import ray_cluster.connect
from pipeline.scoring.run import read_run
from tests.jobs.conftest import Tartan
from tests.jobs.stub_answer import use
from tests.stubs import timeless

ROOT = Path(__file__).parents[2]


def asked(path: Path, ids: list[str], word: str = "") -> Path:
    path.write_text("".join(json.dumps({"id": id, "question": f"What is {id}? {word}"}) + "\n" for id in ids))
    return path


def options(folder: Path, *more: object) -> list[object]:
    return ["answer", "closed-book", "--out", folder / "run", "--executor", "local", "--part-size", 2, *more]


def calls(log: Path) -> Counter[str]:
    return Counter(log.read_text().splitlines()) if log.exists() else Counter()


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(pipeline.local, "LocalEnv", use(0.0, tmp_path / "log"))
    return tmp_path / "log"


def test_failed_rows_alone_are_done_again(tartan: Tartan, tmp_path: Path, log: Path) -> None:
    path = asked(tmp_path / "q.jsonl", ["007", "NA", "null", "9223372036854775807"])
    with path.open("a") as file:
        file.write('{"id": "x", "question": "Will you refuse?"}\n')
    log.with_name("log.refuse").touch()
    arguments = options(tmp_path, "--questions", path)
    code, text = tartan(*arguments)
    assert code == 1
    assert "failed x: answer: generation: too long" in text
    assert "answer: 0 of 5 questions, started\nanswer: 4 of 5 questions, failed: 1, " in text
    assert len(calls(log)) == 5
    log.with_name("log.refuse").unlink()
    code, text = tartan(*arguments)
    assert code == 0
    assert "run: 1 failed or unanswered questions to do again" in text
    assert "answer: 4 of 5 questions, started\nanswer: 5 of 5 questions" in text
    assert sorted(calls(log).values()) == [1, 1, 1, 1, 2]
    rows = read_run(tmp_path / "run")
    assert [row["id"] for row in rows] == ["007", "NA", "null", "9223372036854775807", "x"]
    assert all(row["answer"].startswith("said") for row in rows)
    lines = [json.loads(line) for line in (tmp_path / "run" / "answers.jsonl").read_text().splitlines()]
    assert [line["answer"] for line in lines] == [row["answer"] for row in rows]
    code, text = tartan(*arguments)
    assert (code, "all 5 questions are answered" in text) == (0, True)
    assert sum(calls(log).values()) == 6


def test_a_finished_run_starts_no_cluster(
    tartan: Tartan, tmp_path: Path, log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = asked(tmp_path / "q.jsonl", ["a"])
    assert tartan(*options(tmp_path, "--questions", path))[0] == 0
    connected: list[object] = []
    monkeypatch.setattr(ray_cluster.connect, "connect", lambda *wanted: connected.append(wanted))
    code, text = tartan("answer", "closed-book", "--out", tmp_path / "run", "--questions", path)
    assert (code, connected) == (0, [])
    assert "all 1 questions are answered" in text


def test_another_engine_option_is_another_run(tartan: Tartan, tmp_path: Path, log: Path) -> None:
    arguments = options(tmp_path, "--questions", asked(tmp_path / "q.jsonl", ["a"]))
    assert tartan(*arguments)[0] == 0
    assert tartan(*arguments, "--set", "models.smollm2.cpus=1")[0] == 0  # hardware
    code, text = tartan(*arguments, "--set", "models.smollm2.engine_options.quantization=fp8")
    assert code == 2
    assert "models.answerer.engine_options" in text
    assert "fp8" in text


def test_the_first_questions_alone(tartan: Tartan, tmp_path: Path, log: Path) -> None:
    path = asked(tmp_path / "q.jsonl", ["a", "b", "c"])
    assert tartan(*options(tmp_path, "--questions", path, "--limit", 2))[0] == 0
    assert [row["id"] for row in read_run(tmp_path / "run")] == ["a", "b"]
    code, text = tartan(*options(tmp_path, "--questions", path))
    assert code == 2
    assert "now it is '3 of sha256" in text


def test_the_manifest_counts(tartan: Tartan, tmp_path: Path, log: Path) -> None:
    tartan(*options(tmp_path, "--questions", asked(tmp_path / "q.jsonl", ["a", "b", "c"])))
    finished = json.loads((tmp_path / "run" / "manifest.json").read_text())["finished"]
    assert finished["finish_reasons"] == {"stop": 3}
    assert (finished["rows"], finished["failed"], finished["out_of_time"]) == (3, 0, 0)
    stage, total = finished["cost"]
    assert (stage["stage"], stage["questions"], stage["calls"], stage["generated_tokens"]) == ("1 answer", 3, 3, 6)
    assert total["prompt_tokens"] == sum(row["trace"][0]["prompt_tokens"] for row in read_run(tmp_path / "run"))
    code, text = tartan("score", tmp_path / "run")
    assert code == 0
    assert "1 answer" in text


def test_files_that_share_questions_are_one_set(tartan: Tartan, tmp_path: Path, log: Path) -> None:
    one, two = asked(tmp_path / "1.jsonl", ["a", "b"]), asked(tmp_path / "2.jsonl", ["b", "c"])
    assert tartan(*options(tmp_path, "--questions", one, "--questions", two))[0] == 0
    assert [row["id"] for row in read_run(tmp_path / "run")] == ["a", "b", "c"]
    assert tartan(*options(tmp_path, "--questions", one, "--questions", two))[0] == 0
    code, text = tartan(*options(tmp_path, "--questions", one))
    assert code == 2
    assert "questions was '3 of sha256" in text
    other = asked(tmp_path / "3.jsonl", ["b"], "Another one.")
    code, text = tartan(*options(tmp_path / "new", "--questions", one, "--questions", other))
    assert code == 2
    assert "1.jsonl and 'What is b? Another one.' in" in text
    assert not (tmp_path / "new").exists()


def test_columns_are_named_on_the_command_line(tartan: Tartan, tmp_path: Path, log: Path) -> None:
    (tmp_path / "q.csv").write_text("nr,text\n007,What?\n")
    code, text = tartan(*options(tmp_path, "--questions", tmp_path / "q.csv"))
    assert (code, "has no 'id'; it has nr, text" in text) == (2, True)
    named = ["--id-column", "nr", "--question-column", "text"]
    assert tartan(*options(tmp_path, "--questions", tmp_path / "q.csv", *named))[0] == 0
    assert read_run(tmp_path / "run")[0]["id"] == "007"


def test_the_same_rows_at_any_part_size(tartan: Tartan, tmp_path: Path, log: Path) -> None:
    path = asked(tmp_path / "q.jsonl", [f"q{n}" for n in range(7)])
    found = []
    for size in (1, 3, 16):
        tartan(*options(tmp_path / str(size), "--questions", path, "--part-size", size))
        found.append([timeless(row) for row in read_run(tmp_path / str(size) / "run")])
    assert found[0] == found[1] == found[2]


@pytest.mark.parametrize(("policy", "exit_code"), [("abstain", 0), ("fail", 1)])
def test_a_deadline(
    tartan: Tartan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, policy: str, exit_code: int
) -> None:
    log = tmp_path / "log"
    monkeypatch.setattr(pipeline.local, "LocalEnv", use(1.0, log))
    monkeypatch.setattr("jobs.stopping.JOIN_S", 0.0)
    arguments = options(tmp_path, "--questions", asked(tmp_path / "q.jsonl", [str(n) for n in range(20)]))
    started = time.monotonic()
    code, text = tartan(*arguments, "--deadline", "2.9s", "--deadline-policy", policy)
    assert time.monotonic() - started < 15
    assert code == exit_code
    rows = read_run(tmp_path / "run")
    late = [row for row in rows if row["finish_reason"] != "stop"]
    assert late
    assert f"deadline (2.9s): {len(late)} questions were not reached and are filled in ({policy})" in text
    assert f"{len(late)} x deadline: not answered" in text
    lines = [json.loads(line) for line in (tmp_path / "run" / "answers.jsonl").read_text().splitlines()]
    assert [line["id"] for line in lines] == list(range(20))
    assert {line["answer"] for line in lines[-len(late) :]} == {"I don't know." if policy == "abstain" else ""}
    assert tartan("validate", tmp_path / "run" / "answers.jsonl")[0] == 0
    monkeypatch.setattr(pipeline.local, "LocalEnv", use(0.0, log))
    code, text = tartan(*arguments)
    assert (code, f"{len(late)} failed or unanswered questions to do again" in text) == (0, True)
    assert {row["finish_reason"] for row in read_run(tmp_path / "run")} == {"stop"}


def test_times_that_are_none(tartan: Tartan, tmp_path: Path, log: Path) -> None:
    path = asked(tmp_path / "q.jsonl", ["a"])
    for text in ("110", "soon", "0m", "", "1m1h"):
        code, said = tartan(*options(tmp_path, "--questions", path, f"--deadline={text}"))
        if text:
            assert (code, "write hours, minutes and seconds as in 110m" in said) == (2, True)
    assert tartan(*options(tmp_path, "--questions", path, "--deadline", "1h0.5m3s"))[0] == 0


def process(folder: Path, seconds: float, *more: object) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "tests.jobs.stub_answer", seconds, folder / "log", *options(folder, *more)]
    return subprocess.Popen(
        list(map(str, command)), cwd=ROOT, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )


def begun(running: "subprocess.Popen[str]") -> None:
    assert running.stderr
    while not running.stderr.readline().endswith("started\n"):
        assert running.poll() is None


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_signals_end_it_cleanly(tmp_path: Path, number: signal.Signals, code: int, tartan: Tartan) -> None:
    path = asked(tmp_path / "q file.jsonl", [str(n) for n in range(40)])
    running = process(tmp_path, 0.2, "--questions", path)
    begun(running)
    time.sleep(1)
    running.send_signal(number)
    _, text = running.communicate(timeout=30)
    assert running.returncode == code
    assert "Traceback" not in text
    assert f"tartan answer closed-book --out {tmp_path / 'run'}" in text
    assert f"--questions '{path}'" in text
    done = len(list((tmp_path / "run" / "answers").glob("part-*.parquet")))
    assert 0 < done < 20
    assert not (tmp_path / "run" / "answers.jsonl").exists()


def _killed_again_and_again(folder: Path, kills: int, seed: int) -> None:
    ids = [str(n) for n in range(20 * kills)]  # at 40 a second more than the time before the last kill
    path = asked(folder / "q.jsonl", ids)
    moments = random.Random(seed)
    before: dict[str, bytes] = {}
    killed = 0
    while killed < kills:
        running = process(folder, 0.05, "--questions", path)
        begun(running)
        time.sleep(moments.uniform(0, 0.4))
        running.kill()
        running.communicate(timeout=30)
        killed += 1
        parts = {file.name: file.read_bytes() for file in (folder / "run" / "answers").glob("part-*")}
        assert before.items() <= parts.items()  # what was committed has not changed
        before = parts
    last = process(folder, 0.0, "--questions", path)
    _, text = last.communicate(timeout=60)
    assert last.returncode == 0, text
    rows = read_run(folder / "run")
    assert [row["id"] for row in rows] == ids
    assert all(row["error"] is None and row["finish_reason"] == "stop" for row in rows)
    twice = calls(folder / "log").total() - len(ids)
    assert 0 <= twice <= 2 * killed  # a kill costs the batch under way at most


def test_killed_at_random_times(tmp_path: Path) -> None:
    _killed_again_and_again(tmp_path, kills=3, seed=1)


@pytest.mark.slow
def test_killed_at_random_times_often(tmp_path: Path) -> None:
    _killed_again_and_again(tmp_path, kills=20, seed=2)


def test_the_json_result(tartan: Tartan, tmp_path: Path, log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log.with_name("log.refuse").touch()
    path = asked(tmp_path / "q.jsonl", ["a"], "refuse")
    code, text = tartan(*options(tmp_path, "--questions", path, "--json"))
    found: dict[str, Any] = json.loads(text)
    assert (code, found["failed"], found["errors"][0]["message"]) == (1, 1, "too long")
    assert threading.active_count() < 20
