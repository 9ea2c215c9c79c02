import gzip
import pickle
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipeline.corpus.document import BadFile, BadFileError, Columns, Document
from pipeline.corpus.read import corpus_files, read_rows
from pipeline.errors import InputError


def write(path: Path, rows: int = 3, group: int = 100, **columns: list[object] | pa.Array) -> Path:
    base = {"id": [f"{path.stem}-{n}" for n in range(rows)], "text": [f"text {n}" for n in range(rows)]}
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table({**base, **columns}), path, row_group_size=group)
    return path


def test_a_folder_a_glob_and_a_file_are_read_in_path_order(tmp_path: Path) -> None:
    late, early = write(tmp_path / "b.parquet", rows=5, group=2), write(tmp_path / "a" / "z.parquet")
    write(tmp_path / "_drafts" / "x.parquet")
    write(tmp_path / ".a.parquet")
    (tmp_path / "notes.txt").write_text("not a corpus file")
    found = corpus_files(str(tmp_path)).files
    assert [file.path for file in found] == [str(early), str(late)]
    assert (found[1].rows, found[1].row_groups, found[1].size) == (5, [2, 2, 1], late.stat().st_size)
    assert corpus_files(f"{tmp_path}/[ab]/*.parquet").files == found[:1]
    assert corpus_files(f"{tmp_path}/**/[bz].parquet").files == found
    assert corpus_files(str(late)).files == found[1:]


def test_a_relative_pattern_gives_absolute_paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path / "a[1].parquet")
    monkeypatch.chdir(tmp_path)
    assert [file.path for file in corpus_files("a[1].parquet").files] == [str(path)]


def test_rows_of_a_range_cross_batches_and_stop_at_the_group(tmp_path: Path) -> None:
    path = write(tmp_path / "a.parquet", rows=5000, group=4000)
    rows = list(read_rows(str(path), 0, 1000, 2100))
    assert [row.id for row in rows] == [f"a-{n}" for n in range(1000, 2100)]
    assert rows[0] == Document("a-1000", None, "text 1000")
    assert [row.id for row in read_rows(str(path), 1, 998, 1000)] == ["a-4998", "a-4999"]
    assert list(read_rows(str(path), 1, 4, 4)) == []


def test_ids_are_kept_verbatim_and_nulls_are_told(tmp_path: Path) -> None:
    path = write(tmp_path / "a.parquet", id=["007", None, " x "], text=["a", "b", None], url=[None, "u", "v"])
    assert list(read_rows(str(path), 0, 0, 3)) == [
        Document("007", None, "a"),
        Document(None, "u", "b"),
        Document(" x ", "v", ""),
    ]


def test_other_columns_and_string_types_serve(tmp_path: Path) -> None:
    body = pa.array(["x", "y", "x"], pa.large_string())
    path = write(
        tmp_path / "a.parquet", body=body, key=[1, 2, 2**62], label=pa.array(["p", "q", "p"]).dictionary_encode()
    )
    assert corpus_files(str(path), Columns(text="label", id="key")).files[0].rows == 3
    rows = list(read_rows(str(path), 0, 0, 3, Columns(text="body", id="key")))
    assert rows == [Document("1", None, "x"), Document("2", None, "y"), Document(str(2**62), None, "x")]
    assert [row.text for row in read_rows(str(path), 0, 1, 3, Columns(text="label", id="label"))] == ["q", "p"]


def test_nothing_there(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"corpus '.*missing.*': no file matches .*quoted glob"):
        corpus_files(str(tmp_path / "missing" / "*.parquet"))
    with pytest.raises(InputError, match="it holds nothing"):
        corpus_files(str(tmp_path))
    (tmp_path / "docs.csv").write_text("id,text")
    with pytest.raises(InputError, match=r"has no \.parquet, .* file; it holds docs\.csv"):
        corpus_files(str(tmp_path))
    with pytest.raises(InputError, match=r"docs\.csv is not a \.parquet, \.jsonl"):
        corpus_files(str(tmp_path / "*.csv"))


def test_a_broken_file_is_named(tmp_path: Path) -> None:
    whole = write(tmp_path / "a.parquet")
    (tmp_path / "b.parquet").write_bytes(whole.read_bytes()[:-10])
    with pytest.raises(BadFileError, match=r"b\.parquet is damaged: .* as Parquet \(.+\); replace or .*=skip"):
        corpus_files(str(tmp_path))
    (tmp_path / "b.parquet").write_bytes(b"")
    with pytest.raises(InputError, match=r"b\.parquet is damaged: its 0 bytes cannot be read as Parquet"):
        corpus_files(str(tmp_path))


