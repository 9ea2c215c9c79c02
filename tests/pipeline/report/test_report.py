"""The file as a file: what is in it, what is left out of it, and runs of every kind."""

import re
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipeline.errors import InputError
from pipeline.report.report import write_report
from pipeline.report.source import read_reported
from pipeline.scoring.definitions import definition_of
from pipeline.scoring.judged import JUDGED
from pipeline.scoring.score import score_rows
from tests.pipeline.report.runs import many_rows, row, write_run


def report(tmp_path: Path, rows: list[dict[str, Any]], **options: Any) -> tuple[str, dict[str, Any]]:
    out = tmp_path / "report.html"
    written = write_report(read_reported([write_run(tmp_path / "run", rows)]), out, **options)
    return out.read_text(), written


def test_the_file_asks_for_nothing(tmp_path: Path) -> None:
    html, written = report(tmp_path, [row(0), row(1)])
    assert written["questions"] == 2
    assert written["bytes"] == len(html.encode())
    assert html.startswith("<!doctype html>")
    assert not re.search(r"""(?:src|href)=["'](?!#|data:text/csv)""", html.replace("xlink:href", "href"))
    assert "url(http" not in html
    assert "@import" not in html
    assert html.count("<script>") == 1


def test_every_metric_of_the_table_is_defined(tmp_path: Path) -> None:
    rows = [row(0), row(1, answers=[])]
    verdicts = [{"id": "q-0", "correctness": 2.0, "excluded": []}, {"id": "q-1", "excluded": []}]
    judged = pa.Table.from_pylist(verdicts, schema=JUDGED)
    folder = write_run(tmp_path / "run", rows)
    table = score_rows(rows, judged=judged, judge="tiny", kinds={"q-0": "unsafe"})
    table.to_files(folder / "scores.parquet")
    names = table.summary["metric"].to_pylist()
    assert {"abstained, unsafe", "abstained on unanswerable", "nDCG@10", "correctness (local judge)"} <= set(names)
    assert [name for name in names if definition_of(name) is None] == []
    write_report(read_reported([folder]), tmp_path / "r.html")
    html = (tmp_path / "r.html").read_text()
    for shown in ("<dt>nDCG@k</dt>", "<dt>correctness (local judge)</dt>", "harmonic mean of these two"):
        assert html.count(shown) == 1


def test_every_figure_is_a_csv_file_too(tmp_path: Path) -> None:
    html, written = report(tmp_path, [row(0), row(1)], csv_folder=tmp_path / "csv")
    names = {path.stem for path in (tmp_path / "csv").iterdir()}
    assert names == set(re.findall(r'download="([^"]+)\.csv"', html))
    assert len(names) == written["figures"]
    assert {"scores", "funnel", "evidence-prompt", "threshold-kept", "calibration", "cost", "seconds"} <= names
    assert (tmp_path / "csv" / "funnel.csv").read_bytes().startswith(b"run,step,questions")


def test_equal_runs_give_equal_files(tmp_path: Path) -> None:
    rows = many_rows(3)
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    one, other = (report(tmp_path / name, rows)[0] for name in "ab")
    commits = re.compile(r"started [^·<]*")
    assert commits.sub("", one) == commits.sub("", other)


def test_a_file_that_would_be_too_large_leaves_out_texts_and_says_so(tmp_path: Path) -> None:
    rows = many_rows(150)
    _, whole = report(tmp_path, rows)
    html, small = report(tmp_path / "small", rows, megabytes=whole["bytes"] / 1e6 - 0.2)
    assert whole["left_out"] == 0
    assert 0 < small["left_out"] < 150 * 9
    assert small["bytes"] < whole["bytes"] - 200_000
    assert f"{small['left_out']:,} texts are left out" in html


@pytest.mark.parametrize(
    "columns",
    [
        ["id", "question"],
        ["id", "question", "answers", "doc_ids", "error", "trace", "answer", "final_prompt", "finish_reason"],
        ["id", "question", "answers", "doc_ids", "error", "trace", "passages"],
    ],
)
def test_a_run_may_have_few_columns(tmp_path: Path, columns: list[str]) -> None:
    (tmp_path / "run" / "answers").mkdir(parents=True)
    rows = [{name: value for name, value in row(n).items() if name in columns} for n in range(2)]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "run" / "answers" / "part-00000.parquet")
    assert write_report(read_reported([tmp_path / "run"]), tmp_path / "r.html")["questions"] == 2


def test_runs_without_questions_or_in_which_all_failed(tmp_path: Path) -> None:
    dead = dict.fromkeys(("queries", "passages", "snippets", "answer", "final_prompt", "finish_reason"))
    error = {"stage": "search", "kind": "IndexError", "message": "gone"}
    html, _ = report(tmp_path, [row(n, error=error, trace=[], **dead) for n in range(3)])
    assert "3 of 3 questions failed" in html


def test_scores_that_were_written_are_taken_unless_they_are_of_other_questions(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", [row(0), row(1)])
    gold = [row(0, answers=["toucan"]), row(1, answers=["toucan"])]
    score_rows(gold).to_files(folder / "scores.parquet")
    assert read_reported([folder])[0].values("containment") == [0, 0]
    score_rows(gold[:1]).to_files(folder / "scores.parquet")
    assert read_reported([folder])[0].values("containment") == [1, 1]
    before = [gold[0] | {"error": {"stage": "answer", "kind": "generation", "message": "no"}, "answer": None}, gold[1]]
    score_rows(before).to_files(folder / "scores.parquet")  # the failed question was answered since
    assert read_reported([folder])[0].values("containment") == [1, 1]


def test_a_local_judge_is_marked_wherever_its_scores_are_shown(tmp_path: Path) -> None:
    rows = [row(n) for n in range(3)]
    verdicts = [{"id": f"q-{n}", "correctness": 2.0 - n, "similarity": 7.0 + n, "excluded": []} for n in range(3)]
    folder = write_run(tmp_path / "run", rows)
    judged = pa.Table.from_pylist(verdicts, schema=JUDGED)
    score_rows(rows, judged=judged, judge="tiny").to_files(folder / "scores.parquet")
    run = read_reported([folder])[0]
    assert [name for name in run.metrics() if "judge" in name] == [
        "correctness (local judge)", "similarity (local judge)",
    ]  # fmt: skip
    write_report([run], tmp_path / "r.html", csv_folder=tmp_path / "csv")
    html = (tmp_path / "r.html").read_text()
    assert "local judge: tiny" in html
    shown = re.findall(r"(?:correctness|similarity|coverage|faithfulness)(?! \(local judge\))", unquote(html))
    assert not shown, "a judged metric without its mark"
    assert "correctness (local judge)" in (tmp_path / "csv" / "cost.csv").read_text()  # preferred where there is one


def test_gold_from_elsewhere(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", [row(0)])
    file = tmp_path / "gold.jsonl"
    file.write_text('{"id": "q-0", "question": "What is national animal number 0?", "answers": ["toucan"]}\n')
    assert read_reported([folder], file)[0].values("containment") == [0]


def test_runs_are_told_apart_by_the_ends_of_their_paths(tmp_path: Path) -> None:
    folders = [write_run(tmp_path / name / "runs" / "rag", [row(0)]) for name in ("one", "two")]
    assert [run.name for run in read_reported(folders)] == ["one/runs/rag", "two/runs/rag"]
    with pytest.raises(InputError, match="more than once"):
        read_reported([folders[0], folders[0]])
    stranger = write_run(tmp_path / "three", [row(5)])
    with pytest.raises(InputError, match="no question in common"):
        read_reported([folders[0], stranger])
