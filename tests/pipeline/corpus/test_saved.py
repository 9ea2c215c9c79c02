import shutil
from pathlib import Path

import pytest

from pipeline.corpus.document import BadFileError, Columns, Document
from pipeline.corpus.plan import plan_shards
from pipeline.corpus.read import corpus_files, read_rows
from pipeline.errors import InputError

datasets = pytest.importorskip("datasets")
ROWS = {"key": list(range(2500)), "text": [f"text {n}" for n in range(2500)], "url": [None, "u"] * 1250}


def read(pattern: str, columns: Columns) -> list[Document]:
    shards = plan_shards(corpus_files(pattern, columns).files, 900)
    pieces = [piece for shard in shards for piece in shard.slices]
    return [row for p in pieces for row in read_rows(p.path, p.row_group, p.start, p.stop, columns, p.offset)]


EXPECTED = [Document(str(n), "u" if n % 2 else None, f"text {n}") for n in range(2500)]


@pytest.fixture(autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path_factory.mktemp("cache"))
    datasets.disable_progress_bars()


def test_a_folder_that_save_to_disk_wrote(tmp_path: Path) -> None:
    datasets.Dataset.from_dict(ROWS).save_to_disk(tmp_path / "saved", num_shards=3)
    (tmp_path / "saved" / "cache-123.arrow").write_bytes(b"what map() left behind")
    files = corpus_files(str(tmp_path / "saved"), Columns(id="key")).files
    assert [Path(file.path).name for file in files] == [f"data-{n:05}-of-00003.arrow" for n in range(3)]
    assert read(str(tmp_path / "saved"), Columns(id="key")) == EXPECTED


def test_rows_chosen_before_saving_are_those_read(tmp_path: Path) -> None:
    chosen = datasets.Dataset.from_dict(ROWS).select([7, 5, 2000])
    chosen.save_to_disk(tmp_path / "saved")
    assert read(str(tmp_path / "saved"), Columns(id="key")) == [EXPECTED[n] for n in (7, 5, 2000)]


def test_splits_are_told_apart(tmp_path: Path) -> None:
    part = datasets.Dataset.from_dict(ROWS)
    datasets.DatasetDict({"train": part}).save_to_disk(tmp_path / "one")
    assert read(str(tmp_path / "one"), Columns(id="key")) == EXPECTED
    datasets.DatasetDict({"train": part, "test": part}).save_to_disk(tmp_path / "two")
    with pytest.raises(InputError, match=r"of 2 splits \(train, test\); name one of them, such as '.*two/train'"):
        corpus_files(str(tmp_path / "two"), Columns(id="key"))
    assert read(str(tmp_path / "two" / "test"), Columns(id="key")) == EXPECTED


def test_damage_and_missing_parts_are_named(tmp_path: Path) -> None:
    datasets.Dataset.from_dict(ROWS).save_to_disk(tmp_path / "saved", num_shards=2)
    part = tmp_path / "saved" / "data-00001-of-00002.arrow"
    part.write_bytes(part.read_bytes()[: part.stat().st_size // 2])
    with pytest.raises(BadFileError, match=r"00001-of-00002\.arrow is damaged: not an Arrow stream"):
        corpus_files(str(tmp_path / "saved"), Columns(id="key"))
    skipped = corpus_files(str(tmp_path / "saved"), Columns(id="key"), on_bad_file="skip")
    assert [Path(file.path).name for file in skipped.bad_files] == [part.name]
    part.write_bytes(b"")
    with pytest.raises(BadFileError, match=r"00001-of-00002\.arrow is damaged"):
        corpus_files(str(tmp_path / "saved"), Columns(id="key"))
    part.unlink()
    with pytest.raises(InputError, match=r"its state\.json names data-00001-of-00002\.arrow, which is not there"):
        corpus_files(str(tmp_path / "saved"), Columns(id="key"))


def test_a_column_that_is_not_there(tmp_path: Path) -> None:
    datasets.Dataset.from_dict(ROWS).save_to_disk(tmp_path / "saved")
    with pytest.raises(InputError, match="no column 'id' for 'id'; its columns are key, text, url"):
        corpus_files(str(tmp_path / "saved"))


def test_a_data_set_by_name(tmp_path: Path) -> None:
    for split in ("train", "test"):
        (tmp_path / "mine" / split).mkdir(parents=True)
        datasets.Dataset.from_dict(ROWS).to_parquet(tmp_path / "mine" / split / "part.parquet")
    corpus = corpus_files(f"hf-dataset:{tmp_path}/mine", Columns(id="key"))
    assert (corpus.files[0].rows, corpus.files[0].size > 0) == (2500, True)
    for spelling in ("", ":default", ":default:test", "::test"):
        assert read(f"hf-dataset:{tmp_path}/mine{spelling}", Columns(id="key")) == EXPECTED


def test_a_name_that_is_none(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    with pytest.raises(InputError, match=r"the data set cannot be loaded \(.+\); give hf-dataset:NAME"):
        corpus_files(f"hf-dataset:{tmp_path}/mine")
    with pytest.raises(InputError, match="cannot be loaded"):
        corpus_files(f"hf-dataset:{tmp_path}/nothing")
    datasets.Dataset.from_dict(ROWS).to_parquet(tmp_path / "mine" / "part.parquet")
    with pytest.raises(InputError, match=r"cannot be loaded \(Unknown split"):
        corpus_files(f"hf-dataset:{tmp_path}/mine::best")
    shutil.rmtree(tmp_path / "mine")
