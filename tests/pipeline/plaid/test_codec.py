"""The codec: sizes of collections, bit packing as colbert-ai's, and results that do not depend on batches."""

import json
from pathlib import Path

import numpy as np
import pytest

from pipeline.errors import InputError
from pipeline.plaid.codec import Codec, allowed_nbits, check_nbits
from pipeline.plaid.train_codec import lloyd_max, num_partitions, quantile, train_codec
from tests.pipeline.plaid import colbert_ai
from tests.pipeline.plaid.clusters import unit_vectors


@pytest.mark.parametrize(("dim", "allowed"), [(128, [1, 2, 4, 8]), (96, [1, 2, 4]), (48, [1, 2]), (20, [])])
def test_allowed_nbits(dim: int, allowed: list[int]) -> None:
    assert allowed_nbits(dim) == allowed


def test_bad_nbits_get_a_sentence_with_the_values_that_work() -> None:
    check_nbits(96, 4)
    with pytest.raises(InputError, match=r"nbits is 3, .* dimension 128; set 'nbits' to one of 1, 2, 4, 8\."):
        check_nbits(128, 3)
    with pytest.raises(InputError, match="one of 1, 2, 4"):
        train_codec(unit_vectors(10, 96), 10, nbits=8)
    with pytest.raises(InputError, match="multiple of 8"):
        check_nbits(20, 1)


