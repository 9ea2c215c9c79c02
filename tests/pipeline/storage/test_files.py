"""A local file is complete or absent; of those who create it one wins."""

import multiprocessing
from collections.abc import Iterator
from pathlib import Path

import pytest

from pipeline import storage
from pipeline.errors import InputError


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


def test_write_file_in_pieces_is_all_or_nothing(tmp_path: Path) -> None:
    storage.write_file(tmp_path / "a", (piece for piece in (b"one", b"two")))

    def broken() -> Iterator[bytes]:
        yield b"three"
        raise ValueError("no more")

    with pytest.raises(ValueError, match="no more"):
        storage.write_file(tmp_path / "a", broken())
    assert (tmp_path / "a").read_bytes() == b"onetwo"
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


def test_damaged_json_is_named_with_its_size(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('{"a": ')
    with pytest.raises(InputError, match=r"a\.json is not JSON \(6 bytes"):
        storage.read_json(tmp_path / "a.json")
