"""Dense search: exact cosines, whatever the shards, the batch and what proposes candidates."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.dense import search
from pipeline.dense.faiss_index import cells
from pipeline.errors import InputError
from pipeline.plaid.config import DenseConfig
from tests.pipeline.dense.shards import make_shards, ranked, unit_vectors

QUERIES = unit_vectors(6, seed=1)


def test_by_hand(tmp_path: Path) -> None:
    vectors = np.array([[1, 0], [0.6, 0.8], [0, 1], [-1, 0]], np.float32)
    shards = make_shards(tmp_path, [vectors[:1], vectors[1:]])
    (found,) = ranked(shards, np.array([[0.8, 0.6]], np.float32), 3)
    assert [pid for pid, _ in found] == [1, 0, 2]
    assert [score for _, score in found] == pytest.approx([0.96, 0.8, 0.6], abs=5e-4)  # float16 has 11 bits
    assert len(ranked(shards, np.array([[0.8, 0.6]], np.float32), 99)[0]) == 4


@settings(max_examples=30, deadline=None)
@given(data=st.data())
def test_sharded_equals_unsharded_bit_for_bit(data: st.DataObject, tmp_path_factory: pytest.TempPathFactory) -> None:
    count = data.draw(st.integers(1, 60))
    vectors = unit_vectors(count, seed=data.draw(st.integers(0, 99)))
    vectors[data.draw(st.integers(0, count - 1))] = vectors[0]  # ties go to the lower pid
    cuts = sorted(data.draw(st.lists(st.integers(0, count), max_size=4)))
    k = data.draw(st.integers(1, 70))
    home = tmp_path_factory.mktemp("shards")
    whole = ranked(make_shards(home / "one", [vectors]), QUERIES, k)
    assert ranked(make_shards(home / "many", np.split(vectors, cuts)), QUERIES, k) == whole
    assert [len(found) for found in whole] == [min(k, count)] * len(QUERIES)


def test_a_query_alone_and_in_any_batch_and_order_finds_the_same(tmp_path: Path) -> None:
    shards = make_shards(tmp_path, [unit_vectors(200), unit_vectors(100, seed=2)])
    together = ranked(shards, QUERIES)
    assert [ranked(shards, QUERIES[n : n + 1])[0] for n in range(len(QUERIES))] == together
    assert ranked(shards, QUERIES[::-1]) == together[::-1]


def test_blocks_change_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shards = make_shards(tmp_path, [unit_vectors(150)])
    whole = ranked(shards, QUERIES)
    monkeypatch.setattr(search, "BLOCK", 7)
    assert ranked(shards, QUERIES) == whole


def test_scores_are_the_dot_products_best_first(tmp_path: Path) -> None:
    vectors = unit_vectors(300)
    products = QUERIES.astype(np.float64) @ vectors.astype(np.float16).astype(np.float64).T
    for row, found in zip(products, ranked(make_shards(tmp_path, [vectors]), QUERIES, 20), strict=True):
        assert [pid for pid, _ in found] == np.argsort(-row)[:20].tolist()
        assert [score for _, score in found] == pytest.approx(np.sort(row)[::-1][:20], abs=1e-7)


@pytest.mark.parametrize(("kind", "tuned"), [("flat", {}), ("ivf", {"nprobe": 1000}), ("hnsw", {"ef_search": 400})])
def test_faiss_finds_what_exact_search_finds_when_it_looks_everywhere(
    kind: str, tuned: dict[str, int], tmp_path: Path
) -> None:
    parts = [unit_vectors(300), unit_vectors(100, seed=2), np.empty((0, 16), np.float32)]
    exact = ranked(make_shards(tmp_path / "exact", parts), QUERIES)
    shards = make_shards(tmp_path / kind, parts, index=kind)
    assert ranked(shards, QUERIES, **tuned) == exact
    assert [ranked(shards, QUERIES[n : n + 1])[0] for n in range(6)] == ranked(shards, QUERIES)


@pytest.mark.parametrize("kind", ["flat", "ivf", "hnsw"])
def test_the_same_vectors_give_the_same_bytes(kind: str, tmp_path: Path) -> None:
    for home in ("a", "b"):
        make_shards(tmp_path / home, [unit_vectors(500)], index=kind)
    assert (tmp_path / "a/0/faiss.index").read_bytes() == (tmp_path / "b/0/faiss.index").read_bytes()


def test_fewer_probes_find_less_and_only_in_that_call(tmp_path: Path) -> None:
    (shard,) = make_shards(tmp_path, [unit_vectors(2000)], index="ivf", cells=50)
    before = ranked([shard], QUERIES, nprobe=50)
    few = ranked([shard], QUERIES, nprobe=1)
    assert sum(a != b for a, b in zip(few, before, strict=True)) > 0
    assert ranked([shard], QUERIES, nprobe=50) == before


def test_cells_never_outgrow_what_trains_them() -> None:
    assert cells(DenseConfig(), 40_000) == 800
    assert cells(DenseConfig(cells=64), 40_000) == 64
    assert cells(DenseConfig(cells=64), 100) == 2
    assert cells(DenseConfig(), 3) == 1


@pytest.mark.parametrize(("kind", "setting"), [("exact", "nprobe"), ("ivf", "ef_search"), ("hnsw", "ncells")])
def test_a_setting_of_another_kind_is_refused(kind: str, setting: str, tmp_path: Path) -> None:
    shards = make_shards(tmp_path, [unit_vectors(100)], index=kind)
    with pytest.raises(InputError, match=rf"{setting} is no setting of an index with dense.index: {kind} "):
        ranked(shards, QUERIES, **{setting: 3})


def test_k_below_one(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="k is 0"):
        ranked(make_shards(tmp_path, [unit_vectors(3)]), QUERIES, 0)
