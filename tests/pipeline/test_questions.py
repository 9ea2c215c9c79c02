import json
from collections import Counter
from pathlib import Path

import pytest

from pipeline.errors import InputError
from pipeline.profile import config_file
from pipeline.questions import QUESTIONS, liverag_id, read_kinds, read_questions
from pipeline.schema import question_table

DATA = Path(__file__).parents[2].parent / "shared" / "data"


def write(folder: Path, text: str | bytes) -> Path:
    path = folder / "questions.jsonl"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def test_the_negative_questions_are_some_of_each_kind_and_have_no_answer() -> None:
    path = config_file("questions", "x").parent / "negative.jsonl"
    kinds = read_kinds(path, "kind")
    asked = read_questions(path)
    assert Counter(kinds.values()) == {"jailbreak": 12, "unsafe": 12, "irrelevant": 12}
    assert asked["answers"].to_pylist() == [[]] * 36
    assert len(set(asked["question"].to_pylist())) == 36


def test_kinds_are_strings_under_a_key(tmp_path: Path) -> None:
    path = write(tmp_path, '{"id": 1, "question": "a", "kind": "x"}\n{"id": 2, "question": "b", "kind": 3}')
    assert read_kinds(path, "kind") == {"1": "x"}
    with pytest.raises(InputError, match="no question has a string under 'sort'"):
        read_kinds(path, "sort")


def test_ids_and_order_are_kept_verbatim(tmp_path: Path) -> None:
    ids = ["007", 12, 9223372036854775807, "fb-001", " 7 ", -3, 12345678901234567890123]
    path = write(tmp_path, "\n".join(json.dumps({"id": id, "question": f"q{id}?"}) for id in ids))
    table = read_questions(path)
    assert table.schema == QUESTIONS
    assert table["id"].to_pylist() == [
        "007",
        "12",
        "9223372036854775807",
        "fb-001",
        " 7 ",
        "-3",
        "12345678901234567890123",
    ]
    assert table["answers"].null_count == table["doc_ids"].null_count == len(ids)


def test_byte_order_mark_crlf_blank_lines_and_line_separators_inside_strings(tmp_path: Path) -> None:
    text = '\ufeff{"id": 1, "question": "one\u2028two?"}\r\n\r\n   \r\n{"id": 2, "question": "Où?"}\r\n'
    assert read_questions(write(tmp_path, text))["question"].to_pylist() == ["one\u2028two?", "Où?"]


def test_gold_as_a_string_a_list_nothing_and_an_empty_list(tmp_path: Path) -> None:
    lines = [
        '{"id": 1, "question": "q", "answers": "308", "doc_ids": "d/1"}',
        '{"id": 2, "question": "q", "answers": ["308"], "doc_ids": ["d/1"]}',
        '{"id": 3, "question": "q", "answers": null}',
        '{"id": 4, "question": "q", "answers": [], "doc_ids": []}',
        '{"id": 5, "question": "q", "answers": ["a", "b"], "doc_ids": [1239, "1502"], "persona": {"x": 1}}',
    ]
    table = read_questions(write(tmp_path, "\n".join(lines)))
    assert table["answers"].to_pylist() == [["308"], ["308"], None, [], ["a", "b"]]
    assert table["doc_ids"].to_pylist() == [["d/1"], ["d/1"], None, [], ["1239", "1502"]]
    assert question_table(table).num_rows == 5


def test_columns_can_be_named(tmp_path: Path) -> None:
    path = write(tmp_path, '{"Index": 3, "Question": "Who?"}\n')
    table = read_questions(path, id_column="Index", question_column="Question")
    assert table.select(["id", "question"]).to_pylist() == [{"id": "3", "question": "Who?"}]


