"""What two bits a dimension lose: exhaustive search over an index against exact MaxSim over the raw vectors."""

import shutil
from collections.abc import Iterator

import numpy as np

from pipeline.env import SearchRequest
from pipeline.plaid.index import LocalSearcher
from pipeline.plaid.manifest import read_manifest
from pipeline.plaid.passages import open_passages
from pipeline.scoring.retrieval import retrieval_scores
from pipeline.storage import Home, open_home
from tests.benchmarks.figures import Figure
from tests.benchmarks.index.bench import Bench
from tests.pipeline.plaid.small_index import build_index

GOALS = {"vaswani": 0.82, "xquad-en": 0.85}


def fidelity(bench: Bench) -> Iterator[Figure]:
    for name, goal in GOALS.items():
        home = bench.index if name == "vaswani" else _build(bench, name)
        questions = bench.questions(name)
        queries = [question["question"] for question in questions]
        found = LocalSearcher(home, bench.encoder).search(SearchRequest(queries, 10, {"exhaustive": True}))
        ours = [[hit["pid"] for hit in hits] for hits in found]
        exact = exact_rankings(bench.encoder.encode_queries(queries), *bench.raw_vectors(home))
        overlaps = [len(set(a) & set(b)) / max(1, len(b)) for a, b in zip(ours, exact, strict=True)]
        note = f"{read_manifest(home).passages:,} passages, {len(queries):,} questions"
        yield Figure(f"{name}: overlap@10 with exact MaxSim", float(np.mean(overlaps)), ("at least", goal), note)
        names = _documents(home)
        gold = {question["id"]: question["doc_ids"] for question in questions}
        for what, rankings in (("index", ours), ("exact", exact)):
            ranked = {q["id"]: [names[pid] for pid in pids] for q, pids in zip(questions, rankings, strict=True)}
            scores = retrieval_scores(ranked, gold, ("nDCG@10", "R@1"))
            for metric in ("nDCG@10", "R@1"):
                mean = float(np.mean([row[metric] for row in scores.values()]))
                yield Figure(f"{name}: {metric}, {what}", mean)


def exact_rankings(queries: list[np.ndarray], vectors: np.ndarray, doclens: np.ndarray) -> list[list[int]]:
    """The ten passages of largest MaxSim for each query float32 [len, dim], over vectors float32 [E, dim]."""
    starts = np.cumsum(doclens, dtype=np.int64) - doclens
    rankings = []
    for query in queries:
        best = np.maximum.reduceat(vectors @ query.T, starts, axis=0)
        scores = np.maximum(best, 0).sum(axis=1)  # a token's maximum starts at 0, as in the index
        rankings.append(np.argsort(-scores, kind="stable")[:10].tolist())
    return rankings


def _build(bench: Bench, name: str) -> Home:
    out = bench.work / f"{name}-{bench.documents or 'all'}"
    shutil.rmtree(out, ignore_errors=True)
    build_index(bench.plan(bench.corpus(name)), out, bench.encoder)
    return open_home(out)


def _documents(home: Home) -> list[str]:
    names: list[str] = []
    for shard in read_manifest(home).shards:
        store = open_passages(home, shard["shard"])
        names += [row["doc_id"] for row in store.rows(range(len(store)))]
    return names
