import math
import random

import ir_measures
import pytest

from pipeline.errors import InputError
from pipeline.scoring.retrieval import METRICS, check_metrics, document_ranking, passage_scores, retrieval_scores


def test_hand_worked() -> None:
    scores = retrieval_scores({"q": ["w", "x", "v", "y"]}, {"q": ["x", "y"]})["q"]
    # Gold at ranks 2 and 4 of an ideal 1 and 2.
    gain = 1 / math.log2(3) + 1 / math.log2(5)
    assert scores["nDCG@10"] == pytest.approx(gain / (1 + 1 / math.log2(3)))
    assert [scores[name] for name in ("R@1", "R@3", "R@5", "R@10")] == [0, 0.5, 1, 1]
    assert scores["RR"] == 0.5


def test_a_document_stands_where_its_best_passage_stands() -> None:
    passages = [
        {"doc_id": "x", "score": 3.0},
        {"doc_id": "x", "score": 2.5},
        {"doc_id": "y", "score": 2.0},
        {"doc_id": "x", "score": 1.0},
    ]
    assert document_ranking(passages) == [("x", 3.0), ("y", 2.0)]
    assert retrieval_scores({"q": ["x", "x", "x", "y"]}, {"q": ["y"]})["q"]["RR"] == 0.5


def test_gold_named_twice_counts_once() -> None:
    assert retrieval_scores({"q": ["x"]}, {"q": ["x", "x"]}) == retrieval_scores({"q": ["x"]}, {"q": ["x"]})
    assert retrieval_scores({"q": ["x"]}, {"q": ["x", "x"]})["q"] == dict.fromkeys(METRICS, 1.0)


def test_questions_without_ranking_are_0_and_without_gold_are_left_out() -> None:
    scores = retrieval_scores(
        {"a": ["x"], "b": [], "n": ["x"]}, {"a": ["x"], "b": ["x"], "c": ["x"], "n": None, "e": []}
    )
    assert list(scores) == ["a", "b", "c"]
    assert scores["b"] == scores["c"] == dict.fromkeys(METRICS, 0.0)
    assert retrieval_scores({"n": ["x"]}, {"n": None}) == {}
    assert set(retrieval_scores({}, {"a": ["x"]})) == {"a"}


def test_the_order_decides_in_long_rankings() -> None:
    # 20,000 documents: were positions turned into 32-bit scores between 0 and 1, neighbours could tie.
    documents = [f"d{number}" for number in range(20_000)]
    assert retrieval_scores({"q": documents}, {"q": ["d19999"]})["q"]["RR"] == pytest.approx(1 / 20_000)


def test_means_are_those_of_ir_measures() -> None:
    source = random.Random(0)
    documents = [f"d{number}" for number in range(30)]
    rankings = {str(q): source.sample(documents, source.randint(1, 15)) for q in range(40)}
    gold = {str(q): source.sample(documents, source.randint(1, 4)) for q in range(45)}
    scores = retrieval_scores(rankings, gold)
    assert len(scores) == 45
    qrels = [ir_measures.Qrel(q, document, 1) for q, found in gold.items() for document in found]
    run = [
        ir_measures.ScoredDoc(q, document, 100 - rank)
        for q, found in rankings.items()
        for rank, document in enumerate(found)
    ]
    expected = ir_measures.calc_aggregate([ir_measures.parse_measure(name) for name in METRICS], qrels, run)
    for measure, value in expected.items():
        assert sum(question[str(measure)] for question in scores.values()) / 45 == pytest.approx(value)


def test_graded_gold_and_the_other_measures_by_hand() -> None:
    rankings = {"q": ["x", "a", "b"]}
    gold = {"q": {"a": 3, "b": 1, "c": 0}}
    scores = retrieval_scores(rankings, gold, ["nDCG@3", "AP", "Success@1", "Success@2"])["q"]
    ideal = 3 + 1 / math.log2(3)
    assert scores["nDCG@3"] == pytest.approx((3 / math.log2(3) + 1 / 2) / ideal)
    assert scores["AP"] == pytest.approx((1 / 2 + 2 / 3) / 2)  # c is judged, and not relevant
    assert (scores["Success@1"], scores["Success@2"]) == (0, 1)


def test_passages_are_relevant_where_a_gold_answer_stands_in_them() -> None:
    def passage(pid: int, text: str, document: str | None = "d") -> dict:
        return {"pid": pid, "doc_id": document, "text": text, "score": 1.0}

    found = [
        passage(-1, "Oslo", None),
        passage(4, "Bergen"),
        passage(4, "Bergen"),
        passage(9, "It is Oslo."),
        passage(1, "Oslo"),
    ]
    rows = [
        {"id": "a", "answers": ["oslo"], "passages": found},
        {"id": "b", "answers": ["Rome"], "passages": found},
        {"id": "c", "answers": ["Rome"], "passages": None},
        {"id": "d", "answers": None, "passages": found},
    ]
    scores = passage_scores(rows)
    assert set(scores) == {"a", "b", "c"}
    assert [scores["a"][f"passage {name}"] for name in ("Success@1", "Success@5", "RR")] == [0, 1, 0.5]
    assert set(scores["b"].values()) == set(scores["c"].values()) == {0.0}


def test_an_unknown_measure_is_refused() -> None:
    assert check_metrics(["nDCG@3", "AP", "AP"]) == ("nDCG@3", "AP")
    with pytest.raises(InputError, match="'nDGC' is no measure"):
        check_metrics(["nDGC"])
