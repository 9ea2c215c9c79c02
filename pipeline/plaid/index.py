"""Opening a finished index: the check that it fits a checkpoint, and searching it in this process."""

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from pipeline.env import BY_PLAID, Embedder, Method, SearchRequest
from pipeline.errors import InputError
from pipeline.lexical.terms import RULES
from pipeline.plaid.hits import Hits
from pipeline.plaid.manifest import Manifest, read_manifest
from pipeline.plaid.passages import open_passages
from pipeline.plaid.plan import Checkpoint, check_embedder
from pipeline.plaid.settings import SearchSettings
from pipeline.profile import DENSE_RETRIEVER, ModelSpec
from pipeline.storage import Home


class QueryEncoder(Protocol):
    def encode_queries(self, texts: Sequence[str]) -> list[np.ndarray]:
        """Per query float32 [its vectors, dim]."""
        ...


def check_index(
    place: str | Path | Home,
    spec: ModelSpec | None,
    methods: Collection[Method] = BY_PLAID,
    dense: ModelSpec | None = None,
) -> Manifest:
    """The manifest of a finished index that can be searched by these methods, by plaid with `spec` as retriever, by
    dense vectors with `dense`.

    Raises InputError as `read_manifest` does, where the index was built with another checkpoint (plaid) or embedder
    (dense), and where it has no BM25 that this version can search, or no dense vectors, and is asked for them.
    """
    manifest = read_manifest(place)
    if "bm25" in methods:
        _check_lexical(manifest)
    if "dense" in methods:
        if dense is None:
            raise ValueError("a search by dense needs an embedder")
        check_embedder(_dense(manifest)["model"], dense, DENSE_RETRIEVER, manifest.home)
    if "plaid" in methods:
        if spec is None:
            raise ValueError("a search by plaid needs a retriever")
        Checkpoint(**manifest.checkpoint).check(spec, manifest.home)
    return manifest


def _check_lexical(manifest: Manifest) -> None:
    if manifest.lexical is None:
        raise InputError(
            f"{manifest.home} has no BM25 (it was built with lexical.bm25=false, or before BM25 was there); search it "
            "with method: plaid, or build an index in another --out with --set lexical.bm25=true"
        )
    if manifest.lexical["rules"] != RULES:
        raise InputError(
            f"{manifest.home}: its BM25 was built by rules {manifest.lexical['rules']} for cutting text into terms, "
            f"this version has rules {RULES}; build the index anew in another --out"
        )


def _dense(manifest: Manifest) -> dict[str, Any]:
    if manifest.dense is None:
        raise InputError(
            f"{manifest.home} has no dense vectors; search it with method: plaid or bm25, or build an index in another "
            "--out with --set dense.role=dense_retriever"
        )
    return manifest.dense


