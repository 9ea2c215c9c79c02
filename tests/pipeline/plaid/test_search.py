"""The searcher against PLAID written plainly in NumPy, against exact MaxSim, and against itself in other batches."""

from pathlib import Path

import numpy as np
import pytest
from pydantic import ValidationError

from pipeline.plaid.codec import Codec
from pipeline.plaid.hits import Hits, merge_hits
from pipeline.plaid.search import ShardSearcher, search_shards
from pipeline.plaid.settings import SearchSettings
from pipeline.plaid.shard import write_shard
from pipeline.plaid.train_codec import train_codec
from tests.pipeline.plaid.clusters import clustered, max_sim, unit_vectors

PASSAGES = 400
VECTORS, DOCLENS = clustered(PASSAGES)
ENDS = np.cumsum(DOCLENS)
QUERIES = [unit_vectors(length, seed=100 + length) for length in (32, 1, 7, 40, 16, 31)]
EVERYTHING = SearchSettings(ncells=1, centroid_score_threshold=0.5, ndocs=4, exhaustive=True)
PRUNED = [
    SearchSettings(ncells=1, centroid_score_threshold=0.5, ndocs=64),
    SearchSettings(ncells=2, centroid_score_threshold=0.45, ndocs=256),
    SearchSettings(ncells=4, centroid_score_threshold=0.9, ndocs=40),
]


@pytest.fixture(scope="module", params=[True, False], ids=["renormalised", "not renormalised"])
def codec(request: pytest.FixtureRequest) -> Codec:
    return train_codec(VECTORS.copy(), len(VECTORS), 2, renormalise=request.param)


@pytest.fixture(scope="module")
def searcher(codec: Codec, tmp_path_factory: pytest.TempPathFactory) -> ShardSearcher:
    folder = tmp_path_factory.mktemp("index") / "shard"
    write_shard(folder, [(VECTORS, DOCLENS)], codec, chunk_passages=150)
    return ShardSearcher(folder)


@pytest.fixture(scope="module")
def shards(codec: Codec, tmp_path_factory: pytest.TempPathFactory) -> list[ShardSearcher]:
    root = tmp_path_factory.mktemp("shards")
    found = []
    for start, stop in ((0, 90), (90, 91), (91, 400)):
        piece = VECTORS[ENDS[start] - DOCLENS[start] : ENDS[stop - 1]], DOCLENS[start:stop]
        write_shard(root / str(start), [piece], codec)
        found.append(ShardSearcher(root / str(start), pid_offset=start, codec=codec))
    return found


def same(found: list[Hits], expected: list[Hits]) -> None:
    assert len(found) == len(expected)
    for (pids, scores), (expected_pids, expected_scores) in zip(found, expected, strict=True):
        np.testing.assert_array_equal(pids, expected_pids)
        np.testing.assert_array_equal(scores, expected_scores)


