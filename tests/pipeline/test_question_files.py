"""One question set in every form it may come in, and what is said of broken ones."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipeline.errors import InputError
from pipeline.questions import fingerprint, read_question_set, read_questions

ASKED: list[dict[str, Any]] = [
    {"id": "007", "question": "Who, then?", "answers": ["Bond", "James"], "doc_ids": ["d1"]},
    {"id": "1234567890123456789", "question": 'A "quoted" one\nover lines?', "answers": [], "doc_ids": None},
    {"id": "NA", "question": "null", "answers": None, "doc_ids": None},
    {"id": "null", "question": "1.50", "answers": None, "doc_ids": None},
]
TABLE = pa.table({name: [row[name] for row in ASKED] for name in ASKED[0]})


def jsonl(folder: Path) -> Path:
    (folder / "q.jsonl").write_bytes(b"\xef\xbb\xbf" + b"".join(json.dumps(row).encode() + b"\r\n" for row in ASKED))
    return folder / "q.jsonl"


def array(folder: Path) -> Path:
    (folder / "q.json").write_text(json.dumps(ASKED, indent=2))
    return folder / "q.json"


def separated(mark: str, name: str) -> Callable[[Path], Path]:
    def write(folder: Path) -> Path:
        quoted = [
            ["id", "question", "answers", "doc_ids"],
            ["007", '"Who, then?"', '"[""Bond"", ""James""]"', "d1"],
            ["1234567890123456789", '"A ""quoted"" one\nover lines?"', "[]", ""],
            ["NA", "null", "", ""],
            ["null", "1.50", "", ""],
        ]
        (folder / name).write_text("\ufeff" + "\r\n".join(mark.join(row) for row in quoted) + "\r\n\r\n", newline="")
        return folder / name

    return write


def parquet(folder: Path) -> Path:
    pq.write_table(TABLE, folder / "q.parquet")
    return folder / "q.parquet"


def saved(folder: Path) -> Path:
    import datasets

    datasets.Dataset(TABLE).save_to_disk(str(folder / "saved"))
    return folder / "saved"


def by_name(folder: Path) -> str:
    (folder / "mine").mkdir()
    pq.write_table(TABLE, folder / "mine" / "train.parquet")
    return f"hf-dataset:{folder / 'mine'}"


FORMS = [jsonl, array, separated(",", "q.csv"), separated("\t", "q.tsv"), parquet, saved, by_name]


@pytest.mark.parametrize("form", FORMS, ids=["jsonl", "array", "csv", "tsv", "parquet", "saved", "by name"])
def test_every_form_is_the_same_question_set(
    form: Callable[[Path], str | Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("datasets.config.HF_DATASETS_CACHE", tmp_path / "cache")
    found = read_questions(form(tmp_path))
    assert found.to_pylist() == ASKED
    assert fingerprint(found) == fingerprint(read_questions(jsonl(tmp_path)))


def test_ids_of_parquet_are_integers_or_strings(tmp_path: Path) -> None:
    pq.write_table(pa.table({"id": [7, 2**62], "question": ["a", "b"]}), tmp_path / "q.parquet")
    assert read_questions(tmp_path / "q.parquet")["id"].to_pylist() == ["7", str(2**62)]
    pq.write_table(pa.table({"id": [1.0, None], "question": ["a", "b"]}), tmp_path / "q.parquet")
    with pytest.raises(InputError, match=r"q\.parquet, row 1: 'id' is a number with a fraction"):
        read_questions(tmp_path / "q.parquet")


def test_a_line_of_five_megabytes(tmp_path: Path) -> None:
    question = "why? " * 2**20
    (tmp_path / "q.jsonl").write_text(json.dumps({"id": 1, "question": question}) + "\n")
    (tmp_path / "q.csv").write_text(f"id,question\n1,{question}\n")
    assert read_questions(tmp_path / "q.jsonl").equals(read_questions(tmp_path / "q.csv"))


@pytest.mark.parametrize("documents", ["structs", "text", "texts"])
def test_the_public_benchmark(tmp_path: Path, documents: str) -> None:
    """`Supporting_Documents` as objects, as one string of JSON objects, and as a list of such strings."""
    two = [{"content": "a [text]", "doc_id": "<urn:uuid:1>"}, {"content": "b", "doc_id": "<urn:uuid:2>"}]
    forms: dict[str, Any] = {
        "structs": two,
        "text": ", ".join(json.dumps(item) for item in two),
        "texts": [json.dumps(item) for item in two],
    }
    columns = {
        "Index": [0],
        "Question": ["Who?"],
        "Answer": ["Me, and [you]."],
        "Supporting_Documents": [forms[documents]],
        "Answer_Claims": [{"direct": ["a"], "useful": [], "useless": []}],
        "Session": ["Both"],
    }
    pq.write_table(pa.table(columns), tmp_path / "q.parquet")
    (row,) = read_questions(tmp_path / "q.parquet").to_pylist()
    ids = ["<urn:uuid:1>", "<urn:uuid:2>"]
    assert row == {"id": "0", "question": "Who?", "answers": ["Me, and [you]."], "doc_ids": ids}


def test_a_benchmark_file_whose_id_is_named(tmp_path: Path) -> None:
    (tmp_path / "q.jsonl").write_text('{"Index": 3, "Question": "Who?", "Answer": "I", "key": "k3"}\n')
    (row,) = read_questions(tmp_path / "q.jsonl", id_column="key").to_pylist()
    assert (row["id"], row["question"], row["answers"]) == ("k3", "Who?", ["I"])


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("q.csv", "id,question\n1,a\n2,b,c\n", "q.csv, line 3: has 3 cells, the header has 2"),
        ("q.csv", 'id,question\n1,"a\n\nb"\n2\n', "q.csv, line 5: has 1 cells"),
        ("q.csv", 'id,question\n1,"a"b\n', "q.csv, line 2: cannot be read"),
        ("q.tsv", 'id\tquestion\n1\t"a\n', "q.tsv, line 2: cannot be read (unexpected end of data)"),
        ("q.csv", "id,id,question\n", "q.csv, line 1: two columns are called 'id'"),
        ("q.csv", "id,question\n,b\n", "q.csv, line 2: 'id' is a blank string"),
        ("q.csv", "id,question\n", "holds no questions"),
        ("q.csv", "", "holds no questions"),
        ("q.csv", "id;question\n1;a\n", "line 2: has no 'id'; it has id;question"),
        ("q.parquet", "no", "q.parquet cannot be read as Parquet"),
    ],
)
def test_broken_files_are_named_with_their_line(tmp_path: Path, name: str, text: str, says: str) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(InputError) as refusal:
        read_questions(tmp_path / name)
    assert says in str(refusal.value)


def test_a_folder_of_something_else_and_a_saved_set_of_two_splits(tmp_path: Path) -> None:
    import datasets

    with pytest.raises(InputError, match="is a folder, and none that save_to_disk wrote"):
        read_questions(tmp_path)
    data = datasets.Dataset(TABLE)
    datasets.DatasetDict({"a": data, "b": data}).save_to_disk(str(tmp_path / "two"))
    with pytest.raises(InputError, match=r"question set '.*two' is a saved data set of 2 splits \(a, b\)"):
        read_questions(tmp_path / "two")
    assert read_questions(tmp_path / "two" / "b").num_rows == 4


def test_files_that_share_questions(tmp_path: Path) -> None:
    def write(name: str, *rows: dict[str, Any]) -> Path:
        (tmp_path / name).write_text("".join(json.dumps(row) + "\n" for row in rows))
        return tmp_path / name

    first = write("1.jsonl", {"id": 1, "question": "a"}, {"id": 2, "question": "b", "answers": "x"})
    gold = {"answers": "y", "doc_ids": []}
    second = write("2.jsonl", {"id": 3, "question": "c"}, {"id": "1", "question": "a", **gold})
    both = read_question_set([first, second])
    assert both["id"].to_pylist() == ["1", "2", "3"]
    assert both["answers"].to_pylist() == [["y"], ["x"], None]
    assert both["doc_ids"].to_pylist() == [[], None, None]
    assert read_question_set([first]).equals(read_questions(first))
    other = write("3.jsonl", {"id": 2, "question": "B"})
    with pytest.raises(InputError, match=r"the id '2' is 'b' in .*1\.jsonl and 'B' in .*3\.jsonl"):
        read_question_set([first, second, other])
