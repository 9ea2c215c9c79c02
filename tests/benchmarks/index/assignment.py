"""Coarse against exact assignment of token vectors to 65,536 centroids: how often they agree, and how fast each is."""

from collections.abc import Iterator

import numpy as np

from pipeline.plaid.assign import PROBES, Assigner, make_cells
from pipeline.plaid.kmeans import kmeans
from tests.benchmarks.compare import compare
from tests.benchmarks.figures import Figure
from tests.benchmarks.index.bench import Bench

CENTROIDS = 65_536
VECTORS = 140_000
COMPARED = 16_384


def assignment(bench: Bench) -> Iterator[Figure]:
    vectors, _ = bench.encoder.encode_documents(bench.texts("vaswani")[: VECTORS // 50])
    vectors = vectors[np.random.default_rng(0).permutation(len(vectors))]
    held_out = min(COMPARED, len(vectors) // 4)
    compared, training = vectors[:held_out], vectors[held_out:]
    partitions = min(CENTROIDS, len(training) // 2)
    centroids = kmeans(training, partitions, 1, np.random.default_rng(0))
    centroids /= np.maximum(np.linalg.norm(centroids, axis=1, keepdims=True), 1e-12)
    cells = make_cells(centroids, 0)
    exact, coarse = Assigner(centroids, None), Assigner(centroids, cells)
    agree = float((exact(compared) == coarse(compared)).mean())
    note = f"{partitions:,} centroids, {cells.max() + 1} cells, {PROBES} probed, {len(compared):,} vectors"
    yield Figure("coarse assignment: same centroid as exact", agree, ("at least", 0.99), note)
    times = compare("", "", lambda: coarse(compared), lambda: exact(compared), bench.runs)
    note = f"{times.ours_s:.2f} s against {times.peer_s:.2f} s"
    yield Figure("coarse assignment: times faster than exact", times.ratio, ("at least", 1), note, bench.runs)
