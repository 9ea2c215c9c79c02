from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipeline.corpus.read import Document, corpus_files, read_rows
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
    found = corpus_files(str(tmp_path))
    assert [file.path for file in found] == [str(early), str(late)]
    assert (found[1].rows, found[1].row_groups, found[1].size) == (5, [2, 2, 1], late.stat().st_size)
    assert corpus_files(f"{tmp_path}/[ab]/*.parquet") == found[:1]
    assert corpus_files(f"{tmp_path}/**/[bz].parquet") == found
    assert corpus_files(str(late)) == found[1:]


def test_a_relative_pattern_gives_absolute_paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path / "a[1].parquet")
    monkeypatch.chdir(tmp_path)
    assert [file.path for file in corpus_files("a[1].parquet")] == [str(path)]


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
    assert corpus_files(str(path), text="label", id="key")[0].rows == 3
    rows = list(read_rows(str(path), 0, 0, 3, text="body", id="key"))
    assert rows == [Document("1", None, "x"), Document("2", None, "y"), Document(str(2**62), None, "x")]
    assert [row.text for row in read_rows(str(path), 0, 1, 3, text="label", id="label")] == ["q", "p"]


def test_nothing_there(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"corpus '.*missing.*': no file matches .*quoted glob"):
        corpus_files(str(tmp_path / "missing" / "*.parquet"))
    with pytest.raises(InputError, match="it holds nothing"):
        corpus_files(str(tmp_path))
    (tmp_path / "docs.csv").write_text("id,text")
    with pytest.raises(InputError, match=r"has no \.parquet file; it holds docs\.csv"):
        corpus_files(str(tmp_path))
    with pytest.raises(InputError, match=r"docs\.csv is not a \.parquet file"):
        corpus_files(str(tmp_path / "*.csv"))


def test_a_broken_file_is_named(tmp_path: Path) -> None:
    whole = write(tmp_path / "a.parquet")
    (tmp_path / "b.parquet").write_bytes(whole.read_bytes()[:-10])
    with pytest.raises(InputError, match=r"b\.parquet cannot be read as Parquet \(.+\); replace or remove it\."):
        corpus_files(str(tmp_path))
    (tmp_path / "b.parquet").write_bytes(b"")
    with pytest.raises(InputError, match=r"b\.parquet cannot be read as Parquet"):
        corpus_files(str(tmp_path))


def test_a_missing_column_lists_those_there(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"key": ["1"], "body": ["x"]}), path)
    with pytest.raises(InputError, match=r"no column 'text' .*its columns are key, body\. Set corpus\.text"):
        corpus_files(str(path))
    with pytest.raises(InputError, match=r"no column 'id' .*its columns are key, body\. Set corpus\.id"):
        corpus_files(str(path), text="body")


def test_a_column_of_the_wrong_type_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "a.parquet", score=[0.1, 0.2, 0.3])
    with pytest.raises(InputError, match=r"column 'score' holds double, .* set corpus\.id to a string column"):
        corpus_files(str(path), id="score")


def test_files_without_rows_alone_are_refused(tmp_path: Path) -> None:
    pq.write_table(
        pa.table({"id": pa.array([], pa.string()), "text": pa.array([], pa.string())}), tmp_path / "a.parquet"
    )
    with pytest.raises(InputError, match="its 1 files hold no rows"):
        corpus_files(str(tmp_path))
    write(tmp_path / "b.parquet")
    assert [file.rows for file in corpus_files(str(tmp_path))] == [0, 3]


def test_real_fineweb_documents_are_read() -> None:
    folder = Path(__file__).parents[4] / "shared" / "data" / "liverag-mini"
    if not folder.is_dir():
        pytest.skip(f"the LiveRAG sample is not at {folder}.")
    files = corpus_files(str(folder))
    assert [(file.rows, file.row_groups) for file in files] == [(35, [35]), (35, [35])]
    rows = [row for file in files for row in read_rows(file.path, 0, 0, 35)]
    assert len({row.id for row in rows}) == 70
    assert all(row.text for row in rows)
    assert all(row.id and row.id.startswith("<urn:uuid:") for row in rows)