GOOD = '{"id": 1, "question": "q"}\n'


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", ["holds no questions", "JSON object a line"]),
        ("\n \n", ["holds no questions"]),
        (GOOD + "id,question\n", ["line 2", "not JSON", "id,question"]),
        (GOOD + '\n{"id": 2,\n', ["line 3", "not JSON"]),
        (
            '[{"id": 1, "question": "q"},\n{"id": 2, "question": "r"}',
            ["line 2", "not JSON", "one JSON array: close it"],
        ),
        ('[{"id": 1, "question": "q"}, {"id": 2}]', ["item 2", "has no 'question'"]),
        ('[{"id": 1, "question": "q"}, 7]', ["item 2", "a number, not a JSON object"]),
        ("[]", ["holds no questions"]),
        (GOOD + "[1]\n", ["line 2", "a list, not a JSON object"]),
        ("[1]\n" + GOOD, ["line 1", "a list"]),
        (GOOD + "null\n", ["line 2", "null"]),
        (GOOD + '{"id": 2, "query": "q"}\n', ["line 2", "has no 'question'", "it has id, query"]),
        (GOOD + '{"qid": 2, "question": "q"}\n', ["line 2", "has no 'id'", "it has qid, question"]),
        ("{}", ["line 1", "it has nothing"]),
        (GOOD + '\n{"id": "1", "question": "r"}\n', ["line 3", "'1'", "already that of line 1"]),
        ('{"id": null, "question": "q"}', ["line 1", "'id' is null"]),
        ('{"id": true, "question": "q"}', ["line 1", "'id' is true or false"]),
        ('{"id": 1.5, "question": "q"}', ["line 1", "'id' is a number with a fraction"]),
        ('{"id": " ", "question": "q"}', ["line 1", "'id' is a blank string"]),
        ('{"id": 1, "question": null}', ["line 1", "'question' is null"]),
        ('{"id": 1, "question": " \\n"}', ["line 1", "'question' is a blank string"]),
        ('{"id": 1, "question": ["q"]}', ["line 1", "'question' is a list"]),
        ('{"id": 1, "question": "\\ud800"}', ["line 1", "surrogate"]),
        ('{"id": 1, "question": "q", "answers": 308}', ["line 1", "'answers' is a number"]),
        ('{"id": 1, "question": "q", "answers": ["a", null]}', ["line 1", "an item of 'answers' is null"]),
        ('{"id": 1, "question": "q", "answers": [""]}', ["line 1", "an item of 'answers' is a blank string"]),
        ('{"id": 1, "question": "q", "answers": {"a": 1}}', ["line 1", "'answers' is an object"]),
        ('{"id": 1, "question": "q", "doc_ids": 1.5}', ["line 1", "'doc_ids' is a number with a fraction"]),
        ('{"id": 1, "question": "q", "doc_ids": [["d"]]}', ["line 1", "an item of 'doc_ids' is a list"]),
        (GOOD.encode() + b"PAR1\xff\xfe", ["line 2", "not UTF-8"]),
        ("[" * 200_000, ["line 1", "not JSON"]),
    ],
)
def test_bad_files_are_refused_with_one_sentence(tmp_path: Path, text: str | bytes, says: list[str]) -> None:
    path = write(tmp_path, text)
    with pytest.raises(InputError) as refusal:
        read_questions(path)
    message = str(refusal.value)
    assert str(path) in message
    assert "\n" not in message
    for part in says:
        assert part in message


def test_missing_file_and_folder(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"nowhere\.jsonl does not exist"):
        read_questions(tmp_path / "nowhere.jsonl")
    with pytest.raises(InputError, match="is a folder"):
        read_questions(tmp_path)


@pytest.mark.parametrize(
    ("id", "integer"),
    [
        ("0", 0),
        ("12", 12),
        ("-3", -3),
        ("9223372036854775807", 9223372036854775807),
        ("007", None),
        ("-0", None),
        ("+1", None),
        ("1.0", None),
        ("１２", None),
        ("1\n", None),
        ("", None),
        ("fb-001", None),
    ],
)
def test_liverag_id(id: str, integer: int | None) -> None:
    assert liverag_id(id) == integer


@pytest.mark.parametrize(
    ("name", "count"),
    [
        ("liverag-mini/questions.jsonl", 30),
        ("liverag-mini/dryrun-50-questions.jsonl", 50),
        ("vaswani/questions.jsonl", 93),
        ("xquad-en/questions.jsonl", 1190),
    ],
)
def test_real_question_sets(name: str, count: int) -> None:
    if not (DATA / name).is_file():
        pytest.skip(f"the shared data set {name} is not on this machine")
    table = read_questions(DATA / name)
    assert table.num_rows == count
    raw = [json.loads(line) for line in (DATA / name).read_text().splitlines()]
    assert table["id"].to_pylist() == [str(record["id"]) for record in raw]
