"""BM25's steps of an index build, resumable and of the same bytes like the others (pipeline/plaid/build.py):

    lexical (per shard): postings -> statistics (once, over all shards) -> weights (per shard)

Only the last depends on the whole collection and on k1 and b: the text is read once.
"""

from pathlib import Path
from typing import Any

import numpy as np

from pipeline import storage
from pipeline.errors import UnfinishedError
from pipeline.lexical.postings import Postings
from pipeline.lexical.statistics import Statistics, weights
from pipeline.lexical.terms import RULES
from pipeline.plaid.config import LexicalConfig
from pipeline.plaid.passages import open_passages
from pipeline.plaid.plan import Plan

STATISTICS = "lexical/statistics"


def postings_step(plan: Plan, shard: str, out: Path) -> dict[str, Any]:
    """Counts the terms of a shard's passages; returns its commit."""
    name = f"lexical/{shard}"
    if (held := storage.committed(out, name)) is not None:
        return held
    store = open_passages(out, shard)
    postings = Postings.of(text for number in range(store.pieces) for text in store.piece(number))
    with storage.attempt(out) as folder:
        postings.save(folder)
        record = {"passages": len(postings.lengths), "terms": len(postings.terms), "pairs": len(postings.indices)}
        return storage.commit(out, name, folder, record)


def statistics_step(plan: Plan, out: Path) -> dict[str, Any]:
    """Merges the shards' counts; returns the commit, which holds the collection's passages and tokens."""
    if (held := storage.committed(out, STATISTICS)) is not None:
        return held
    merged = Statistics.of([out / _record(out, f"lexical/{shard.shard}")["folder"] for shard in plan.shards])
    with storage.attempt(out) as folder:
        merged.save(folder)
        record = {"passages": merged.passages, "tokens": merged.tokens, "terms": len(merged.terms)}
        return storage.commit(out, STATISTICS, folder, record)


def weights_step(plan: Plan, shard: str, out: Path) -> dict[str, Any]:
    """Computes what each posting of a shard adds to a score; returns the shard's commit."""
    name = f"weights/{shard}"
    if (held := storage.committed(out, name)) is not None:
        return held
    postings = Postings.open(out / _record(out, f"lexical/{shard}")["folder"])
    merged = _record(out, STATISTICS)
    statistics = Statistics.open(out / merged["folder"], merged["passages"], merged["tokens"])
    with storage.attempt(out) as folder:
        np.save(folder / "weights.npy", weights(postings, statistics, plan.config.lexical.k1, plan.config.lexical.b))
        return storage.commit(out, name, folder, {"pairs": len(postings.indices)})


def missing_parts(out: Path, shard: str) -> list[str]:
    """What a shard's BM25 lacks or has damaged, for the report of a build that cannot be published."""
    records = {name: storage.committed(out, f"{name}/{shard}") for name in ("lexical", "weights")}
    absent = [f"its step {name} is not done" for name, record in records.items() if record is None]
    return absent + [problem for record in records.values() if record for problem in storage.damage(out, record)]


def shard_entry(out: Path, shard: str) -> dict[str, Any]:
    """A shard's part of the manifest: {postings, weights} are folders; and their bytes."""
    postings, weighted = _record(out, f"lexical/{shard}"), _record(out, f"weights/{shard}")
    size = sum(file["bytes"] for record in (postings, weighted) for file in record["files"].values())
    return {"postings": postings["folder"], "weights": weighted["folder"], "bytes": size}


def index_entry(out: Path, config: LexicalConfig) -> dict[str, Any]:
    """The collection's part of the manifest."""
    record = _record(out, STATISTICS)
    counts = {name: record[name] for name in ("passages", "tokens", "terms")}
    return {"k1": config.k1, "b": config.b, "rules": RULES, "statistics": record["folder"], **counts}


def _record(out: Path, name: str) -> dict[str, Any]:
    record = storage.committed(out, name)
    if record is None:
        raise UnfinishedError(f"{out}: its step {name} is not done. Run the command again to continue")
    return record
