"""fuse: the passages of a dense and a BM25 search, scored together and gathered into documents."""

from typing import Any, ClassVar

import pyarrow as pa
from pydantic import Field, PrivateAttr, model_validator

from pipeline.env import Embedder, Env
from pipeline.fusion import Aggregation, Scale, aggregated, rescaled
from pipeline.hosts import HostScores
from pipeline.schema import FUSED, PASSAGE
from pipeline.stage import Stage

Chunk = dict[str, Any]


class Fuse(Stage):
    """The best `documents`, by max over a document's chunks of (cosine + bm25_boost BM25) + host_boost host score
    (arXiv 2412.03736, eq. 1), each with its best `chunks` as passages.

    A chunk that one search did not find: its BM25 is 0; its cosine is computed by `embedder`, or is 0 where that is
    null. mean_top_k: over the document's top_k best chunks, or all where it has fewer. Of equals the lower pid first.
    """

    name: ClassVar[str] = "fuse"
    dense: str | None = Field(None, description="column of a search by method dense: its scores are cosines")
    lexical: str | None = Field(None, description="column of a search by method bm25")
    into: str
    documents: int = Field(3, gt=0)
    chunks: int = Field(1, gt=0, description="passages kept of each document, its best")
    bm25_boost: float = Field(0.3, ge=0)
    host_boost: float = Field(0.1, ge=0)
    bm25: Scale = Field("max", description="divided by the question's best; to 0..1; as is")
    aggregation: Aggregation = Field("max", description="chunks -> document")
    top_k: int = Field(3, gt=0, description="of mean_top_k")
    embedder: str | None = Field(None, description="role of the model that computes cosines the dense search lacks")
    host: HostScores = HostScores()
    _embedder: Embedder = PrivateAttr()

    @model_validator(mode="after")
    def _has_a_source(self) -> "Fuse":
        if self.dense is None and self.lexical is None:
            raise ValueError("one of dense and lexical is needed")
        return self

    def reads(self) -> dict[str, pa.DataType]:
        columns = [column for column in (self.dense, self.lexical) if column]
        return {"question": pa.string(), **dict.fromkeys(columns, pa.list_(PASSAGE))}

    def writes(self) -> dict[str, pa.DataType]:
        return {self.into: pa.list_(FUSED)}

    def models(self) -> dict[str, str]:
        return {self.embedder: "embedder"} if self.embedder else {}

    def setup(self, env: Env) -> None:
        if self.embedder:
            self._embedder = env.embedder(self.embedder)

    def process(self, batch: pa.Table) -> dict[str, list]:
        rows = batch.select(list(self.reads())).to_pylist()
        pools = [self._united(row) for row in rows]
        texts = [[chunk["text"] for chunk in pool if chunk["cosine"] is None] for pool in pools]
        if self.embedder:
            self._add_cosines([row["question"] for row in rows], pools)
        fused, trace = [], []
        for pool, lacking in zip(pools, texts, strict=True):
            notes = [] if self.embedder else ["cosine: not in the dense pool, counted as 0"] * len(lacking)
            kept = self._best_documents(pool, notes)
            fused.append(kept)
            calls = 1 + len(set(lacking)) if self.embedder and lacking else 0
            trace.append({"kept": len(kept), "calls": calls, "notes": notes})
        return {self.into: fused, "trace": trace}

    def _united(self, row: dict[str, Any]) -> list[Chunk]:
        """The chunks that either search found, each once; what a search did not find is None there."""
        pool: dict[int, Chunk] = {}
        for column, part in ((self.dense, "cosine"), (self.lexical, "bm25_raw")):
            for passage in (row[column] or []) if column else []:
                chunk = {**passage, "query": row["question"], "cosine": None, "bm25_raw": None}
                pool.setdefault(passage["pid"], chunk)[part] = passage["score"]
        scaled = rescaled([chunk["bm25_raw"] for chunk in pool.values()], self.bm25)
        return [{**chunk, "bm25": bm25} for chunk, bm25 in zip(pool.values(), scaled, strict=True)]

    def _add_cosines(self, asked: list[str], pools: list[list[Chunk]]) -> None:
        both = zip(asked, pools, strict=True)
        pairs = [(text, chunk) for text, pool in both for chunk in pool if chunk["cosine"] is None]
        texts = list(dict.fromkeys(text for question, chunk in pairs for text in (question, chunk["text"])))
        vector = dict(zip(texts, self._embedder.embed(texts) if texts else [], strict=True))
        for question, chunk in pairs:
            chunk["cosine"] = float(vector[question] @ vector[chunk["text"]])

    def _best_documents(self, pool: list[Chunk], notes: list[str]) -> list[Chunk]:
        documents: dict[str, list[Chunk]] = {}
        for chunk in pool:
            documents.setdefault(chunk["doc_id"], []).append(chunk)
        ranking = []
        for chunks in documents.values():
            chunks.sort(key=lambda chunk: (-self._relevance(chunk), chunk["pid"]))
            host, problem = self.host.of(chunks[0]["url"]) if self.host.kind != "none" else (0.0, None)
            notes += [f"url: {problem}, host score 0"] if problem else []
            relevance = aggregated([self._relevance(chunk) for chunk in chunks], self.aggregation, self.top_k)
            about = {"score": relevance + self.host_boost * host, "host": host}
            ranking.append([{**chunk, **about} for chunk in chunks[: self.chunks]])
        ranking.sort(key=lambda chunks: (-chunks[0]["score"], chunks[0]["pid"]))
        best = [chunk for chunks in ranking[: self.documents] for chunk in chunks]
        return [{**chunk, "rank": rank} for rank, chunk in enumerate(best)]

    def _relevance(self, chunk: Chunk) -> float:
        return (chunk["cosine"] or 0.0) + self.bm25_boost * chunk["bm25"]
