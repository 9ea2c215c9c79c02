import json
from pathlib import Path
from typing import Any

import pytest

from pipeline.errors import InputError
from pipeline.liverag import answer_ids, answer_line, validate_answers, write_answers


def row(**changes: Any) -> dict[str, Any]:
    passages = [
        {"pid": 4, "doc_id": "d2", "text": "second", "score": 2.0, "rank": 0},
        {"pid": 1, "doc_id": "d1", "text": "first", "score": 1.0, "rank": 1},
    ]
    known = {"id": "7", "question": "Où?", "passages": passages, "final_prompt": "P", "answer": "A", "error": None}
    return known | changes


def snippet(text: str, doc_id: str, kept: bool) -> dict[str, Any]:
    return {"pid": 1, "doc_id": doc_id, "text": text, "score": 0.5, "kept": kept, "reason": None}


def test_ids_are_the_integers_only_if_all_are() -> None:
    assert answer_ids(["19", "5", "-1"]) == [19, 5, -1]
    assert answer_ids(["19", "fb-001", "5"]) == [0, 1, 2]
    assert answer_ids(["007", "7"]) == [0, 1]
    assert answer_ids([]) == []


def test_the_evidence_is_the_passages_in_order_without_snippets() -> None:
    assert answer_line(row(), 7) == {
        "id": 7,
        "question": "Où?",
        "passages": [{"passage": "second", "doc_IDs": ["d2"]}, {"passage": "first", "doc_IDs": ["d1"]}],
        "final_prompt": "P",
        "answer": "A",
    }
    assert answer_line(row(snippets=None), 7) == answer_line(row(), 7)


def test_the_evidence_is_the_kept_snippets_and_equal_texts_are_one() -> None:
    snippets = [snippet("x", "d1", True), snippet("y", "d1", False), snippet("x", "d3", True), snippet("x", "d1", True)]
    assert answer_line(row(snippets=snippets), 7)["passages"] == [{"passage": "x", "doc_IDs": ["d1", "d3"]}]
    assert answer_line(row(snippets=snippets[1:2]), 7)["passages"] == []
    assert answer_line(row(snippets=[]), 7)["passages"] == []


def test_a_failed_row_is_an_empty_answer() -> None:
    error = {"stage": "search", "kind": "timeout", "message": "too slow"}
    line = answer_line(row(passages=None, final_prompt=None, answer=None, error=error), 0)
    assert (line["passages"], line["final_prompt"], line["answer"]) == ([], "", "")


def test_what_is_written_is_valid_in_order_and_the_same_bytes(tmp_path: Path) -> None:
    path = tmp_path / "answers.jsonl"
    rows = [
        row(id="9007199254740993"),
        row(id="2", answer=None, passages=None),
        row(id="3", answer="line\u2028break\n"),
    ]
    write_answers(rows, path)
    first = path.read_bytes()
    assert validate_answers(path) == []
    lines = [json.loads(line) for line in first.decode().split("\n")[:-1]]
    assert [line["id"] for line in lines] == [9007199254740993, 2, 3]
    assert lines[2]["answer"] == "line\u2028break\n"
    assert "Où?".encode() in first
    write_answers(rows, path)
    assert path.read_bytes() == first
    assert [entry.name for entry in tmp_path.iterdir()] == ["answers.jsonl"]


GOOD = {"id": 1, "question": "q", "passages": [{"passage": "p", "doc_IDs": ["d"]}], "final_prompt": "f", "answer": "a"}


def without(key: str) -> dict[str, Any]:
    return {name: value for name, value in GOOD.items() if name != key}


@pytest.mark.parametrize(
    ("record", "says"),
    [
        *[(without(key), f"'{key}' is a required property") for key in GOOD],
        (GOOD | {"id": "1"}, "$.id: '1' is not of type 'integer'"),
        (GOOD | {"id": True}, "$.id: True is not of type 'integer'"),
        (GOOD | {"id": 1.5}, "$.id"),
        (GOOD | {"answer": None}, "$.answer: None is not of type 'string'"),
        (GOOD | {"final_prompt": ["x"]}, "$.final_prompt"),
        (GOOD | {"passages": "p"}, "$.passages"),
        (GOOD | {"passages": ["p"]}, "$.passages[0]"),
        (GOOD | {"passages": [{"passage": "p"}]}, "$.passages[0]: 'doc_IDs' is a required property"),
        (GOOD | {"passages": [{"passage": "p", "doc_IDs": "d"}]}, "$.passages[0].doc_IDs: 'd' is not of type 'array'"),
        (GOOD | {"passages": [{"passage": "p", "doc_IDs": [5]}]}, "$.passages[0].doc_IDs[0]: 5"),
        ([1], "is not of type 'object'"),
        (GOOD, "the id 1 is already that of line 1"),
    ],
)
def test_problems_name_line_and_place(tmp_path: Path, record: Any, says: str) -> None:
    path = tmp_path / "answers.jsonl"
    path.write_text(f"{json.dumps(GOOD)}\n\n{json.dumps(record)}\n")
    problems = validate_answers(path)
    assert len(problems) == 1
    assert problems[0].startswith("line 3: ")
    assert says in problems[0]


def test_files_that_are_not_jsonl(tmp_path: Path) -> None:
    path = tmp_path / "answers.jsonl"
    path.write_text("")
    assert validate_answers(path) == ["line 1: the file holds no answers"]
    path.write_text(json.dumps(GOOD | {"answer": "x"}).replace('"x"', "NaN") + "\nnonsense\n")
    assert [problem.split(":")[0] for problem in validate_answers(path)] == ["line 1", "line 2"]
    path.write_bytes(json.dumps(GOOD).encode() + b"\n\xff\n")
    assert validate_answers(path) == [f"line 2: not UTF-8 (byte {len(json.dumps(GOOD)) + 1} of the file)"]
    with pytest.raises(InputError, match="does not exist"):
        validate_answers(tmp_path / "nowhere.jsonl")


def test_a_long_value_does_not_fill_the_report_and_extra_keys_are_allowed(tmp_path: Path) -> None:
    path = tmp_path / "answers.jsonl"
    path.write_text(json.dumps(GOOD | {"passages": "p" * 10_000}) + "\n" + json.dumps(GOOD | {"team": "x"}) + "\n")
    problems = validate_answers(path)
    assert len(problems) == 1
    assert len(problems[0]) < 300
    assert "is not of type 'array'" in problems[0]
