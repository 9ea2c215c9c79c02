"""Shard folders: stock layout, the same bytes every time, movable, whole or refused."""

import hashlib
import json
import shutil
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch

from pipeline.errors import InputError
from pipeline.plaid.codec import CODEC_FILES, Codec
from pipeline.plaid.ivf import invert
from pipeline.plaid.read_shard import open_shard, verify_shard
from pipeline.plaid.search import ShardSearcher
from pipeline.plaid.shard import ShardCounts, write_shard
from pipeline.plaid.train_codec import train_codec
from tests.pipeline.plaid.clusters import clustered

VECTORS, DOCLENS = clustered(120)


@pytest.fixture(scope="module")
def codec() -> Codec:
    return train_codec(VECTORS.copy(), len(VECTORS), 2)


def cut(*passages: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """The passages in pieces that end before the given passage numbers."""
    ends = [0, *passages, len(DOCLENS)]
    starts = np.concatenate(([0], np.cumsum(DOCLENS)))
    return [(VECTORS[starts[a] : starts[b]], DOCLENS[a:b]) for a, b in pairwise(ends)]


def digests(folder: Path) -> dict[str, str]:
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.iterdir()}


def test_stock_layout(tmp_path: Path, codec: Codec) -> None:
    counts = write_shard(tmp_path / "shard", cut(), codec, config={"query_maxlen": 48}, chunk_passages=50)
    assert counts == ShardCounts(120, len(VECTORS), 3) == verify_shard(tmp_path / "shard")
    names = {f"{i}.{kind}" for i in range(3) for kind in ("codes.pt", "residuals.pt", "metadata.json")}
    names |= {f"doclens.{i}.json" for i in range(3)} | {"plan.json", "metadata.json", "ivf.pid.pt", *CODEC_FILES}
    assert {path.name for path in (tmp_path / "shard").iterdir()} == names
    assert list(tmp_path.iterdir()) == [tmp_path / "shard"]
    metadata = json.loads((tmp_path / "shard" / "metadata.json").read_text())
    assert metadata["config"] == {"dim": 64, "nbits": 2, "query_maxlen": 48}
    assert metadata["num_embeddings"] == len(VECTORS)
    assert json.loads((tmp_path / "shard" / "2.metadata.json").read_text()) == {
        "passage_offset": 100,
        "num_passages": 20,
        "num_embeddings": int(DOCLENS[100:].sum()),
        "embedding_offset": int(DOCLENS[:100].sum()),
    }
    assert torch.load(tmp_path / "shard" / "centroids.pt").dtype == torch.float16
    assert torch.load(tmp_path / "shard" / "0.codes.pt").dtype == torch.int32


def test_same_bytes_however_the_passages_come(tmp_path: Path, codec: Codec) -> None:
    for name, pieces in {"one": cut(), "few": cut(7, 50, 50, 113), "each": cut(*range(1, 120))}.items():
        write_shard(tmp_path / name, pieces, codec, chunk_passages=50)
    assert digests(tmp_path / "one") == digests(tmp_path / "few") == digests(tmp_path / "each")


def test_codec_files_are_linked(tmp_path: Path, codec: Codec) -> None:
    codec.save(tmp_path / "codec")
    write_shard(tmp_path / "linked", cut(), codec, tmp_path / "codec")
    write_shard(tmp_path / "own", cut(), codec)
    assert (tmp_path / "linked" / "centroids.pt").samefile(tmp_path / "codec" / "centroids.pt")
    assert digests(tmp_path / "linked") == digests(tmp_path / "own")


def test_ivf_lists_distinct_passages(codec: Codec) -> None:
    codes, _ = codec.compress(VECTORS)
    pids, lengths = invert(codes, DOCLENS, codec.num_centroids + 3)
    owner = np.repeat(np.arange(len(DOCLENS)), DOCLENS)
    expected = [np.unique(owner[codes == code]) for code in range(codec.num_centroids + 3)]
    assert lengths.tolist() == [len(found) for found in expected]
    np.testing.assert_array_equal(pids[: lengths.sum()], np.concatenate(expected))
    assert len(pids) >= (lengths.sum() - lengths[-1]) + lengths.max()


def test_a_shard_is_whole_or_absent(tmp_path: Path, codec: Codec) -> None:
    wrong = [*cut(60)[:1], (VECTORS[:5], np.array([4], np.int32))]
    with pytest.raises(ValueError, match="5 vectors do not match passages of 4"):
        write_shard(tmp_path / "shard", wrong, codec)
    assert list(tmp_path.iterdir()) == []
    write_shard(tmp_path / "shard", cut(), codec)
    with pytest.raises(FileExistsError, match="never written over"):
        write_shard(tmp_path / "shard", cut(), codec)
    (tmp_path / "prepared").mkdir()
    write_shard(tmp_path / "prepared", cut(), codec)
    assert digests(tmp_path / "prepared") == digests(tmp_path / "shard")


def test_an_index_can_move(tmp_path: Path, codec: Codec) -> None:
    write_shard(tmp_path / "here" / "shard", cut(), codec)
    for path in (tmp_path / "here" / "shard").iterdir():
        assert str(tmp_path).encode() not in path.read_bytes()
    before = ShardSearcher(tmp_path / "here" / "shard").search([VECTORS[:8]], 5)[0]
    (tmp_path / "here").rename(tmp_path / "there")
    after = ShardSearcher(tmp_path / "there" / "shard").search([VECTORS[:8]], 5)[0]
    np.testing.assert_array_equal(before, after)


@pytest.mark.parametrize("name", ["0.codes.pt", "0.residuals.pt", "ivf.pid.pt", "centroids.pt", "metadata.json"])
@pytest.mark.parametrize("share", [None, 0.0, 0.5, 0.99])
def test_damage_is_named(tmp_path: Path, codec: Codec, name: str, share: float | None) -> None:
    write_shard(tmp_path / "shard", cut(), codec)
    path = tmp_path / "shard" / name
    whole = path.read_bytes()
    path.unlink()
    if share is not None:
        path.write_bytes(whole[: int(share * len(whole))])
    for check in (verify_shard, ShardSearcher):
        with pytest.raises(InputError) as caught:
            check(tmp_path / "shard")
        assert str(path) in str(caught.value)
        assert share is None or f"{path.stat().st_size} bytes" in str(caught.value)


def test_files_of_different_shards_do_not_fit(tmp_path: Path, codec: Codec) -> None:
    write_shard(tmp_path / "shard", cut(), codec)
    write_shard(tmp_path / "other", cut(60)[:1], codec)
    shutil.copyfile(tmp_path / "other" / "0.codes.pt", tmp_path / "shard" / "0.codes.pt")
    with pytest.raises(InputError, match=rf"0\.codes\.pt: \d+ bytes; expected {len(VECTORS)} vectors"):
        verify_shard(tmp_path / "shard")


def test_a_shard_without_passages(tmp_path: Path, codec: Codec) -> None:
    assert write_shard(tmp_path / "shard", [], codec) == ShardCounts(0, 0, 1) == verify_shard(tmp_path / "shard")
    assert open_shard(tmp_path / "shard").num_passages == 0
    pids, scores = ShardSearcher(tmp_path / "shard").search([VECTORS[:8]], 5)[0]
    assert pids.shape == scores.shape == (0,)
