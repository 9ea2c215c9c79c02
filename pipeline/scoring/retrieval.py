"""Retrieval metrics by document, with ir-measures (trec_eval's definitions). Each is in [0, 1], gold is binary.

A document stands where its best passage stands (MaxP, arXiv 1905.09217): rankings of passages become rankings of
documents by keeping each document's first occurrence.

  nDCG@10  discounted gain of the gold documents in the first 10 over that of the ideal ranking (Jarvelin 2002)
  R@k      share of the gold documents that are in the first k
  RR       1 / rank of the first gold document; its mean is MRR
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

METRICS = ("nDCG@10", "R@1", "R@3", "R@5", "R@10", "RR")


def document_ranking(passages: Iterable[Mapping[str, Any]]) -> list[tuple[str, float | None]]:
    """(doc_id, score of its first passage), best first, each document once; the passages' own order is the ranking.

    A generated passage has no document (`doc_id` is null) and no place.
    """
    ranking: dict[str, float | None] = {}
    for passage in passages:
        if passage["doc_id"] is not None:
            ranking.setdefault(passage["doc_id"], passage.get("score"))
    return list(ranking.items())


def retrieval_scores(
    rankings: Mapping[str, Sequence[str]], gold: Mapping[str, Sequence[str] | None], metrics: Sequence[str] = METRICS
) -> dict[str, dict[str, float]]:
    """question id -> metric -> value, for exactly the questions that have gold documents.

    `rankings`: question id -> document ids, best first, repeats counting once. A question without a ranking, or with an
    empty one, scores 0. Questions whose gold is null or empty are left out; a gold document named twice counts once.
    """
    import ir_measures

    qrels = {id: dict.fromkeys(documents, 1) for id, documents in gold.items() if documents}
    # trec_eval sorts by score, so the scores it gets are the negated positions: no ties, no rounding.
    run = {
        id: {document: -float(position) for position, document in enumerate(dict.fromkeys(rankings.get(id, ())))}
        for id in qrels
    }
    measures = {name: ir_measures.parse_measure(name) for name in metrics}
    names = {str(measure): name for name, measure in measures.items()}
    scores: dict[str, dict[str, float]] = {id: dict.fromkeys(metrics, 0.0) for id in qrels}
    if qrels:
        for value in ir_measures.iter_calc(list(measures.values()), qrels, run):
            scores[value.query_id][names[str(value.measure)]] = value.value
    return scores
