"""score_passages: likelihoods by hand, in both directions."""

import math
from typing import Any

import pyarrow as pa
import pytest

from pipeline.errors import InputError
from pipeline.prompts import check_use
from pipeline.schema import PASSAGE
from pipeline.stages.score_passages import ScorePassages
from tests.stubs import POISON, StubEnv, StubScorer, draft, hit, notes, questions, ready

LOG_P = {"alpha": -1.0, "beta": -0.5, "gamma": -2.0, "one two": -1.5, "one two three four": -1.0}
Items = list[dict[str, Any]]


def log_p(context: str, continuation: str) -> float:
    """That of the first text of LOG_P, longest first, found in what is conditioned on or else in what is scored."""
    return next(LOG_P[text] for text in sorted(LOG_P, key=len, reverse=True) if text in context + continuation)


def run(*lists: Items | None, scorer: StubScorer | None = None, by: str = "question", **settings: Any) -> pa.Table:
    directions = {
        "question": {"direction": "question_given_passage", "prompt": "question_from_passage"},
        "passage": {"direction": "passage_given_question", "prompt": "passage_from_question"},
    }
    config = {"scorer": "s", "passages": "items", "into": "ranked", **directions[by], **settings}
    texts = [f"what is {n} ?" for n in range(len(lists))]
    table = questions(*texts, items=(list(lists), pa.list_(PASSAGE)))
    env = StubEnv(scorer=scorer or StubScorer(log_p))
    return ready(ScorePassages.model_validate(config), env)(table)


def seen(table: pa.Table, row: int = 0) -> list[tuple[str, float | None, int]]:
    return [(p["text"], p["score"], p["rank"]) for p in table["ranked"].to_pylist()[row]]


def test_retrieved_passages_by_the_likelihood_of_the_question() -> None:
    scorer = StubScorer(log_p)
    after = run([hit(1, "alpha"), hit(2, "beta"), hit(3, "gamma")], scorer=scorer)
    assert seen(after) == [("beta", -0.5, 0), ("alpha", -1.0, 1), ("gamma", -2.0, 2)]
    assert [p["doc_id"] for p in after["ranked"].to_pylist()[0]] == ["d2", "d1", "d3"]
    assert after["items"].to_pylist()[0][0]["score"] == 1.0  # the retriever's score stays where it was
    ((context, continuation), *_) = scorer.batches[0]
    assert context == "Passage: alpha\nWrite one question that this passage answers.\n"
    assert continuation == "what is 0 ?"
    assert after["trace"].to_pylist()[0][-1]["calls"] == 3


def test_generated_passages_by_their_own_likelihood_given_the_question() -> None:
    scorer = StubScorer(log_p)
    after = run([draft(0, "one two"), draft(1, "one two three four")], scorer=scorer, by="passage")
    assert seen(after) == [("one two three four", -1.0, 0), ("one two", -1.5, 1)]
    context, continuation = scorer.batches[0][0]
    assert context.startswith("Question: what is 0 ?\n")
    assert continuation == "one two"


def test_without_normalisation_the_sum_decides() -> None:
    items = [draft(0, "one two three four"), draft(1, "one two")]
    assert seen(run(items, by="passage")) == [("one two three four", -1.0, 0), ("one two", -1.5, 1)]
    summed = run(items, by="passage", normalise="sum")
    assert seen(summed) == [("one two", -3.0, 0), ("one two three four", -4.0, 1)]


def test_priors_by_hand() -> None:
    items = [hit(1, "alpha", score=0.0), hit(2, "beta", score=math.log(3))]
    by_score = {text: score for text, score, _ in seen(run(items, prior="score"))}
    assert by_score == pytest.approx({"alpha": -1 + math.log(1 / 4), "beta": -0.5 + math.log(3 / 4)}, abs=1e-6)
    by_length = run([hit(1, "alpha x y"), hit(2, "beta")], prior="length")
    assert {text: score for text, score, _ in seen(by_length)} == pytest.approx(
        {"alpha x y": -1 + math.log(3 / 4), "beta": -0.5 + math.log(1 / 4)}, abs=1e-6
    )


def test_both_directions_by_two_stages_are_the_product() -> None:
    """The prior `score` of a second stage is the first one's likelihood, up to a constant of the question."""
    first = run([draft(0, "alpha"), draft(1, "one two"), draft(2, "gamma")], by="passage")["ranked"].to_pylist()[0]
    both = {text: score for text, score, _ in seen(run(first, prior="score"))}
    constant = math.log(sum(math.exp(passage["score"]) for passage in first))
    assert both == pytest.approx({p["text"]: 2 * LOG_P[p["text"]] - constant for p in first}, abs=1e-5)


def test_a_prior_of_scores_wants_scores() -> None:
    after = run([draft(0, "alpha")], [draft(0, "alpha", score=1.0)], prior="score")
    assert "wants a score of every passage in 'items'" in after["error"].to_pylist()[0]["message"]
    assert after["error"].to_pylist()[1] is None


def test_ties_keep_their_order_and_a_passage_without_text_is_last() -> None:
    items = [draft(0, " "), draft(1, "alpha x"), draft(2, "alpha y")]
    after = run(items, by="passage")
    assert seen(after) == [("alpha x", -1.0, 0), ("alpha y", -1.0, 1), (" ", None, 2)]
    assert notes(after) == [["passages: 1 without text"]]


def test_a_cut_passage_is_noted() -> None:
    scorer = StubScorer(log_p, limit=14)
    after = run([hit(1, "alpha " * 9), hit(2, "beta")], scorer=scorer)
    assert notes(after) == [["passages: 1 of 2 lost their beginning to the model's length"]]


def test_one_call_for_the_batch_and_neighbours_change_nothing() -> None:
    scorer = StubScorer(log_p)
    lists = [[hit(1, "alpha"), hit(2, "beta")], [], None, [hit(3, "gamma")]]
    after = run(*lists, scorer=scorer)
    assert [len(batch) for batch in scorer.batches] == [3]
    assert [len(row) for row in after["ranked"].to_pylist()] == [2, 0, 0, 1]
    assert seen(run(lists[0])) == seen(after)
    poisoned = run([hit(1, POISON)], lists[0])
    assert poisoned["error"].to_pylist()[0]["kind"] == "ValueError"
    assert seen(poisoned, 1) == seen(after)


def test_the_prompt_must_fit_the_direction() -> None:
    config = {"scorer": "s", "direction": "passage_given_question", "prompt": "question_from_passage"}
    (use,) = ScorePassages.model_validate(config).prompts()
    with pytest.raises(InputError, match=r"lacks the slot \{\{ question \}\}"):
        check_use(use)
