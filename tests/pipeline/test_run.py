import itertools
import json
import os
import tempfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.errors import InputError, UnfinishedError
from pipeline.run import Run, first_difference
from pipeline.schema import BASE, question_table
from pipeline.scoring.run import read_run

IDENTITY = {"system": {"stages": [{"search": {"k": 3}}]}, "profile": "embedded", "questions": "ab12"}


def question_rows(rows: int) -> pa.Table:
    names = pa.array([f"q{n}" for n in range(rows)], pa.string())
    nothing = pa.nulls(rows, pa.list_(pa.string()))
    return question_table(pa.table({"id": names, "question": names, "answers": nothing, "doc_ids": nothing}))


def start(folder: Path, rows: int = 5, part_size: int = 2, **changes: Any) -> Run:
    return Run.open(folder, {"identity": {**IDENTITY, **changes}, "command": "tartan answer"}, rows, part_size)


def answered(part: pa.Table) -> pa.Table:
    """q1 fails, every other question has an abstention noted twice and a note of its own."""
    rows = part.to_pylist()
    for row in rows:
        failed = row["id"] == "q1"
        row["error"] = {"stage": "answer", "kind": "ValueError", "message": "no"} if failed else None
        step = {"stage": "answer", "notes": None if failed else ["abstained", "abstained"]}
        row["trace"] = [{"stage": "search", "seconds": 0.1}, step]
    return pa.Table.from_pylist(rows, schema=pa.schema(list(BASE.items())))


def commit_all(run: Run, questions: pa.Table) -> None:
    for number, part in run.parts(questions):
        run.commit_part(number, answered(part))


def redone(part: pa.Table) -> pa.Table:
    """All well, which the trace says."""
    rows = [row | {"error": None, "trace": [{"stage": "again", "notes": None}]} for row in part.to_pylist()]
    return pa.Table.from_pylist(rows, schema=pa.schema(list(BASE.items())))


def listing(path: Path) -> Any:
    """A writer that goes through the rows twice."""
    return lambda rows, to: to.write_text(" ".join(row["id"] for row in rows if row in list(rows)))


def test_a_run_from_start_to_end(tmp_path: Path) -> None:
    run = start(tmp_path / "deep" / "run")
    assert not run.resumed
    assert run.missing_parts() == [0, 1, 2]
    parts = dict(run.parts(question_rows(5)))
    assert [part["id"].to_pylist() for part in parts.values()] == [["q0", "q1"], ["q2", "q3"], ["q4"]]
    for number in (2, 0):
        assert run.commit_part(number, answered(parts[number]))
    assert run.missing_parts() == [1]
    assert run.progress() == f"{run.folder}: 2 of 3 parts are there, 1 to do (2 questions)"
    with pytest.raises(UnfinishedError, match=r"1 of 3 parts are missing \(first: 1\)"):
        run.finish()
    run.commit_part(1, answered(parts[1]))
    assert [row["id"] for row in run.rows()] == ["q0", "q1", "q2", "q3", "q4"]
    assert run.failed_rows() == [{"id": "q1", "stage": "answer", "kind": "ValueError", "message": "no"}]
    finished = run.finish(listing(tmp_path), listing(tmp_path))
    assert (run.folder / "answers.jsonl").read_text() == "q0 q1 q2 q3 q4"
    assert (run.folder / "run.trec").read_text() == "q0 q1 q2 q3 q4"
    assert {key: finished[key] for key in ("rows", "failed", "notes")} == {
        "rows": 5,
        "failed": 1,
        "notes": {"abstained": 4},
    }
    manifest = json.loads((run.folder / "manifest.json").read_text())
    assert manifest["finished"] == finished
    assert manifest["identity"] == IDENTITY
    assert manifest["command"] == "tartan answer"
    assert manifest["versions"]["pyarrow"] == pa.__version__
    assert sorted(path.name for path in (run.folder / "answers").iterdir()) == [
        f"part-0000{number}.parquet" for number in range(3)
    ]


