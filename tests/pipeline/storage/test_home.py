"""What every home promises, on a file system and on a real S3 server: what is complete is visible, what is not, is not,
and what is complete stays as it is."""

import os
import pickle
import time
from pathlib import Path
from threading import Thread

import pytest

from pipeline.errors import InputError, UnfinishedError
from pipeline.storage import Home, open_home
from pipeline.storage.local import LocalHome


def commit(home: Home, name: str, contents: bytes, shared: dict | None = None) -> dict:
    with home.attempt() as folder:
        (folder / "inside").mkdir()
        (folder / "data").write_bytes(contents)
        (folder / "inside" / "more").write_bytes(b"more")
        return home.commit(name, folder, {"rows": 3}, shared)


def test_small_files(home: Home) -> None:
    with pytest.raises(FileNotFoundError):
        home.read("a/b.json")
    assert not home.exists("a/b.json")
    assert home.create("a/b.json", b"first")
    assert not home.create("a/b.json", b"second")
    assert home.read("a/b.json") == b"first"
    home.write("a/b.json", b"third")
    home.write("a/c.json", b"{}")
    home.write("top", b"")
    assert home.read("a/b.json") == b"third"
    assert home.entries("a") == ["b.json", "c.json"]
    assert [entry for entry in home.entries() if entry != "attempts"] == ["a", "top"]
    assert home.entries("absent") == []
    home.remove("a/b.json")
    home.remove("a/b.json")
    assert home.entries("a") == ["c.json"]
    with pytest.raises(InputError, match=r"top is not JSON \(0 bytes"):
        home.json("top")


def test_of_racing_creators_one_wins(home: Home) -> None:
    won: list[bool] = []
    racers = [Thread(target=lambda n=n: won.append(home.create("file", str(n).encode() * 999))) for n in range(8)]
    for racer in racers:
        racer.start()
    for racer in racers:
        racer.join(60)
    assert sorted(won) == [False] * 7 + [True]
    assert len(set(home.read("file"))) == 1


def test_a_commit_names_files_with_sizes_and_hashes(home: Home) -> None:
    assert home.committed("shards/00000") is None
    record = commit(home, "shards/00000", b"abc")
    assert record["rows"] == 3
    assert record["files"]["data"] == {
        "bytes": 3,
        "sha256": "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
    }
    assert home.committed("shards/00000") == record
    assert home.done("shards") == {"00000"}
    assert home.done("passages") == set()
    folder = home.folder("shards/00000")
    assert (folder / "data").read_bytes() == b"abc"
    assert (folder / "inside" / "more").read_bytes() == b"more"
    assert home.damage(record) == []


def test_the_second_commit_of_a_name_is_discarded(home: Home) -> None:
    first = commit(home, "shards/00000", b"first")
    assert commit(home, "shards/00000", b"second") == first
    # SeaweedFS goes on listing a prefix whose objects are gone.
    held = [entry for entry in home.entries("shards") if home.exists(f"shards/{entry}/data")]
    assert held == [Path(first["folder"]).name]
    assert commit(home, "shards/00000", b"first") == first
    assert (home.folder("shards/00000") / "data").read_bytes() == b"first"


def test_a_kill_between_moving_and_committing_costs_nothing(home: Home) -> None:
    record = commit(home, "shards/00000", b"abc")
    home.remove("commit/shards/00000.json")
    assert commit(home, "shards/00000", b"abc") == record


def test_a_damaged_commit_is_forgotten_and_made_again(home: Home) -> None:
    record = commit(home, "shards/00000", b"abc")
    home.write(f"{record['folder']}/data", b"ab")
    (problem,) = home.damage(record)
    assert "data has 2 bytes, its commit says 3" in problem
    home.remove(f"{record['folder']}/inside/more")
    assert len(home.damage(record)) == 2
    assert "more is missing" in home.damage(record)[1]
    home.forget("shards/00000")
    assert home.committed("shards/00000") is None
    assert commit(home, "shards/00000", b"abc") == record
    assert home.damage(record) == []


def test_what_is_not_done_says_so(home: Home) -> None:
    with pytest.raises(UnfinishedError, match=r"its step shards/00007 is not done\. Run the command again"):
        home.folder("shards/00007")


def test_an_attempt_that_fails_leaves_nothing(home: Home) -> None:
    places: list[Path] = []

    def broken() -> None:
        with home.attempt() as folder:
            places.append(folder)
            (folder / "half").write_bytes(b"ha")
            raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        broken()
    assert not places[0].exists()
    assert home.entries("commit") == []


def test_a_home_travels_to_other_processes(home: Home) -> None:
    commit(home, "codec", b"abc")
    assert pickle.loads(pickle.dumps(home)).committed("codec") == home.committed("codec")


def test_a_file_that_two_commits_have_is_stored_once_where_there_are_no_links(home: Home) -> None:
    codec = commit(home, "codec", b"abc")
    shard = commit(home, "shards/00000", b"abc", shared=codec)
    assert (home.folder("shards/00000") / "data").read_bytes() == b"abc"
    assert home.damage(shard) == []
    stored = home.exists(f"{shard['folder']}/data")
    assert stored is isinstance(home, LocalHome)
    assert shard["files"]["data"].get("in") == (None if stored else codec["folder"])


@pytest.mark.parametrize("place", ["gs://bucket/a", "s3://bucket", "s3:///a"])
def test_places_that_are_no_home(place: str) -> None:
    with pytest.raises(InputError, match=place):
        open_home(place)


def test_a_move_that_fails_for_another_reason_is_raised(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    home = open_home(tmp_path)
    monkeypatch.setattr(os, "rename", full)
    with pytest.raises(OSError, match="No space left"):
        commit(home, "shards/00000", b"abc")
    assert home.committed("shards/00000") is None


def test_cleaning_leaves_the_attempts_of_the_living(tmp_path: Path) -> None:
    home = LocalHome(str(tmp_path))
    with home.attempt() as mine:
        dead = mine.with_name(mine.name.replace(f".{os.getpid()}.", ".99999999."))
        elsewhere, old = mine.with_name("other-host.1.aa"), mine.with_name("other-host.1.bb")
        for folder in (dead, elsewhere, old):
            folder.mkdir()
        os.utime(old, (time.time() - 2 * 86400,) * 2)
        home.scratch().mkdir()
        home.clean()
        assert home.entries("attempts") == sorted([mine.name, elsewhere.name])
        assert not home.scratch().exists()


def test_a_killed_writer_leaves_nothing_among_the_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Killed after its data were written and before they got their name."""

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    home = LocalHome(str(tmp_path))
    home.write("timings/a.json", b"{}")
    with monkeypatch.context() as patched:
        patched.setattr(os, "replace", killed)
        with pytest.raises(KeyboardInterrupt):
            home.write("timings/b.json", b"{")
    assert home.entries("timings") == ["a.json"]
    (left,) = home.entries("attempts")
    (tmp_path / "attempts" / left).rename(tmp_path / "attempts" / left.replace(f".{os.getpid()}.", ".99999999."))
    home.clean()
    assert home.entries("attempts") == []