def test_broken_files_are_skipped_and_listed(tmp_path: Path) -> None:
    for name in "acdef":
        whole = write(tmp_path / f"{name}.parquet")
    (tmp_path / "b.parquet").write_bytes(whole.read_bytes()[:-10])
    (tmp_path / "g.parquet").write_bytes(b"")
    (tmp_path / "_SUCCESS").write_bytes(b"")
    corpus = corpus_files(str(tmp_path), on_bad_file="skip")
    assert [Path(file.path).stem for file in corpus.files] == list("acdef")
    assert [Path(file.path).name for file in corpus.bad_files] == ["b.parquet", "g.parquet"]
    assert all(isinstance(file, BadFile) and "cannot be read as Parquet" in file.reason for file in corpus.bad_files)
    for name in "acdef":
        (tmp_path / f"{name}.parquet").unlink()
    with pytest.raises(InputError, match=r"its 0 files hold no rows and 2 are damaged \(the first, .*b\.parquet"):
        corpus_files(str(tmp_path), on_bad_file="skip")


def test_damage_behind_a_good_footer_is_met_in_reading(tmp_path: Path) -> None:
    path = write(tmp_path / "a.parquet", rows=3000)
    data = bytearray(path.read_bytes())
    data[4:40] = b"\xff" * 36  # the first page's header
    path.write_bytes(data)
    assert corpus_files(str(path)).files[0].rows == 3000
    with pytest.raises(BadFileError, match=r"a\.parquet is damaged: cannot be read as Parquet"):
        list(read_rows(str(path), 0, 0, 3000))


def test_a_file_that_went_away_is_not_a_bad_file(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        list(read_rows(str(tmp_path / "gone.parquet"), 0, 0, 1))


def test_bad_files_cross_processes(tmp_path: Path) -> None:
    problem = pickle.loads(pickle.dumps(BadFileError("a.parquet", "is damaged")))
    assert problem.bad_file == BadFile("a.parquet", "is damaged")
    assert str(problem) == str(BadFileError("a.parquet", "is damaged"))


@pytest.mark.parametrize(
    "kind",
    [pa.string(), pa.large_string(), pa.string_view(), pa.binary(), pa.dictionary(pa.int32(), pa.string())],
    ids=str,
)
def test_part_files_may_disagree_on_types(tmp_path: Path, kind: pa.DataType) -> None:
    texts, urls = ["x", None, "नमस्ते"], ["u", None, "v"]
    text = pa.array(texts).dictionary_encode() if pa.types.is_dictionary(kind) else pa.array(texts).cast(kind)
    write(tmp_path / "a.parquet", text=text, url=urls, title=pa.nulls(3))
    write(tmp_path / "b.parquet", text=pa.nulls(3), id=[7, None, 2**62], title=["t", None, "w"])
    write(tmp_path / "c.parquet", id=pa.nulls(3), text=["", " ", "z"])
    columns = Columns(title="title")
    files = corpus_files(str(tmp_path), columns).files
    assert [file.optional for file in files] == [
        ("id", "text", "url", "title"),
        ("id", "text", "title"),
        ("id", "text"),
    ]
    assert [list(read_rows(file.path, 0, 0, 3, columns)) for file in files] == [
        [Document("a-0", "u", "x"), Document("a-1", None, ""), Document("a-2", "v", "नमस्ते")],
        [Document("7", None, "", "t"), Document(None, None, ""), Document(str(2**62), None, "", "w")],
        [Document(None, None, ""), Document(None, None, " "), Document(None, None, "z")],
    ]


def test_optional_columns_are_missed_where_they_are_asked_for(tmp_path: Path) -> None:
    write(tmp_path / "a.parquet")
    for columns, setting in ((Columns(title="headline"), "title"), (Columns(url="address"), "url")):
        with pytest.raises(InputError, match=rf"no file has a column '.*' for '{setting}'; set corpus\.{setting}"):
            corpus_files(str(tmp_path), columns)


def test_what_is_not_unicode_is_replaced_and_told(tmp_path: Path) -> None:
    offsets = pa.array([0, 3, 4, 6], pa.int32()).buffers()[1]
    text = pa.StringArray.from_buffers(3, offsets, pa.py_buffer(b"a\xffbcde"))
    path = write(tmp_path / "a.parquet", text=text)
    assert list(read_rows(str(path), 0, 0, 3)) == [
        Document("a-0", None, "a\ufffdb", repaired=True),
        Document("a-1", None, "c"),
        Document("a-2", None, "de"),
    ]


def test_texts_come_through_as_they_are(tmp_path: Path) -> None:
    texts = ["nul\x00in", "\u200b", "e\u0301 é ﬁ", "😀👍🏽", "北京。مرحبا؟", "x " * 50_000, "\r\n\u2028", "\ufeffbom"]
    path = write(tmp_path / "a.parquet", rows=len(texts), text=texts)
    assert [row.text for row in read_rows(str(path), 0, 0, len(texts))] == texts
    assert not any(row.repaired for row in read_rows(str(path), 0, 0, len(texts)))


def test_a_folder_of_several_formats_is_refused(tmp_path: Path) -> None:
    """Nothing in it is left out unsaid: the one format may be documents and the other questions about them."""
    (tmp_path / "dataset_infos.json").write_text('{"name": "no document"}')
    (tmp_path / "notes.txt").write_text("no document")
    (tmp_path / "b.jsonl").write_text('{"id": "1", "text": "x"}\n')
    (tmp_path / "d.jsonl.gz").write_bytes(gzip.compress(b'{"id": "2", "text": "x"}\n'))
    assert [Path(file.path).name for file in corpus_files(str(tmp_path)).files] == ["b.jsonl", "d.jsonl.gz"]
    write(tmp_path / "c.parquet")
    with pytest.raises(
        InputError, match=r"1 of Parquet \(c\.parquet, \.\.\.\) and 2 of JSON \(b\.jsonl, .*/\*\*/\*\.parquet'"
    ):
        corpus_files(str(tmp_path))
    assert [Path(file.path).name for file in corpus_files(f"{tmp_path}/*.parquet").files] == ["c.parquet"]


def rewritten(path: Path, old: bytes, new: bytes) -> str:
    """The digest of a file whose bytes have changed, and not their number."""
    path.write_bytes(path.read_bytes().replace(old, new))
    (file,) = corpus_files(str(path)).files
    return file.digest


def test_contents_that_change_without_their_size_are_another_file(tmp_path: Path) -> None:
    lines = tmp_path / "a.jsonl"
    lines.write_text('{"id": "1", "text": "bananas"}\n')
    before = rewritten(lines, b"", b"")
    assert rewritten(lines, b"bananas", b"papayas") != before
    assert rewritten(lines, b"papayas", b"bananas") == before
    path = write(tmp_path / "b.parquet", text=["bananas"] * 3)
    before = rewritten(path, b"", b"")
    write(path, text=["papayas"] * 3)
    assert corpus_files(str(path)).files[0].digest != before


def test_two_thousand_tiny_files_are_planned_fast(tmp_path: Path) -> None:
    whole = write(tmp_path / "00000.parquet", rows=1).read_bytes()
    for number in range(1, 2000):
        (tmp_path / f"{number:05}.parquet").write_bytes(whole)
    began = time.perf_counter()
    files = corpus_files(str(tmp_path)).files
    assert [Path(file.path).stem for file in files] == [f"{number:05}" for number in range(2000)]
    assert time.perf_counter() - began < 30  # about 1 on an idle machine


def test_a_row_group_of_large_texts_is_streamed(tmp_path: Path) -> None:
    """Peak memory stays far under the row group: it is read a few rows at a time, not as one chunk."""
    path = tmp_path / "a.parquet"
    page = pa.array(["x" * 2**20], pa.large_string())
    with pq.ParquetWriter(path, pa.schema([("id", pa.string()), ("text", pa.large_string())])) as writer:
        ids = pa.array([str(number) for number in range(2100)])
        texts = pa.chunked_array([page] * 2100)
        writer.write_table(pa.table({"id": ids, "text": texts}), row_group_size=2100)
    assert corpus_files(str(path)).files[0].row_groups == [2100]
    before = pa.total_allocated_bytes()
    peak = total = 0
    for row in read_rows(str(path), 0, 0, 2100):
        total += len(row.text)
        peak = max(peak, pa.total_allocated_bytes() - before)
    assert total == 2100 << 20
    assert peak < 700 << 20


def test_a_missing_column_lists_those_there(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"key": ["1"], "body": ["x"]}), path)
    with pytest.raises(InputError, match=r"no column 'text' .*its columns are key, body\. Set corpus\.text"):
        corpus_files(str(path))
    with pytest.raises(InputError, match=r"no column 'id' .*its columns are key, body\. Set corpus\.id"):
        corpus_files(str(path), Columns(text="body"))


