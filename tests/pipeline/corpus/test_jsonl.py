import gzip
import json
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pipeline.corpus import jsonl
from pipeline.corpus.document import BadFileError, Columns, Document
from pipeline.corpus.plan import plan_shards
from pipeline.corpus.read import corpus_files, read_rows
from pipeline.errors import InputError

PACK: dict[str, Callable[[bytes], bytes]] = {
    "": bytes,
    ".gz": gzip.compress,
    ".zst": lambda data: pa.Codec("zstd").compress(data, asbytes=True),
}


def lines(count: int) -> bytes:
    return b"".join(json.dumps({"id": f"d{n}", "text": f"text {n}"}).encode() + b"\n" for n in range(count))


def read(path: Path, columns: Columns = Columns()) -> list[Document]:
    """All documents, through shards of 7: each starts in the middle of a file."""
    shards = plan_shards(corpus_files(str(path), columns).files, 7)
    pieces = [piece for shard in shards for piece in shard.slices]
    return [row for p in pieces for row in read_rows(p.path, p.row_group, p.start, p.stop, columns, p.offset)]


@pytest.mark.parametrize("suffix", [".jsonl", ".ndjson", ".json"])
@pytest.mark.parametrize("packed", PACK)
def test_rows_are_found_from_any_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, suffix: str, packed: str
) -> None:
    monkeypatch.setattr(jsonl, "_LINES", 5)
    path = tmp_path / f"a{suffix}{packed}"
    path.write_bytes(PACK[packed](lines(23)))
    file = corpus_files(str(tmp_path)).files[0]
    assert (file.rows, file.row_groups, file.size) == (23, [5, 5, 5, 5, 3], path.stat().st_size)
    assert read(path) == [Document(f"d{n}", None, f"text {n}") for n in range(23)]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.lists(st.text(st.characters(exclude_categories=["Cs"])), max_size=30), st.booleans(), st.booleans())
def test_any_text_comes_through(tmp_path: Path, texts: list[str], ascii: bool, blank: bool) -> None:
    gap = "\r\n\r\n" if blank else "\n"
    rows = [json.dumps({"id": str(n), "text": text}, ensure_ascii=ascii) for n, text in enumerate(["", *texts])]
    path = tmp_path / "a.jsonl"
    path.write_bytes(gap.join(rows).encode())
    assert [(row.id, row.text) for row in read(path)] == [(str(n), text) for n, text in enumerate(["", *texts])]


def test_bom_crlf_blank_lines_and_a_line_of_5_mb(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    long = "word " * 2**20
    rows = [b'\xef\xbb\xbf{"id": 1, "text": "x"}', b"", json.dumps({"id": "2", "text": long}).encode(), b"  ", b""]
    path.write_bytes(b"\r\n".join(rows))
    assert read(path) == [Document("1", None, "x"), Document("2", None, long)]


def test_ids_are_verbatim_and_surrogates_are_replaced(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(
        b'{"id": 12345678901234567890123, "text": "a\\u0000b", "url": "u", "title": "t"}\n'
        b'{"id": "007", "text": "x\\ud800y\\ud83d\\ude00", "title": null}\n'
        b'{"id": 1e5, "text": null}\n'
        b'{"id": null, "text": "caf\xe9", "url": null}\n'
        b'{"text": "no id"}\n'
        b'{"id": "no text"}\n'
    )
    assert read(path, Columns(title="title")) == [
        Document("12345678901234567890123", "u", "a\0b", "t"),
        Document("007", None, "x\ufffdy😀", repaired=True),
        Document("1e5", None, ""),
        Document(None, None, "caf\ufffd", repaired=True),
        Document(None, None, "no id"),
        Document("no text", None, ""),
    ]


def test_a_column_that_no_row_has_lists_those_there(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"id": 1, "content": "x"}\n{"id": 2, "more": "x"}\n')
    with pytest.raises(InputError, match=r"no column 'text' .*columns are id, content, more\. Set corpus\.text"):
        corpus_files(str(tmp_path))
    assert corpus_files(str(tmp_path), Columns(text="content")).files[0].rows == 2


@pytest.mark.parametrize(
    ("name", "data", "says"),
    [
        ("a.jsonl", b"", r"is empty \(0 bytes\)"),
        ("a.jsonl.gz", b"", r"is empty \(0 bytes\)"),
        ("a.jsonl.gz", gzip.compress(lines(1000))[:-9], r"is damaged \(Truncated compressed stream\)"),
        ("a.jsonl.zst", PACK[".zst"](lines(1000))[:-9], r"is damaged \(Truncated compressed stream\)"),
        ("a.jsonl.gz", lines(3), r"is damaged \(.*header"),
        ("a.jsonl.zst", lines(3), r"is damaged \(ZSTD"),
        ("a.jsonl", lines(3)[:-9], r"line 3 is not a JSON object \('\{\"id\": "),
        ("a.jsonl", lines(2) + b"oops\n" + lines(1), r"line 3 is not a JSON object \('oops'\)"),
        ("a.json", b'[{"id": 1, "text": "x"}]', r"line 1 is a JSON array, not JSONL"),
        ("a.json", b'{\n "id": 1\n}', r"line 1 is not a JSON object"),
    ],
)
def test_a_broken_file_is_named_when_planned(tmp_path: Path, name: str, data: bytes, says: str) -> None:
    (tmp_path / name).write_bytes(data)
    with pytest.raises(BadFileError, match=rf"{name} {says}.*; replace or remove it, or set corpus\.on_bad_file=skip"):
        corpus_files(str(tmp_path / name))
    (tmp_path / "b.jsonl").write_bytes(lines(4))
    corpus = corpus_files(str(tmp_path / "*"), on_bad_file="skip")
    assert [file.rows for file in corpus.files] == [4]
    assert [Path(file.path).name for file in corpus.bad_files] == [name]


@pytest.mark.parametrize(
    ("line", "says"),
    [
        (b'{"id": 1, "text" "x"}', "line 152 is not a JSON object"),
        (b'{"id": 1, "text": ["x"]}', r"""line 152: 'text' is no text but \["x"\]"""),
        (b'{"id": true, "text": "x"}', "line 152: 'id' is no text but true"),
        (b'{"a":' * 100_000 + b"}" * 100_000, "line 152 is not a JSON object"),
    ],
    ids=["not JSON", "list", "bool", "deep"],
)
def test_a_line_that_looks_whole_is_named_when_read(tmp_path: Path, line: bytes, says: str) -> None:
    (tmp_path / "a.jsonl").write_bytes(lines(150) + b"\n" + line + b"\n" + lines(3))
    rows = read_rows(str(tmp_path / "a.jsonl"), 0, 0, corpus_files(str(tmp_path)).files[0].rows)
    assert [next(rows).id for _ in range(150)] == [f"d{n}" for n in range(150)]
    with pytest.raises(BadFileError, match=says):
        next(rows)