def plaid(codec: Codec, query: np.ndarray, settings: SearchSettings) -> dict[int, float]:
    """The passages that PLAID scores exactly, with their scores: the paper's stages, one after another."""
    codes, residuals = codec.compress(VECTORS)
    scores = codec.centroids @ query.T
    cells = np.argsort(-scores, axis=0)[: settings.ncells]
    spans = [slice(end - length, end) for end, length in zip(ENDS, DOCLENS, strict=True)]
    pids = [pid for pid in range(PASSAGES) if np.isin(codes[spans[pid]], cells).any()]
    strong = scores.max(axis=1) >= settings.centroid_score_threshold

    def approximate(pid: int, mask: np.ndarray) -> float:
        mine = codes[spans[pid]]
        return float(scores[mine[mask[mine]]].max(axis=0, initial=-9999).sum(dtype=np.float32))

    for size, mask in ((settings.ndocs, strong), (settings.ndocs // 4, np.ones_like(strong))):
        pids = sorted(pids, key=lambda pid, mask=mask: (approximate(pid, mask), pid), reverse=True)[:size]
    exact = max_sim(query, codec.decompress(codes, residuals), DOCLENS)
    return {pid: exact[pid] for pid in pids}


@pytest.mark.parametrize("settings", PRUNED)
def test_stages_are_plaids(codec: Codec, searcher: ShardSearcher, settings: SearchSettings) -> None:
    for query, (pids, scores) in zip(QUERIES, searcher.search(QUERIES, 399, settings), strict=True):
        expected = plaid(codec, query, settings)
        assert set(pids.tolist()) == set(expected)
        np.testing.assert_allclose(scores, [expected[pid] for pid in pids], atol=1e-4)
        assert (np.diff(scores) <= 0).all()


def test_exhaustive_is_exact_max_sim(codec: Codec, searcher: ShardSearcher) -> None:
    decompressed = codec.decompress(*codec.compress(VECTORS))
    for query, (pids, scores) in zip(QUERIES, searcher.search(QUERIES, 20, EVERYTHING), strict=True):
        expected = max_sim(query, decompressed, DOCLENS)
        np.testing.assert_allclose(scores, np.sort(expected)[::-1][:20], atol=1e-4)
        np.testing.assert_allclose(expected[pids], scores, atol=1e-4)


def test_k_beyond_the_shard_returns_the_shard(searcher: ShardSearcher) -> None:
    settings = SearchSettings(ncells=1, centroid_score_threshold=0.9, ndocs=4)
    for k in (PASSAGES, PASSAGES + 1, 10**6):
        for pids, _ in searcher.search(QUERIES, k, settings):
            assert sorted(pids.tolist()) == list(range(PASSAGES))
    same(searcher.search(QUERIES, PASSAGES, settings), searcher.search(QUERIES, PASSAGES, EVERYTHING))


@pytest.mark.parametrize("settings", [*PRUNED, EVERYTHING])
def test_a_querys_hits_do_not_depend_on_the_batch(searcher: ShardSearcher, settings: SearchSettings) -> None:
    together = searcher.search(QUERIES, 10, settings)
    same([searcher.search([query], 10, settings)[0] for query in QUERIES], together)
    same(searcher.search(QUERIES[::-1], 10, settings)[::-1], together)


def test_settings_do_not_stick(searcher: ShardSearcher) -> None:
    first = searcher.search(QUERIES, 10)
    assert all(len(pids) > 64 for pids, _ in searcher.search(QUERIES[:1], 200))
    same(searcher.search(QUERIES, 10), first)


def test_more_cells_than_centroids(searcher: ShardSearcher) -> None:
    settings = SearchSettings(ncells=10**6, centroid_score_threshold=-1, ndocs=4 * PASSAGES)
    same(searcher.search(QUERIES, 30, settings), searcher.search(QUERIES, 30, EVERYTHING))


def test_shards_give_what_one_index_gives(searcher: ShardSearcher, shards: list[ShardSearcher]) -> None:
    for k in (1, 10, PASSAGES):
        expected = searcher.search(QUERIES, k, EVERYTHING)
        same(search_shards(shards, QUERIES, k, EVERYTHING), expected)
        same(merge_hits([shard.search(QUERIES, k, EVERYTHING) for shard in shards], k), expected)


def test_pruned_shards_score_more_passages(searcher: ShardSearcher, shards: list[ShardSearcher]) -> None:
    one = searcher.search(QUERIES, 80, PRUNED[0])
    several = search_shards(shards, QUERIES, 80, PRUNED[0])
    same(merge_hits([shard.search(QUERIES, 80, PRUNED[0]) for shard in shards], 80), several)
    for (pids, scores), (more_pids, more_scores) in zip(one, several, strict=True):
        assert len(pids) <= 16
        assert len(pids) <= len(more_pids) <= 33  # a quarter of ndocs for each shard, or the whole shard
        both = dict(zip(more_pids.tolist(), more_scores.tolist(), strict=True))
        assert all(both[pid] == score for pid, score in zip(pids.tolist(), scores.tolist(), strict=True) if pid in both)
    assert sum(len(pids) for pids, _ in several) > sum(len(pids) for pids, _ in one)


def test_equal_scores_rank_by_pid(tmp_path: Path) -> None:
    vectors = np.tile(unit_vectors(6), (9, 1))
    codec = train_codec(vectors.copy(), len(vectors), 2)
    write_shard(tmp_path / "shard", [(vectors, np.full(9, 6, np.int32))], codec)
    for settings in (EVERYTHING, SearchSettings(ncells=1, centroid_score_threshold=0, ndocs=36)):
        pids, scores = ShardSearcher(tmp_path / "shard", pid_offset=2**40).search([vectors[:4]], 5, settings)[0]
        assert pids.tolist() == [2**40 + i for i in range(5)]
        assert len(set(scores.tolist())) == 1


def test_one_passage_of_one_vector(tmp_path: Path) -> None:
    vectors = unit_vectors(1)
    codec = train_codec(vectors, 1, 1)
    write_shard(tmp_path / "shard", [(vectors, np.ones(1, np.int32))], codec)
    pids, scores = ShardSearcher(tmp_path / "shard").search([vectors, -vectors], 10)[0]
    assert pids.tolist() == [0]
    assert scores[0] == pytest.approx(1, abs=1e-3)
    assert ShardSearcher(tmp_path / "shard").search([-vectors], 1)[0][1].tolist() == [0]  # maxima start at 0


def test_merge_by_score_then_pid() -> None:
    left = (np.array([5, 1]), np.array([2.0, 1.0], np.float32))
    right = (np.array([3, 0]), np.array([2.0, 0.5], np.float32))
    empty = (np.empty(0, np.int64), np.empty(0, np.float32))
    pids, scores = merge_hits([[left], [right], [empty]], 3)[0]
    assert pids.tolist() == [3, 5, 1]
    assert scores.tolist() == [2.0, 2.0, 1.0]


def test_no_queries_and_bad_queries(searcher: ShardSearcher) -> None:
    assert searcher.search([], 10) == []
    with pytest.raises(ValueError, match=r"query 1 has shape \(0, 64\)"):
        searcher.search([QUERIES[0], np.empty((0, 64), np.float32)], 10)
    with pytest.raises(ValueError, match="query 0 holds NaN"):
        searcher.search([np.full((2, 64), np.nan)], 10)
    with pytest.raises(ValueError, match="k is 0"):
        searcher.search(QUERIES, 0)


def test_presets_and_limits_of_settings() -> None:
    presets = {k: SearchSettings.default(k) for k in (1, 10, 11, 100, 101, 2000)}
    found = {k: (preset.ncells, preset.centroid_score_threshold, preset.ndocs) for k, preset in presets.items()}
    small, middle = (1, 0.5, 256), (2, 0.45, 1024)
    assert found == {1: small, 10: small, 11: middle, 100: middle, 101: (4, 0.4, 4096), 2000: (4, 0.4, 8000)}
    assert all(preset.ndocs // 4 >= k for k, preset in presets.items())
    for bad in ({"ncells": 0}, {"ndocs": 3}, {"cells": 1}):
        with pytest.raises(ValidationError):
            SearchSettings.model_validate({"ncells": 1, "centroid_score_threshold": 0.5, "ndocs": 4} | bad)
