import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipeline.errors import InputError
from pipeline.questions import QUESTIONS
from pipeline.scoring.run import apply_gold, read_run


def part(run: Path, name: str, rows: list[dict[str, Any]]) -> None:
    (run / "answers").mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.Table.from_pylist(rows), run / "answers" / name)


def test_parts_in_order_with_every_column(tmp_path: Path) -> None:
    part(tmp_path, "part-10.parquet", [{"id": "d", "answer": None}])
    part(tmp_path, "part-9.parquet", [{"id": "c", "answer": "x", "passages": [{"doc_id": "d1", "text": "t"}]}])
    part(tmp_path, "part-1.parquet", [{"id": "b"}, {"id": "a"}])
    (tmp_path / "answers" / ".part-2.parquet.tmp").write_text("half")
    rows = read_run(tmp_path)
    assert [row["id"] for row in rows] == ["b", "a", "c", "d"]
    assert rows[2] == {"id": "c", "answer": "x", "passages": [{"doc_id": "d1", "text": "t"}]}


def test_folders_that_are_no_run(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"is not a run.*it is empty"):
        read_run(tmp_path)
    with pytest.raises(InputError, match="it does not exist"):
        read_run(tmp_path / "nowhere")
    for name in "abcdefg":
        (tmp_path / f"{name}.txt").write_text("")
    with pytest.raises(InputError, match=r"it holds a\.txt, b\.txt, c\.txt, d\.txt, e\.txt and 2 more"):
        read_run(tmp_path)
    with pytest.raises(InputError, match="it is a file"):
        read_run(tmp_path / "a.txt")


def test_damaged_foreign_and_stray_parts(tmp_path: Path) -> None:
    part(tmp_path / "foreign", "part-0.parquet", [{"text": "x"}])
    with pytest.raises(InputError, match=r"no column 'id'.*it has text"):
        read_run(tmp_path / "foreign")
    part(tmp_path / "twice", "part-0.parquet", [{"id": "a"}, {"id": "b"}])
    part(tmp_path / "twice", "part-1.parquet", [{"id": "b"}])
    with pytest.raises(InputError, match=r"1 ids come more than once \(b\)"):
        read_run(tmp_path / "twice")
    part(tmp_path / "damaged", "part-0.parquet", [{"id": "a"}])
    (tmp_path / "damaged" / "answers" / "part-0.parquet").write_bytes(b"PAR1")
    with pytest.raises(InputError, match="cannot be read as Parquet"):
        read_run(tmp_path / "damaged")


def gold(**questions: tuple[str, list[str] | None, list[str] | None]) -> pa.Table:
    rows = [
        {"id": id, "question": text, "answers": answers, "doc_ids": documents}
        for id, (text, answers, documents) in questions.items()
    ]
    return pa.Table.from_pylist(rows, schema=QUESTIONS)


def test_gold_replaces_gold_and_adds_the_questions_that_the_run_lacks() -> None:
    rows = [
        {"id": "a", "question": "Who?", "answers": ["old"], "doc_ids": ["old"], "error": None, "answer": "x"},
        {"id": "b", "question": "When?", "answers": ["old"], "doc_ids": None, "error": None, "answer": "y"},
    ]
    judged = apply_gold(rows, gold(c=("Where?", ["z"], ["d3"]), a=("  who? ", ["x"], None)))
    assert judged[0] == {**rows[0], "answers": ["x"], "doc_ids": None}
    assert judged[1] == {**rows[1], "answers": None, "doc_ids": None}
    assert judged[2]["id"] == "c"
    assert judged[2]["answers"] == ["z"]
    assert judged[2]["error"]["kind"] == "missing"
    assert len(judged) == 3
    assert rows[0]["answers"] == ["old"]


def test_gold_of_other_questions_is_refused() -> None:
    rows = [{"id": str(number), "question": f"q{number}"} for number in range(3)]
    with pytest.raises(InputError, match=r"None of the 1 ids of the gold file \(x\) is among the 3 ids of the run"):
        apply_gold(rows, gold(x=("q0", ["a"], None)))
    with pytest.raises(InputError, match=r"1 of the 2 ids .* another question \(1\)"):
        apply_gold(rows, pa.concat_tables([gold(**{"0": ("q0", ["a"], None)}), gold(**{"1": ("other", ["a"], None)})]))


def test_a_liverag_file_and_a_trec_run_are_runs_too(tmp_path: Path) -> None:
    passages = [{"passage": "p", "doc_IDs": ["x", "y"]}, {"passage": "q", "doc_IDs": []}]
    line = {"id": 7, "question": "Why?", "passages": passages, "final_prompt": "f", "answer": "so"}
    (tmp_path / "a.jsonl").write_text(json.dumps(line) + "\n")
    (row,) = read_run(tmp_path / "a.jsonl")
    assert (row["id"], row["answer"], row["error"]) == ("7", "so", None)
    assert [(item["pid"], item["doc_id"], item["text"]) for item in row["passages"]] == [
        (0, "x", "p"),
        (0, "y", "p"),
        (1, None, "q"),
    ]
    (tmp_path / "r.trec").write_text("7 Q0 x 1 1.0 t\n7 Q0 y 2 2.0 t\n")
    assert [item["doc_id"] for item in read_run(tmp_path / "r.trec")[0]["passages"]] == ["y", "x"]
    (tmp_path / "a.jsonl").write_text('{"id": 1}\n')
    with pytest.raises(InputError, match=r"a\.jsonl, line 1: .*required"):
        read_run(tmp_path / "a.jsonl")
