"""filter_snippets: passages cut into character windows, of which the ones close to the question stay."""

from itertools import chain
from typing import Any, ClassVar, Literal

import numpy as np
import pyarrow as pa
from pydantic import Field, PrivateAttr, model_validator

from pipeline.env import Embedder, Env
from pipeline.schema import PASSAGE, SNIPPET
from pipeline.stage import Stage


class FilterSnippets(Stage):
    """Every window of every passage is written: kept ones first, in the chosen order, then the dropped with a reason.

    Defaults are HLTCOE's (arXiv 2506.22356): compared with the question, cosine >= 0.35, passage-rank order. Its
    framework's filter (GPT-Researcher with LangChain) is compare_to: query, op: gt, order: similarity, k: 20.
    """

    name: ClassVar[str] = "filter_snippets"
    embedder: str = Field(description="role of the model")
    passages: str = "passages"
    into: str = "snippets"
    size: int = Field(1000, gt=0, description="characters of a window")
    overlap: int = Field(100, ge=0, description="characters two neighbouring windows share")
    compare_to: Literal["question", "query"] = "question"
    min_cosine: float | None = Field(0.35, ge=-1, le=1, description="null: no threshold; -1: cosines only recorded")
    op: Literal["ge", "gt"] = "ge"
    order: Literal["rank", "similarity", "reverse"] = "rank"
    k: int | None = Field(None, gt=0, description="of those that pass, the k most similar stay")
    _embedder: Embedder = PrivateAttr()

    @model_validator(mode="after")
    def _windows_advance(self) -> "FilterSnippets":
        if self.overlap >= self.size:
            raise ValueError(f"overlap {self.overlap} must be below size {self.size}")
        return self

    @property
    def compares(self) -> bool:
        """Whether anything depends on cosines; without, no model is asked for."""
        return self.min_cosine is not None or self.k is not None or self.order == "similarity"

    def reads(self) -> dict[str, pa.DataType]:
        return {"question": pa.string(), self.passages: pa.list_(PASSAGE)}

    def writes(self) -> dict[str, pa.DataType]:
        return {self.into: pa.list_(SNIPPET)}

    def models(self) -> dict[str, str]:
        return {self.embedder: "embedder"} if self.compares else {}

    def setup(self, env: Env) -> None:
        if self.compares:
            self._embedder = env.embedder(self.embedder)

    def process(self, batch: pa.Table) -> dict[str, list]:
        rows, pairs = [], []
        for row in batch.select(["question", self.passages]).to_pylist():
            found = [(w, p) for p in row[self.passages] or [] for w in windows(p, self.size, self.overlap)]
            rows.append([w for w, _ in found])
            pairs.append([(w["text"], p["query"] if self.compare_to == "query" else row["question"]) for w, p in found])
        cosines = self._cosines(pairs) if self.compares else [None] * len(rows)
        snippets = [self._judged(row, scores) for row, scores in zip(rows, cosines, strict=True)]
        trace = [
            {"kept": sum(s["kept"] for s in row), "calls": len(set(chain(*pair))) if self.compares else 0}
            for row, pair in zip(snippets, pairs, strict=True)
        ]
        return {self.into: snippets, "trace": trace}

    def _cosines(self, pairs: list[list[tuple[str, str]]]) -> list[np.ndarray]:
        """Per row float32 [windows], the dot product of unit vectors; every text of the batch is embedded once."""
        texts = list(dict.fromkeys(chain.from_iterable(chain.from_iterable(pairs))))
        if not texts:
            return [np.zeros(0, np.float32) for _ in pairs]
        vector = dict(zip(texts, self._embedder.embed(texts), strict=True))
        return [np.array([vector[a] @ vector[b] for a, b in row], np.float32) for row in pairs]

    def _judged(self, snippets: list[dict[str, Any]], cosines: np.ndarray | None) -> list[dict[str, Any]]:
        if cosines is None:
            best = list(range(len(snippets)))
        else:
            for snippet, cosine in zip(snippets, cosines, strict=True):
                snippet["score"] = float(cosine)
                snippet["reason"] = self._below(cosine)
            best = [int(n) for n in np.argsort(-cosines, kind="stable") if snippets[n]["reason"] is None]
        for n in best[self.k :] if self.k else []:
            snippets[n]["reason"] = f"beyond k = {self.k}"
        best = best[: self.k]
        orders = {"rank": sorted(best), "similarity": best, "reverse": sorted(best, reverse=True)}
        dropped = [{**s, "kept": False} for s in snippets if s["reason"] is not None]
        return [{**snippets[n], "kept": True} for n in orders[self.order]] + dropped

    def _below(self, cosine: np.float32) -> str | None:
        """Why the threshold drops a snippet, compared in float32: a cosine equal to the threshold passes `ge`."""
        if self.min_cosine is None:
            return None
        limit = np.float32(self.min_cosine)
        if cosine > limit or (self.op == "ge" and cosine == limit):
            return None
        return f"cosine {cosine:.4g} {'<' if self.op == 'ge' else '<='} {self.min_cosine:g}"


def windows(passage: dict[str, Any], size: int, overlap: int) -> list[dict[str, Any]]:
    """A passage's windows in order: 1 + ceil((L - size) / (size - overlap)) for L > size characters, one for L >= 1."""
    text, step = passage["text"], size - overlap
    count = 1 + max(0, -((size - len(text)) // step)) if text else 0
    about = {"pid": passage["pid"], "doc_id": passage["doc_id"], "url": passage["url"], "score": None, "reason": None}
    return [{**about, "text": text[n * step : n * step + size], "start": n * step} for n in range(count)]
