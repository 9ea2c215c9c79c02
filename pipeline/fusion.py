"""The arithmetic of hybrid retrieval: BM25 scores made comparable with cosines, and chunks gathered into documents."""

from collections.abc import Sequence
from math import fsum
from statistics import fmean
from typing import Literal

Scale = Literal["max", "min_max", "raw"]
Aggregation = Literal["max", "mean_top_k", "sum"]


def rescaled(raw: list[float | None], scale: Scale) -> list[float]:
    """A question's BM25 scores as they are added; None, a chunk without one, is 0.

    max: b / max. min_max: (b - min) / (max - min) over the chunks that have one; 1 where all are equal.
    """
    known = [score for score in raw if score is not None]
    low, high = (min(known), max(known)) if known else (0.0, 0.0)
    if scale == "raw" or high <= 0:
        return [score or 0.0 for score in raw]
    if scale == "max":
        return [(score or 0.0) / high for score in raw]
    return [0.0 if score is None else (score - low) / (high - low) if high > low else 1.0 for score in raw]


def aggregated(scores: Sequence[float], aggregation: Aggregation, top_k: int) -> float:
    """A document's score from those of its chunks, best first."""
    if aggregation == "max":
        return scores[0]
    return fmean(scores[:top_k]) if aggregation == "mean_top_k" else fsum(scores)