def test_a_column_of_the_wrong_type_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "a.parquet", score=[0.1, 0.2, 0.3])
    with pytest.raises(InputError, match=r"column 'score' holds double, .* set corpus\.id to a string column"):
        corpus_files(str(path), Columns(id="score"))


def test_files_without_rows_alone_are_refused(tmp_path: Path) -> None:
    pq.write_table(
        pa.table({"id": pa.array([], pa.string()), "text": pa.array([], pa.string())}), tmp_path / "a.parquet"
    )
    with pytest.raises(InputError, match="its 1 files hold no rows"):
        corpus_files(str(tmp_path))
    write(tmp_path / "b.parquet")
    assert [file.rows for file in corpus_files(str(tmp_path)).files] == [0, 3]


def test_real_fineweb_documents_are_read() -> None:
    folder = Path(__file__).parents[4] / "shared" / "data" / "liverag-mini"
    if not folder.is_dir():
        pytest.skip(f"the LiveRAG sample is not at {folder}.")
    files = corpus_files(f"{folder}/*.parquet").files
    assert [(file.rows, file.row_groups) for file in files] == [(35, [35]), (35, [35])]
    rows = [row for file in files for row in read_rows(file.path, 0, 0, 35)]
    assert len({row.id for row in rows}) == 70
    assert all(row.text for row in rows)
    assert all(row.id and row.id.startswith("<urn:uuid:") for row in rows)
