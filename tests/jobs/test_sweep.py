"""`tartan sweep`, `tune`, `score A B`, `score --judge` and `judge-check`, with stubs in the place of models."""

import json
import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from jobs.cli import main
from pipeline.env import ChatRequest, Completion
from tests.stubs import StubLLM, said

SWEEP = """
system: closed-book
vary: {answer.max_words: [10, 200]}
baseline: {answer.max_words: 10}
metrics: [EM, F1, nDCG@10]
"""
QUESTIONS = [{"id": n, "question": f"What is {n}?", "answers": [str(n)], "doc_ids": ["d"]} for n in range(12)]


def reply(request: ChatRequest) -> str:
    """Knows the answer if it may say much."""
    text = said(request)
    return text.split("What is ")[1].split("?")[0] if "200" in text else "no idea"


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("pipeline.local.LocalEnv.llm", lambda self, role: StubLLM(reply))
    (tmp_path / "s.yaml").write_text(SWEEP)
    (tmp_path / "q.jsonl").write_text("".join(json.dumps(question) + "\n" for question in QUESTIONS))
    return tmp_path


def tartan(*arguments: object) -> int:
    with pytest.raises(SystemExit) as stopped:
        main([str(argument) for argument in arguments])
    code = stopped.value.code
    return code if isinstance(code, int) else 0


def common(files: Path, *more: object) -> list[object]:
    return [files / "s.yaml", "--questions", files / "q.jsonl", "--out", files / "out", "--executor", "local", *more]


