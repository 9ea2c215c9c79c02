"""Retrieval metrics, with ir-measures (trec_eval's definitions). Each is in [0, 1]; 1 is best.

By document: gold is the question's `doc_ids` (binary), or qrels (graded). A document stands where its best passage
stands (MaxP, arXiv 1905.09217): rankings of passages become rankings of documents by keeping each document's first
occurrence.

  nDCG@k     discounted gain of the gold documents in the first k over that of the ideal ranking (Jarvelin 2002)
  R@k        share of the gold documents that are in the first k
  Success@k  1 if a gold document is in the first k, else 0
  RR         1 / rank of the first gold document; its mean is MRR
  AP         mean over the gold documents of the precision at their ranks, 0 where not retrieved; its mean is MAP

By passage: a passage is relevant where a gold answer stands in it, word for word (DPR, arXiv 2004.04906). How many such
passages the collection holds is unknown, so only metrics that do not need it: Success@k and RR, named "passage ...".
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pipeline.errors import InputError
from pipeline.scoring.answers import containment

METRICS = ("nDCG@3", "nDCG@10", "R@1", "R@3", "R@5", "R@10", "Success@5", "RR", "AP")
PASSAGE = "passage "
PASSAGE_METRICS = (f"{PASSAGE}Success@1", f"{PASSAGE}Success@5", f"{PASSAGE}Success@20", f"{PASSAGE}RR")
Gold = Sequence[str] | Mapping[str, int] | None  # documents, or document -> grade; above 0 is relevant


def document_ranking(passages: Iterable[Mapping[str, Any]]) -> list[tuple[str, float | None]]:
    """(doc_id, score of its first passage), best first, each document once; the passages' own order is the ranking.

    A generated passage has no document (`doc_id` is null) and no place.
    """
    ranking: dict[str, float | None] = {}
    for passage in passages:
        if passage["doc_id"] is not None:
            ranking.setdefault(passage["doc_id"], passage.get("score"))
    return list(ranking.items())


def passage_scores(rows: Iterable[Mapping[str, Any]]) -> dict[str, dict[str, float]]:
    """question id -> metric of `PASSAGE_METRICS` -> value, of the rows with gold answers.

    A passage counts once, at its first place; one that a model wrote (no document) has none. No passages: 0.
    """
    rankings: dict[str, list[str]] = {}
    gold: dict[str, list[str]] = {}
    for row in rows:
        if row.get("answers"):
            found = {str(passage["pid"]): passage for passage in reversed(row.get("passages") or [])}
            order = dict.fromkeys(str(p["pid"]) for p in row.get("passages") or [] if p["doc_id"] is not None)
            rankings[row["id"]] = list(order)
            gold[row["id"]] = [pid for pid in order if containment(found[pid]["text"], row["answers"])]
    names = [metric.removeprefix(PASSAGE) for metric in PASSAGE_METRICS]
    scores = retrieval_scores(rankings, gold, names)
    nothing = dict.fromkeys(names, 0.0)  # none of its passages is relevant
    return {id: {f"{PASSAGE}{name}": value for name, value in scores.get(id, nothing).items()} for id in rankings}


def check_metrics(names: Sequence[str]) -> tuple[str, ...]:
    """The names, each once. Raises InputError where ir-measures does not know one."""
    import ir_measures

    for name in names:
        try:
            ir_measures.parse_measure(name)
        except (ValueError, NameError, AttributeError, SyntaxError) as problem:
            raise InputError(
                f"'{name}' is no measure of ir-measures ({problem}); usual ones: {', '.join(METRICS)}."
            ) from problem
    return tuple(dict.fromkeys(names))


def retrieval_scores(
    rankings: Mapping[str, Sequence[str]], gold: Mapping[str, Gold], metrics: Sequence[str] = METRICS
) -> dict[str, dict[str, float]]:
    """question id -> metric -> value, for exactly the questions that have relevant documents.

    `rankings`: question id -> document ids, best first, repeats counting once. A question without a ranking, or with an
    empty one, scores 0. Questions whose gold is null or empty are left out; a gold document named twice counts once.
    """
    import ir_measures

    graded = {id: grades(documents) for id, documents in gold.items()}
    qrels = {id: known for id, known in graded.items() if any(grade > 0 for grade in known.values())}
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


def grades(documents: Gold) -> dict[str, int]:
    """document id -> grade; a document without one has 1."""
    return dict(documents) if isinstance(documents, Mapping) else dict.fromkeys(documents or (), 1)