@pytest.mark.parametrize("size", [1, 2, 12, 256, 268, 4100])
@pytest.mark.parametrize("nbits", [1, 2, 4])
def test_any_size_of_sample_gives_a_codec(size: int, nbits: int) -> None:
    sample = unit_vectors(size)
    codec = train_codec(sample.copy(), size, nbits)
    assert codec.num_centroids == num_partitions(size, size if size <= 4000 else size - size // 20)
    assert codec.num_centroids <= size
    assert (np.diff(codec.bucket_cutoffs) >= 0).all()
    decompressed = codec.decompress(*codec.compress(sample))
    np.testing.assert_allclose(np.linalg.norm(decompressed, axis=1), 1, atol=1e-5)
    assert (decompressed * sample).sum(axis=1).mean() > {1: 0.75, 2: 0.9, 4: 0.98}[nbits]


def test_copies_of_one_vector() -> None:
    sample = np.repeat(unit_vectors(1), 300, axis=0)
    codec = train_codec(sample, 300, 2)
    codes, residuals = codec.compress(sample)
    assert len(set(codes.tolist())) == 1
    np.testing.assert_allclose(codec.decompress(codes, residuals), sample, atol=2e-3)


def test_number_of_partitions() -> None:
    assert num_partitions(582_292, 582_292) == 8192  # 16 sqrt(582,292) = 12,209
    assert num_partitions(10**10, 240_000_000) == 2**20
    assert num_partitions(10**10, 240_000_000, max_partitions=300_000) == 2**18
    assert num_partitions(1, 1) == 1


def test_training_is_repeatable_and_seeded() -> None:
    sample = unit_vectors(6000)
    first, again, other = (train_codec(sample.copy(), 6000, 2, seed=seed) for seed in (0, 0, 1))
    np.testing.assert_array_equal(first.centroids, again.centroids)
    np.testing.assert_array_equal(first.bucket_weights, again.bucket_weights)
    assert not np.array_equal(first.centroids, other.centroids)


def test_training_reorders_the_sample_and_loses_nothing() -> None:
    sample = unit_vectors(5000)
    before = np.sort(sample, axis=0)
    train_codec(sample, 5000, 1)
    np.testing.assert_array_equal(np.sort(sample, axis=0), before)


def test_lloyd_max_is_closer_than_quantiles() -> None:
    residuals = np.random.default_rng(0).laplace(size=100_000)

    def error(recipe: tuple[np.ndarray, np.ndarray]) -> float:
        cutoffs, weights = recipe
        return float(((weights[np.searchsorted(cutoffs, residuals)] - residuals) ** 2).mean())

    assert error(lloyd_max(residuals, 2)) < 0.8 * error(quantile(residuals, 2))
    # Max 1960, table I: the best two-bit buckets of a normal variable.
    cutoffs, weights = lloyd_max(np.random.default_rng(0).normal(size=1_000_000), 2, rounds=200)
    np.testing.assert_allclose(cutoffs, [-0.9816, 0, 0.9816], atol=0.02)
    np.testing.assert_allclose(weights, [-1.510, -0.4528, 0.4528, 1.510], atol=0.02)


def test_quantiles_of_more_values_than_torch_can_take() -> None:
    values = np.random.default_rng(0).random(17_000_000, dtype=np.float32)
    cutoffs, weights = quantile(values, 1)
    np.testing.assert_allclose(np.concatenate([cutoffs, weights]), [0.5, 0.25, 0.75], atol=1e-3)


def test_codes_do_not_depend_on_the_batch() -> None:
    vectors = unit_vectors(1000)
    # Every centroid twice, and once more with a difference that a sum in another order can hide.
    centroids = np.concatenate([vectors[:50], vectors[:50], vectors[:50]])
    codec = Codec(centroids, np.zeros(1), np.array([-0.1, 0.1]), 0.1)
    together, packed = codec.compress(vectors)
    assert together.max() < 50
    for size in (1, 7, 64, 999):
        parts = [codec.compress(vectors[at : at + size]) for at in range(0, 1000, size)]
        np.testing.assert_array_equal(np.concatenate([codes for codes, _ in parts]), together)
        np.testing.assert_array_equal(np.concatenate([residuals for _, residuals in parts]), packed)


def test_vectors_that_do_not_fit_are_refused() -> None:
    codec = train_codec(unit_vectors(100), 100, 2)
    with pytest.raises(ValueError, match="dimension 64"):
        codec.compress(unit_vectors(3, 128))
    with pytest.raises(ValueError, match="NaN"):
        codec.compress(np.full((3, 64), np.nan, np.float32))
    codes, residuals = codec.compress(np.empty((0, 64), np.float32))
    assert codes.shape == (0,)
    assert residuals.shape == (0, 16)


@pytest.mark.parametrize("renormalise", [True, False])
def test_saved_codec_is_the_same_codec(tmp_path: Path, renormalise: bool) -> None:
    codec = train_codec(unit_vectors(500), 500, 2, renormalise=renormalise)
    codec.save(tmp_path)
    loaded = Codec.load(tmp_path)
    for name in ("centroids", "bucket_cutoffs", "bucket_weights"):
        np.testing.assert_array_equal(getattr(loaded, name), getattr(codec, name))
    assert loaded.renormalise is renormalise
    assert loaded.avg_residual == pytest.approx(codec.avg_residual)
    (tmp_path / "centroids.pt").write_bytes(b"")
    with pytest.raises(InputError, match=r"centroids\.pt: 0 bytes"):
        Codec.load(tmp_path)


def test_same_bytes_as_colbert_ai(tmp_path: Path) -> None:
    vectors = unit_vectors(3000)
    codecs = {nbits: train_codec(vectors.copy(), 3000, nbits) for nbits in (1, 2, 4, 8)}
    for nbits, codec in codecs.items():
        codec.save(tmp_path / str(nbits))
        config = {"config": {"dim": 64, "nbits": nbits}}
        (tmp_path / str(nbits) / "metadata.json").write_text(json.dumps(config))
    theirs = colbert_ai.run([tmp_path / str(nbits) for nbits in codecs], tmp_path, {"vectors": vectors})
    for nbits, codec in codecs.items():
        codes, residuals = codec.compress(vectors)
        same = theirs[f"{nbits}.codes"] == codes
        assert same.mean() > 0.999  # near ties may fall either way there
        np.testing.assert_array_equal(residuals[same], theirs[f"{nbits}.residuals"][same])
        decompressed = codec.decompress(codes, residuals)
        np.testing.assert_allclose(decompressed[same], theirs[f"{nbits}.decompressed"][same], atol=1e-6)