def test_a_sweep_and_the_comparison_of_its_runs(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert tartan("sweep", *common(files, "--json")) == 0
    lines = {(line["run"], line["metric"]): line for line in json.loads(capsys.readouterr().out)}
    better = lines["max_words=200", "EM"]
    assert (better["mean"], better["difference"], better["n"]) == (1, 1, 12)
    assert better["p_holm"] == pytest.approx(2 / 2**12 * 2)  # two comparisons have values
    assert lines["max_words=200", "nDCG@10"]["n"] == 0  # nothing is retrieved
    assert pq.read_table(files / "out" / "outcome.parquet").num_rows == len(lines)
    assert "max_words=200" in (files / "out" / "report.html").read_text()
    assert tartan("sweep", *common(files)) == 0
    assert "  EM " in (shown := capsys.readouterr().out)
    assert "max_words=200" in shown
    assert "paired bootstrap" in shown
    assert max(map(len, shown.split("outcome.csv")[0].splitlines()[:-1])) <= 80

    runs = [files / "out" / "runs" / name for name in ("max_words=10", "max_words=200")]
    assert tartan("score", *runs, "--json") == 0
    compared = {line["metric"]: line for line in json.loads(capsys.readouterr().out)}
    assert compared["EM"]["difference"] == 1
    assert "McNemar" in compared["EM"]["method"]
    assert tartan("score", *runs, "--out", files / "compared.parquet") == 0
    assert "against" in capsys.readouterr().out
    assert {line["metric"]: line for line in pq.read_table(files / "compared.parquet").to_pylist()} == compared
    assert (files / "compared.csv").exists()
    assert (runs[0] / "costs.csv").read_text().startswith('"id","stage"')
    assert tartan("score", runs[0], "--out", files / "compared.parquet") == 2


def test_the_first_questions_only(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert tartan("sweep", *common(files, "--limit", 5, "--json")) == 0
    assert {line["n"] for line in json.loads(capsys.readouterr().out) if line["metric"] == "EM"} == {5}
    run = pq.read_table(files / "out" / "runs" / "max_words=10" / "answers" / "part-00000.parquet")
    assert run["id"].to_pylist() == ["0", "1", "2", "3", "4"]
    assert tartan("sweep", *common(files, "--limit", 6)) == 2
    assert "questions was '5 of sha256" in capsys.readouterr().err


def test_a_sweep_is_graded_by_a_judge_and_tuned_by_its_grades(
    files: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The judge likes digits: similarity 9 for an answer with one, else 2."""

    def answer_or_judge(request: ChatRequest) -> str:
        text = said(request)
        if "apart" in text:
            return "direct: it"
        if "Claim:" in text:
            return "neutral"
        if "Reference" in text:
            return "9" if re.search(r"\d", text.split("Answer to grade:")[1].split("\n")[0]) else "2"
        return "5" if "Source" in text else reply(request)

    monkeypatch.setattr("pipeline.local.LocalEnv.llm", lambda self, role: StubLLM(answer_or_judge))
    assert tartan("sweep", *common(files, "--judge", "judge", "--json")) == 0
    lines = {(line["run"], line["metric"]): line for line in json.loads(capsys.readouterr().out)}
    liked = lines["max_words=200", "similarity (local judge)"]
    assert (liked["mean"], liked["baseline_mean"], liked["n"]) == (9, 2, 12)
    tuning = ("--judge", "judge", "--objective", "similarity", "--folds", 3, "--json")
    assert tartan("tune", *common(files, *tuning)) == 0
    whole = json.loads(capsys.readouterr().out)[-1]
    assert (whole["chosen"], whole["objective"], whole["mean"]) == ("max_words=200", "similarity (local judge)", 9)
    assert tartan("sweep", *common(files, "--judge", "retriever")) == 2


def test_failed_questions_are_named_and_make_the_exit_code_1(
    files: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(request: ChatRequest) -> Any:
        return Completion("", "", "error", error="too long") if "What is 7?" in said(request) else reply(request)

    monkeypatch.setattr("pipeline.local.LocalEnv.llm", lambda self, role: StubLLM(refuse))
    assert tartan("sweep", *common(files)) == 1
    assert "variant 'max_words=10': 1 of 12 questions failed" in capsys.readouterr().err
    monkeypatch.setattr("pipeline.local.LocalEnv.llm", lambda self, role: StubLLM(reply))
    assert tartan("sweep", *common(files, "--json")) == 0
    lines = {(line["run"], line["metric"]): line for line in json.loads(capsys.readouterr().out)}
    assert lines["max_words=200", "EM"]["mean"] == 1


def test_tune_prints_the_gap_and_marks_the_mistake(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert tartan("tune", *common(files, "--objective", "F1", "--folds", 4, "--json")) == 0
    whole = json.loads(capsys.readouterr().out)[-1]
    assert (whole["chosen"], whole["mean"], whole["gap"], whole["difference"]) == ("max_words=200", 1, 0, 1)
    assert tartan("tune", *common(files, "--objective", "F1", "--report-on-tuned-questions")) == 0
    assert "REPORTED ON THE QUESTIONS" in capsys.readouterr().out
    assert "REPORTED ON THE QUESTIONS" in (files / "out" / "tuned.csv").read_text()
    run = files / "out" / "runs" / "max_words=200"
    assert tartan("report", run, "--sweep", files / "out") == 0
    assert '<p class="notice">F1: REPORTED ON THE QUESTIONS' in (run / "report.html").read_text()
    capsys.readouterr()
    assert tartan("tune", *common(files, "--objective", "F1", "--report-on-tuned-questions", "--json")) == 0
    assert all("REPORTED ON THE" in line["warning"] for line in json.loads(capsys.readouterr().out))
    assert tartan("tune", *common(files, "--held-out", 0.5, "--report-on-tuned-questions")) == 2
    assert tartan("tune", *common(files, "--objective", "nDCG@10", "--quiet")) == 2
    assert "0 of 12 questions have it in every variant" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("max_words", "max_wordz"), "variant 'max_wordz=10': closed-book.yaml, .*unknown key 'max_wordz'"),
        (("F1", "F9x"), "'F9x' is no measure"),
        (("answer.max_words: [", "index.plaid.split.size: ["), "index.plaid.split.size"),
    ],
)
def test_bad_sweeps_stop_before_anything_runs(
    files: Path, capsys: pytest.CaptureFixture[str], change: tuple[str, str], message: str
) -> None:
    (files / "s.yaml").write_text(SWEEP.replace(*change))
    assert tartan("sweep", *common(files)) == 2
    assert re.search(message, capsys.readouterr().err)
    assert not (files / "out").exists()


def test_a_setting_is_for_the_variants_that_have_the_stage(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    listed = "[{name: plain, system: closed-book}, {name: votes, system: closed-book-votes}]"
    (files / "s.yaml").write_text(f"variants: {listed}\nbaseline: plain\nmetrics: [EM]")
    assert tartan("sweep", *common(files, "--set", "vote.voter_num=3", "--set", "answer.max_words=9", "--json")) == 0
    lines = {line["run"]: line for line in json.loads(capsys.readouterr().out)}
    assert (lines["plain"]["calls"], lines["votes"]["calls"]) == (1, 3)
    assert tartan("sweep", *common(files, "--set", "explore.rounds=1")) == 2
    assert "no stage is called 'explore'" in capsys.readouterr().err


def test_an_index_is_varied_only_with_a_corpus(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    vary = "vary: {index.plaid.split.size: [100, 200]}\nbaseline: {index.plaid.split.size: 100}"
    (files / "s.yaml").write_text(f"system: rag\n{vary}")
    assert tartan("sweep", *common(files)) == 2
    assert "give --corpus" in capsys.readouterr().err
    (files / "s.yaml").write_text(f"system: closed-book\n{vary}")
    assert tartan("sweep", *common(files, "--corpus", files)) == 2
    assert "its system searches no index" in capsys.readouterr().err


def write_run(folder: Path, ids: list[str]) -> Path:
    rows = [
        {"id": id, "question": f"Q {id}", "answers": ["a"], "doc_ids": ["d"], "error": None, "answer": "a fact",
         "passages": [{"pid": 1, "doc_id": "d", "text": "a fact", "url": None, "score": 1.0}]}
        for id in ids
    ]  # fmt: skip
    (folder / "answers").mkdir(parents=True)
    pq.write_table(pa.Table.from_pylist(rows), folder / "answers" / "part-00000.parquet")
    return folder


def test_runs_of_other_questions_are_refused_unless_allowed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    one, two = write_run(tmp_path / "one", ["a", "b", "c"]), write_run(tmp_path / "two", ["b", "c", "d"])
    assert tartan("score", one, two) == 2
    assert "2 of them in common; allow comparing on these with --common" in capsys.readouterr().err
    assert tartan("score", one, two, "--common", "--json") == 0
    assert {line["n"] for line in json.loads(capsys.readouterr().out) if line["metric"] == "EM"} == {2}
    assert tartan("score", one, one) == 2
    assert "is given twice" in capsys.readouterr().err


def test_qrels_and_measures_by_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    one = write_run(tmp_path / "one", ["a", "b"])
    (tmp_path / "qrels.txt").write_text("a 0 d 0\na 0 e 1\n")
    options = ("--qrels", tmp_path / "qrels.txt", "--metric", "AP", "--metric", "nDCG@7", "--json")
    assert tartan("score", one, *options) == 0
    lines = {line["metric"]: line for line in json.loads(capsys.readouterr().out)}
    assert (lines["AP"]["mean"], lines["AP"]["n"], lines["AP"]["missing_gold"]) == (0, 1, 1)
    assert "nDCG@7" in lines
    assert "nDCG@10" not in lines
    assert tartan("score", one) == 0
    assert (one / "qrels.txt").read_text() == "a 0 d 1\nb 0 d 1\n"
    assert tartan("validate", one / "qrels.txt") == 0
    assert (one / "question-scores.csv").exists()
    (tmp_path / "more.qrels").write_text("a 0 d 1\nz 0 d 1\n")
    capsys.readouterr()
    assert tartan("score", one, "--qrels", tmp_path / "more.qrels", "--metric", "RR", "--json") == 0
    lines = {line["metric"]: line for line in json.loads(capsys.readouterr().out)}
    assert [lines["RR"][name] for name in ("mean", "n", "missing_gold", "failed")] == [0.5, 2, 1, 1]
    (tmp_path / "other.qrels").write_text("z 0 d 1\n")
    assert tartan("score", one, "--qrels", tmp_path / "other.qrels") == 2


def judging(request: ChatRequest) -> str:
    text = said(request)
    return "direct: a fact" if "apart" in text else "entailed" if "Claim:" in text else "9"


def test_a_judge_is_asked_once_and_marked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    llm = StubLLM(judging)
    monkeypatch.setattr("pipeline.local.LocalEnv.llm", lambda self, role: llm)
    one = write_run(tmp_path / "one", ["a", "b"])
    for _ in range(2):
        assert tartan("score", one, "--judge", "judge", "--json") == 0
        lines = {line["metric"]: line for line in json.loads(capsys.readouterr().out)}
        assert lines["correctness (local judge)"]["mean"] == 2
        assert lines["faithfulness (local judge)"]["mean"] == 1
        assert lines["similarity (local judge)"]["mean"] == 9
        assert "local judge: embedded:smollm2-135m-instruct" in lines["similarity (local judge)"]["interval"]
        assert len(llm.batches) == 2  # claims and grades, then relations; the second time nothing
    (tmp_path / "claims.jsonl").write_text('{"id": "a", "claims": {"direct": ["x"]}}\n')
    assert tartan("score", one, "--judge", "judge", "--claims", tmp_path / "claims.jsonl") == 0
    assert len(llm.batches) == 4
    capsys.readouterr()
    assert tartan("score", one, "--judge", "judge", "--scaling", "linear", "--json") == 0
    assert len(llm.batches) == 4
    lines = {line["metric"]: line for line in json.loads(capsys.readouterr().out)}
    assert "scaling linear, alpha 0.7" in lines["correctness (local judge)"]["interval"]
    assert tartan("score", one, "--judge", "retriever") == 2
    assert "no role of profile embedded that generates" in capsys.readouterr().err
    assert tartan("score", one, "--claims", tmp_path / "claims.jsonl") == 2
    assert tartan("score", one, "--scaling", "cubic") == 2


def test_judge_check(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    llm = StubLLM(judging)
    monkeypatch.setattr("pipeline.local.LocalEnv.llm", lambda self, role: llm)
    path = tmp_path / "labels.jsonl"
    path.write_text("".join(json.dumps({"source": "s", "statement": "t", "label": n}) + "\n" for n in (8, 9, 10)))
    options = ("--scale", "groundedness", "--temperature", 0.9, "--out", tmp_path / "agreement.parquet")
    assert tartan("judge-check", path, *options) == 0
    assert "local judge: embedded:smollm2-135m-instruct" in capsys.readouterr().out.replace("\n", "")
    as_it_scores, *repeats, swapped = [[request.temperature for request in batch] for batch in llm.batches]
    assert as_it_scores == swapped == [0.0] * 3
    assert repeats == [[0.9] * 3] * 2
    assert tartan("judge-check", path, *options, "--json") == 0
    lines = json.loads(capsys.readouterr().out)["agreement"]
    assert lines[0]["value"] is None  # a judge that always says 9
    assert lines[2]["value"] == 0
    assert (tmp_path / "agreement.csv").exists()


def test_paraphrases_are_kept_for_the_next_time(
    files: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked: list[str] = []

    def answer(request: ChatRequest) -> str:
        asked.append(said(request))
        return "" if len(asked) in (2, 3) else f"other words {len(asked)}"

    monkeypatch.setattr("pipeline.local.LocalEnv.llm", lambda self, role: StubLLM(answer))
    vary = "vary: {questions: [as_given, paraphrased]}\nbaseline: {questions: as_given}"
    (files / "s.yaml").write_text(f"system: closed-book\n{vary}\nmetrics: [EM]")
    for _ in range(2):
        assert tartan("sweep", *common(files)) == 0
        said_of_it = capsys.readouterr().err
        assert "2 of 12 questions stay as they are" in said_of_it
        assert len(asked) == 12 * 3  # paraphrases, answers to both forms; the second time nothing
    rows = pq.read_table(files / "out" / "runs" / "questions=paraphrased" / "answers" / "part-00000.parquet")
    assert rows["question"][0].as_py() == "other words 1"
    assert rows["id"].to_pylist() == [str(n) for n in range(12)]
