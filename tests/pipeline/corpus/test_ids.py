from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pipeline.corpus import ids
from pipeline.corpus.ids import HASHES, NAMES, IdWriter, duplicate_ids


def write(folder: Path, shards: list[list[str]]) -> list[Path]:
    paths = []
    for number, names in enumerate(shards):
        home = folder / str(number)
        home.mkdir(exist_ok=True)
        with IdWriter(home) as writer:
            for name in names:
                writer.add(name)
        paths.append(home / HASHES)
    return paths


def test_ids_shared_within_and_between_shards(tmp_path: Path) -> None:
    shards = [["a", "b", "a", "ø"], [], ["c", "b", "😀"], ["b", "😀", "A"]]
    paths = write(tmp_path, shards)
    assert duplicate_ids(paths) == {"count": 4, "ids": ["a", "b", "😀"]}
    assert duplicate_ids(paths[2:3]) == duplicate_ids([]) == {"count": 0, "ids": []}
    assert [path.stat().st_size for path in paths] == [32, 0, 24, 24]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=50)
@given(
    st.lists(st.lists(st.integers(0, 60).map(str), max_size=40), max_size=5),
    st.sampled_from([100, 400, 1 << 20]),
    st.integers(1, 8),
)
def test_any_memory_gives_the_same(tmp_path: Path, shards: list[list[str]], memory: int, named: int) -> None:
    paths = write(tmp_path, shards)
    order = [name for shard in shards for name in shard]
    shared = {name for name, count in Counter(order).items() if count > 1}
    found = duplicate_ids(paths, named=named, memory=memory)
    assert found == duplicate_ids(paths, named=named)
    assert found["count"] == len(order) - len(set(order))
    assert len(found["ids"]) == min(named, len(shared))
    assert set(found["ids"]) <= shared
    assert found["ids"] == sorted(found["ids"], key=order.index)


def test_names_are_asked_for_only_where_needed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ids, "_BATCH", 3)
    paths = write(tmp_path, [[f"x{n}" for n in range(10)], ["y"], [f"x{n}" for n in range(9, 12)]])
    asked: list[int] = []

    def names(number: int) -> Path:
        asked.append(number)
        return tmp_path / str(number) / NAMES

    assert duplicate_ids(paths, names) == {"count": 1, "ids": ["x9"]}
    assert asked == [0]
    with pa.memory_map(str(names(0))) as source:
        assert pa.ipc.open_file(source).read_all()["id"].to_pylist() == [f"x{n}" for n in range(10)]
