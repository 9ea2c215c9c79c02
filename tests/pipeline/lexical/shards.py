"""BM25 over texts, cut into shards as one likes, without an index build."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from pipeline.lexical.postings import Postings
from pipeline.lexical.search import BM25Shard, query_keys, search_lexical
from pipeline.lexical.statistics import Statistics, weights


def make_shards(home: Path, parts: Sequence[Sequence[str]], k1: float = 1.2, b: float = 0.75) -> list[BM25Shard]:
    folders = [home / str(number) for number in range(len(parts))]
    for folder, texts in zip(folders, parts, strict=True):
        folder.mkdir(parents=True)
        Postings.of(texts).save(folder)
    statistics = Statistics.of(folders)
    shards, offset = [], 0
    for folder, texts in zip(folders, parts, strict=True):
        np.save(folder / "weights.npy", weights(Postings.open(folder), statistics, k1, b))
        shards.append(BM25Shard(folder, folder, offset))
        offset += len(texts)
    return shards


def ranked(shards: Sequence[BM25Shard], queries: Sequence[str], k: int = 10) -> list[list[tuple[int, float]]]:
    found = search_lexical(shards, [query_keys(query) for query in queries], k)
    return [[(int(pid), float(score)) for pid, score in zip(*hits, strict=True)] for hits in found]