class IndexShards:
    """Some shards of an index, searched together. Global pid = the shard's pid_offset + number in the shard.

    Only what `methods` need is opened; a search by another method is a ValueError.
    """

    def __init__(self, manifest: Manifest, names: Sequence[str], methods: Collection[Method] = BY_PLAID) -> None:
        home = manifest.home
        shards = [shard for shard in manifest.shards if shard["shard"] in set(names)]
        self._offsets = np.array([shard["pid_offset"] for shard in shards])
        self._stores = [open_passages(home, shard["shard"]) for shard in shards]
        self._searchers, self._lexical, self._dense = list[Any](), list[Any](), list[Any]()
        if "plaid" in methods:
            from pipeline.plaid.codec import Codec
            from pipeline.plaid.search import ShardSearcher

            codec = Codec.load(home.folder("codec"))
            for shard in shards:
                folder = home.folder(f"shards/{shard['shard']}")
                self._searchers.append(ShardSearcher(folder, shard["pid_offset"], codec))
        if "bm25" in methods:
            from pipeline.lexical.search import BM25Shard

            _check_lexical(manifest)
            key = (manifest.lexical or {})["collection"]
            for shard in shards:
                postings, weights = f"lexical/{shard['shard']}", f"weights/{key}/{shard['shard']}"
                self._lexical.append(BM25Shard(home.folder(postings), home.folder(weights), shard["pid_offset"]))
        if "dense" in methods:
            from pipeline.dense.search import DenseShard

            kind = _dense(manifest)["index"]
            for shard in shards:
                folder = home.folder(f"vectors/{shard['shard']}")
                self._dense.append(DenseShard(folder, kind, shard["pid_offset"]))

    def search(self, vectors: Sequence[np.ndarray], k: int, settings: dict[str, Any]) -> list[Hits]:
        """Per query (its vectors) the best k passages of these shards, by plaid."""
        from pipeline.plaid.search import search_shards

        resolved = SearchSettings(**{**SearchSettings.default(k).model_dump(), **settings})
        return search_shards(self._searchers, vectors, k, resolved)

    def bm25(self, queries: Sequence[np.ndarray], k: int) -> list[Hits]:
        """Per query (`lexical.search.query_keys`) at most k passages of these shards, by BM25."""
        from pipeline.lexical.search import search_lexical

        if not self._lexical:
            raise ValueError("these shards were not opened for bm25")
        return search_lexical(self._lexical, queries, k)

    def dense(self, queries: np.ndarray, k: int, settings: dict[str, Any]) -> list[Hits]:
        """Per query (unit vectors float32 [Q, dim]) the best k passages of these shards, by cosine."""
        from pipeline.dense.search import search_dense

        if not self._dense:
            raise ValueError("these shards were not opened for dense")
        return search_dense(self._dense, queries, k, settings)

    def holds(self, pid: int) -> bool:
        shard = int(np.searchsorted(self._offsets, pid, side="right")) - 1
        return shard >= 0 and pid - self._offsets[shard] < len(self._stores[shard])

    def passages(self, pids: Sequence[int]) -> dict[int, dict[str, Any]]:
        """Of these pids those the shards hold: pid -> {pid, doc_id, url, text, start}."""
        found = {}
        for pid in pids:
            if self.holds(pid):
                shard = int(np.searchsorted(self._offsets, pid, side="right")) - 1
                row = self._stores[shard].rows([int(pid - self._offsets[shard])])[0]
                found[pid] = {"pid": pid, **{name: row[name] for name in ("doc_id", "url", "text", "start")}}
        return found


def hits(ranking: Hits, passages: dict[int, dict[str, Any]]) -> list[dict[str, Any]]:
    """A ranking with its passages' fields, `score` and `rank` (0 is best)."""
    return [
        {**passages[int(pid)], "score": float(score), "rank": rank}
        for rank, (pid, score) in enumerate(zip(*ranking, strict=True))
    ]


class LocalSearcher:
    """An index searched in this process: queries encoded once, all shards asked, text fetched for the merged top k.

    `encoder` may be None where `methods` do not have plaid, `embedder` where they do not have dense.
    """

    def __init__(
        self,
        place: str | Path | Home,
        encoder: QueryEncoder | None,
        methods: Collection[Method] = BY_PLAID,
        embedder: Embedder | None = None,
    ) -> None:
        self._encoder, self._embedder = encoder, embedder
        manifest = read_manifest(place)
        self._shards = IndexShards(manifest, manifest.shard_names(), methods)

    def search(self, request: SearchRequest) -> list[list[dict[str, Any]]]:
        queries = list(request.queries)
        if request.method == "bm25":
            from pipeline.lexical.search import query_keys

            rankings = self._shards.bm25([query_keys(query) for query in queries], request.k)
        elif request.method == "dense":
            if self._embedder is None:
                raise ValueError("this index was not opened for dense")
            rankings = self._shards.dense(self._embedder.embed(queries), request.k, request.settings)
        elif self._encoder is None:
            raise ValueError("this index was not opened for plaid")
        else:
            rankings = self._shards.search(self._encoder.encode_queries(queries), request.k, request.settings)
        return [hits(ranking, self._shards.passages([int(pid) for pid in ranking[0]])) for ranking in rankings]
