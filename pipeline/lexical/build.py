"""BM25's steps of an index build, resumable and of the same bytes like the others (pipeline/plaid/build.py):

    lexical (per shard): postings -> statistics (once, over the collection) -> weights (per shard)

Only the last two depend on which shards the collection has, and on k1 and b: the text is read once. A collection that
grows or shrinks gets statistics and weights of its own, committed under its `collection_key`.
"""

from collections.abc import Sequence
from hashlib import sha256
from typing import Any

import numpy as np

from pipeline.lexical.postings import Postings
from pipeline.lexical.statistics import Statistics, weights
from pipeline.lexical.terms import RULES
from pipeline.plaid.config import LexicalConfig
from pipeline.plaid.meter import Meter
from pipeline.plaid.passages import open_passages
from pipeline.plaid.plan import Plan
from pipeline.storage import Home


def collection_key(shards: Sequence[str]) -> str:
    """Names a set of shards."""
    return sha256(",".join(sorted(shards)).encode()).hexdigest()[:12]


def postings_step(plan: Plan, shard: str, home: Home, meter: Meter | None = None) -> dict[str, Any]:
    """Counts the terms of a shard's passages; returns its commit."""
    name, meter = f"lexical/{shard}", meter or Meter()
    if (held := home.committed(name)) is not None:
        return held
    store = open_passages(home, shard)
    with meter("count terms"):
        postings = Postings.of(text for number in range(store.pieces) for text in store.piece(number))
    meter.count(passages=len(postings.lengths))
    with home.attempt() as folder:
        postings.save(folder)
        record: dict[str, Any] = {"passages": len(postings.lengths), "terms": len(postings.terms)}
        record |= {"pairs": len(postings.indices), "passages_folder": home.need(f"passages/{shard}")["folder"]}
        with meter("commit"):
            return home.commit(name, folder, record)


def statistics_step(shards: Sequence[str], home: Home) -> dict[str, Any]:
    """Merges the shards' counts; returns the commit, which holds the collection's passages and tokens."""
    name = f"statistics/{collection_key(shards)}"
    if (held := home.committed(name)) is not None:
        return held
    merged = Statistics.of([home.folder(f"lexical/{shard}") for shard in shards])
    with home.attempt() as folder:
        merged.save(folder)
        record = {"passages": merged.passages, "tokens": merged.tokens, "terms": len(merged.terms)}
        return home.commit(name, folder, record)


def weights_step(config: LexicalConfig, key: str, shard: str, home: Home, meter: Meter | None = None) -> dict[str, Any]:
    """Computes what each posting of a shard adds to a score in the collection `key`; returns the commit."""
    name, meter = f"weights/{key}/{shard}", meter or Meter()
    if (held := home.committed(name)) is not None:
        return held
    with meter("read"):
        postings = Postings.open(home.folder(f"lexical/{shard}"))
        merged = home.need(f"statistics/{key}")
        statistics = Statistics.open(home.fetch(merged), merged["passages"], merged["tokens"])
    with home.attempt() as folder:
        with meter("weigh"):
            np.save(folder / "weights.npy", weights(postings, statistics, config.k1, config.b))
        meter.count(passages=len(postings.lengths))
        with meter("commit"):
            return home.commit(name, folder, {"pairs": len(postings.indices)})


def index_entry(shards: Sequence[str], config: LexicalConfig, home: Home) -> dict[str, Any]:
    """The collection's part of the manifest; `collection` is the key of its statistics and weights."""
    key = collection_key(shards)
    record = home.need(f"statistics/{key}")
    counts = {name: record[name] for name in ("passages", "tokens", "terms")}
    return {"k1": config.k1, "b": config.b, "rules": RULES, "collection": key, **counts}