def test_seconds_count_from_where_work_begins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of several runs that are opened together and answered one after another, each has its own."""
    clock = iter([100.0, 100.0, 150.0, 153.5, 160.0])
    monkeypatch.setattr("pipeline.run.time.perf_counter", lambda: next(clock))
    waiting, other = start(tmp_path / "waiting"), start(tmp_path / "other")
    waiting.begin()
    for run in (waiting, other):
        commit_all(run, question_rows(5))
    assert waiting.finish(listing(tmp_path), listing(tmp_path))["seconds"] == 3.5
    assert other.finish(listing(tmp_path), listing(tmp_path))["seconds"] == 60.0


def test_the_real_writers_are_the_default(tmp_path: Path) -> None:
    run = start(tmp_path / "run")
    commit_all(run, question_rows(5))
    run.finish()
    assert len((run.folder / "answers.jsonl").read_text().splitlines()) == 5
    assert (run.folder / "run.trec").exists()


def test_a_run_is_continued_at_its_own_part_size(tmp_path: Path) -> None:
    first = start(tmp_path / "run")
    first.commit_part(1, answered(dict(first.parts(question_rows(5)))[1]))
    second = start(tmp_path / "run", part_size=64)
    assert second.resumed
    assert second.missing_parts() == [0, 2]
    assert second.manifest["started"] == first.manifest["started"]


def test_a_committed_part_is_never_written_again(tmp_path: Path) -> None:
    run = start(tmp_path / "run")
    part = dict(run.parts(question_rows(5)))[0]
    assert run.commit_part(0, answered(part))
    before = run.part_path(0).read_bytes()
    assert not run.commit_part(0, part)
    assert run.part_path(0).read_bytes() == before


def test_a_finished_run_stays_as_it_is(tmp_path: Path) -> None:
    run = start(tmp_path / "run")
    commit_all(run, question_rows(5))
    finished = run.finish(listing(tmp_path), listing(tmp_path))
    (run.folder / "answers.jsonl").write_text("mine")
    again = start(tmp_path / "run")
    assert again.progress().endswith("1 failed or unanswered questions to do again")
    assert again.finish() == finished
    assert (run.folder / "answers.jsonl").read_text() == "mine"


def test_failed_rows_are_done_again_in_a_file_of_their_own(tmp_path: Path) -> None:
    run = start(tmp_path / "run")
    commit_all(run, question_rows(5))
    run.finish(listing(tmp_path), listing(tmp_path))
    first = run.part_path(0).read_bytes()
    again, rival = start(tmp_path / "run"), start(tmp_path / "run")
    assert (again.rows_to_redo(), again.rows_to_do(), again.is_complete()) == (1, 1, False)
    ((number, part),) = again.parts(question_rows(5))
    assert (number, part["id"].to_pylist()) == (0, ["q1"])
    rivals = dict(rival.parts(question_rows(5)))
    with pytest.raises(ValueError, match="part 0 has 2 rows, wanted 1"):
        again.commit_part(0, question_rows(2))
    assert again.commit_part(0, answered(part))  # fails once more
    assert not rival.commit_part(0, redone(rivals[0]))  # another driver came second: its rows are not taken
    assert again.is_complete()
    assert [row["id"] for row in again.failed_rows()] == ["q1"]
    third = start(tmp_path / "run")
    third.commit_part(0, redone(dict(third.parts(question_rows(5)))[0]))
    assert third.failed_rows() == []
    assert [row["id"] for row in third.rows()] == ["q0", "q1", "q2", "q3", "q4"]
    assert [len(row["trace"]) for row in third.rows()] == [2, 1, 2, 2, 2]
    names = sorted(path.name for path in (run.folder / "answers").iterdir())
    assert names[:3] == ["part-00000.1.parquet", "part-00000.2.parquet", "part-00000.parquet"]
    assert run.part_path(0).read_bytes() == first
    assert list(third.rows()) == read_run(run.folder)
    finished = third.finish(listing(tmp_path), listing(tmp_path))
    assert (finished["failed"], finished["part_files"]) == (0, 5)
    assert start(tmp_path / "run").progress().endswith("all 5 questions are answered")


SESSIONS = st.lists(st.tuples(st.integers(0, 4), st.sets(st.integers(0, 6))), max_size=6)


@settings(max_examples=12, deadline=None)
@given(rows=st.integers(1, 7), size=st.integers(1, 4), sessions=SESSIONS)
def test_each_question_once_whatever_fails_and_whenever_it_is_killed(
    rows: int, size: int, sessions: list[tuple[int, set[int]]]
) -> None:
    """A session commits some parts, in which some questions fail, and is gone. What was well stays as it was."""
    with tempfile.TemporaryDirectory() as folder:
        well: dict[str, int] = {}
        for session, (parts, failing) in enumerate([*sessions, (99, set())]):
            run = start(Path(folder) / "run", rows=rows, part_size=size)
            asked: list[str] = []
            for number, part in itertools.islice(run.parts(question_rows(rows)), parts):
                table = redone(part).to_pylist()
                for row in table:
                    row["trace"][0]["calls"] = session
                    if int(row["id"][1:]) in failing:
                        row["error"] = {"stage": "s", "kind": "k", "message": "m"}
                asked += [row["id"] for row in table]
                assert run.commit_part(number, pa.Table.from_pylist(table, schema=part.schema))
            assert len(set(asked)) == len(asked)
            assert not set(asked) & set(well)
            well |= {row["id"]: session for row in run.rows() if row["id"] in asked and row["error"] is None}
            assert {row["id"]: row["trace"][0]["calls"] for row in run.rows() if row["error"] is None} == well
        assert [row["id"] for row in run.rows()] == [f"q{n}" for n in range(rows)]
        assert run.is_complete()
        assert run.failed_rows() == []


def test_a_kill_before_the_manifest_is_made_good(tmp_path: Path) -> None:
    """answers.jsonl is there, `finished` is not yet or is of before: both files are written again."""
    run = start(tmp_path / "run")
    commit_all(run, question_rows(5))
    run.finish(listing(tmp_path), listing(tmp_path))
    again = start(tmp_path / "run")
    again.commit_part(0, redone(dict(again.parts(question_rows(5)))[0]))
    (run.folder / "answers.jsonl").write_text("half of a run")
    third = start(tmp_path / "run")
    assert third.is_complete()
    assert third.finish(listing(tmp_path), listing(tmp_path))["failed"] == 0
    assert (run.folder / "answers.jsonl").read_text() == "q0 q1 q2 q3 q4"


def test_foreign_files_in_a_run_are_left_alone(tmp_path: Path) -> None:
    run = start(tmp_path / "run")
    commit_all(run, question_rows(5))
    foreign = [
        "notes.txt",
        "answers/part-00000.parquet.bak",
        "answers/part-00000 (copy).parquet",
        "answers/part-x.parquet",
    ]
    for name in foreign:
        (run.folder / name).write_text("mine")
    again = start(tmp_path / "run")
    again.commit_part(0, redone(dict(again.parts(question_rows(5)))[0]))
    again.finish(listing(tmp_path), listing(tmp_path))
    assert [row["id"] for row in read_run(run.folder)] == ["q0", "q1", "q2", "q3", "q4"]
    assert {(run.folder / name).read_text() for name in foreign} == {"mine"}


def test_a_killed_commit_leaves_nothing_under_the_final_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = start(tmp_path / "run")
    part = answered(dict(run.parts(question_rows(5)))[0])

    def killed(*_: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", killed)
        with pytest.raises(KeyboardInterrupt):
            run.commit_part(0, part)
    assert start(tmp_path / "run").missing_parts() == [0, 1, 2]
    assert run.commit_part(0, part)
    assert [row["id"] for row in run.rows()] == ["q0", "q1"]


def test_equal_parts_are_equal_files(tmp_path: Path) -> None:
    files = []
    for name in ("a", "b"):
        run = start(tmp_path / name)
        run.commit_part(0, answered(dict(run.parts(question_rows(5)))[0]))
        files.append(run.part_path(0).read_bytes())
    assert files[0] == files[1]
    assert pq.read_schema(tmp_path / "a" / "answers" / "part-00000.parquet").names == list(BASE)


def test_no_questions_are_one_empty_part(tmp_path: Path) -> None:
    run = start(tmp_path / "run", rows=0)
    assert [(number, part.num_rows) for number, part in run.parts(question_rows(0))] == [(0, 0)]


def test_rows_are_counted_before_a_part_is_written(tmp_path: Path) -> None:
    run = start(tmp_path / "run")
    with pytest.raises(ValueError, match="part 2 has 2 rows, wanted 1"):
        run.commit_part(2, question_rows(2))
    with pytest.raises(ValueError, match="4 questions for a run of 5"):
        list(run.parts(question_rows(4)))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"profile": "paper"}, "profile was 'embedded', now it is 'paper'; choose another --out"),
        ({"system": {"stages": [{"search": {"k": 5}}]}}, r"system.stages.0.search.k was 3, now it is 5"),
        ({"indexes": {"plaid": "f00"}}, "indexes was absent, now it is {'plaid': 'f00'}"),
    ],
)
def test_a_run_of_something_else_is_refused(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    start(tmp_path / "run")
    with pytest.raises(InputError, match=message):
        start(tmp_path / "run", **changes)


def test_a_folder_with_other_contents_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.txt").touch()
    with pytest.raises(InputError, match=r"holds something else: a.txt; choose another --out"):
        start(tmp_path)
    with pytest.raises(InputError, match=r"a.txt is a file; choose another --out"):
        start(tmp_path / "a.txt")
    (tmp_path / "manifest.json").write_text("{}")
    with pytest.raises(InputError, match=r"manifest.json is not the manifest of a run"):
        start(tmp_path)
    (tmp_path / "manifest.json").write_text("{")
    with pytest.raises(InputError, match=r"manifest.json is not JSON"):
        start(tmp_path)


def test_an_empty_folder_and_what_a_kill_left_of_a_manifest_are_fine(tmp_path: Path) -> None:
    (tmp_path / ".manifest.json.0f3a").touch()
    assert not start(tmp_path).resumed


def test_first_difference_names_the_leaf() -> None:
    assert first_difference({"a": [1, {"b": 2}]}, {"a": [1, {"b": 2}]}) is None
    assert first_difference({"a": [1, {"b": 2}]}, {"a": [1, {"b": 3}]}) == ("a.1.b", 2, 3)
    assert first_difference({"a": 1.0}, {"a": 1}) is None
    assert first_difference({"a": True}, {"a": 1}) == ("a", True, 1)
    key, old, new = first_difference({"a": [1]}, {"a": [1, 2]}) or ("", None, None)
    assert (key, repr(old), new) == ("a.1", "absent", 2)
