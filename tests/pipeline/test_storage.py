"""What is complete is visible; what is not, is not; what is complete stays as it is."""

import multiprocessing
import os
from pathlib import Path

import pytest

from pipeline import storage


def _attempt(root: Path, name: str, contents: bytes, record: dict | None = None) -> dict:
    with storage.attempt(root) as folder:
        (folder / "data").write_bytes(contents)
        return storage.commit(root, name, folder, record or {"rows": 1})


def test_create_file_keeps_the_first_contents(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "file.json"
    assert storage.create_file(path, b"first")
    assert not storage.create_file(path, b"second")
    assert path.read_bytes() == b"first"
    assert [entry.name for entry in path.parent.iterdir()] == ["file.json"]


def test_write_file_replaces_and_leaves_nothing_beside(tmp_path: Path) -> None:
    storage.write_file(tmp_path / "a", b"one")
    storage.write_file(tmp_path / "a", b"two")
    assert (tmp_path / "a").read_bytes() == b"two"
    assert len(list(tmp_path.iterdir())) == 1


def _race(path: Path, number: int, queue: "multiprocessing.Queue[bool]") -> None:
    queue.put(storage.create_file(path, str(number).encode() * 1000))


def test_of_racing_creators_one_wins(tmp_path: Path) -> None:
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    workers = [context.Process(target=_race, args=(tmp_path / "file", n, queue)) for n in range(8)]
    for worker in workers:
        worker.start()
    won = [queue.get(timeout=30) for _ in workers]
    for worker in workers:
        worker.join()
    assert won.count(True) == 1
    assert len(set((tmp_path / "file").read_text())) == 1


def test_commit_names_files_with_sizes_and_hashes(tmp_path: Path) -> None:
    record = _attempt(tmp_path, "shards/00000", b"abc", {"rows": 3})
    assert record["rows"] == 3
    assert record["files"] == {
        "data": {"bytes": 3, "sha256": "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"}
    }
    assert (tmp_path / record["folder"] / "data").read_bytes() == b"abc"
    assert storage.committed(tmp_path, "shards/00000") == record
    assert storage.committed(tmp_path, "shards/00001") is None
    assert not list((tmp_path / "attempts").iterdir())


def test_the_second_commit_of_a_name_is_discarded(tmp_path: Path) -> None:
    first = _attempt(tmp_path, "shards/00000", b"first")
    second = _attempt(tmp_path, "shards/00000", b"second")
    assert second == first
    assert [entry.name for entry in (tmp_path / "shards").iterdir()] == [Path(first["folder"]).name]


def test_equal_attempts_share_their_home(tmp_path: Path) -> None:
    assert _attempt(tmp_path, "shards/00000", b"same") == _attempt(tmp_path, "shards/00000", b"same")
    assert len(list((tmp_path / "shards").iterdir())) == 1


def test_a_kill_between_moving_and_committing_costs_nothing(tmp_path: Path) -> None:
    record = _attempt(tmp_path, "shards/00000", b"abc")
    storage.commit_path(tmp_path, "shards/00000").unlink()
    assert _attempt(tmp_path, "shards/00000", b"abc") == record


def test_an_attempt_that_fails_leaves_nothing(tmp_path: Path) -> None:
    def broken() -> None:
        with storage.attempt(tmp_path) as folder:
            (folder / "half").write_bytes(b"ha")
            raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        broken()
    assert not list((tmp_path / "attempts").iterdir())


@pytest.mark.parametrize(
    ("harm", "said"),
    [
        (lambda path: path.unlink(), "is missing"),
        (lambda path: path.write_bytes(b""), "has 0 bytes, its commit says 3"),
        (lambda path: path.write_bytes(b"ab"), "has 2 bytes, its commit says 3"),
    ],
)
def test_damage_names_the_file(tmp_path: Path, harm, said: str) -> None:
    record = _attempt(tmp_path, "shards/00000", b"abc")
    assert storage.damage(tmp_path, record) == []
    path = tmp_path / record["folder"] / "data"
    harm(path)
    (problem,) = storage.damage(tmp_path, record)
    assert str(path) in problem
    assert said in problem


def test_damage_of_equal_size_shows_in_the_hash(tmp_path: Path) -> None:
    record = _attempt(tmp_path, "shards/00000", b"abc")
    (tmp_path / record["folder"] / "data").write_bytes(b"abd")
    assert storage.damage(tmp_path, record) == []
    assert len(storage.damage(tmp_path, record, hashes=True)) == 1


def test_a_move_that_fails_for_another_reason_is_raised(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "rename", full)
    with pytest.raises(OSError, match="No space left"):
        _attempt(tmp_path, "shards/00000", b"abc")
    assert storage.committed(tmp_path, "shards/00000") is None
