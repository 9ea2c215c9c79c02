"""Sentence vectors: unit length, order kept, independent of batch mates."""

import numpy as np
import pytest

from pipeline.models.embedded import prepare
from pipeline.models.embedder import SentenceEmbedder

TEXTS = [
    "Paris is the capital of France.",
    "A loom turns two sets of threads into cloth. " * 20,
    "What is France's capital city?",
    "a",
    "",
]


@pytest.fixture(scope="module")
def embedder() -> SentenceEmbedder:
    return SentenceEmbedder(prepare("minilm"), dtype="float32", batch_size=4)


def test_vectors(embedder: SentenceEmbedder) -> None:
    vectors = embedder.embed(TEXTS)
    assert vectors.shape == (5, embedder.dim) == (5, 384)
    assert vectors.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)
    assert vectors[0] @ vectors[2] > 0.8 > 0.3 > vectors[0] @ vectors[1]
    assert embedder.embed([]).shape == (0, 384)


def test_batch_mates_do_not_matter(embedder: SentenceEmbedder) -> None:
    together = embedder.embed(TEXTS)
    for text, vector in zip(TEXTS, together, strict=True):
        np.testing.assert_allclose(embedder.embed([text])[0], vector, atol=1e-5)
