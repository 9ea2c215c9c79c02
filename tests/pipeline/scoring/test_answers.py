import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.scoring.answers import abstained, answer_words, containment, exact_match, f1, normalise_answer, rouge_l

METRICS = (exact_match, f1, containment, rouge_l)
# Few words, so that answers and golds meet; and any text at all.
TEXTS = st.one_of(
    st.text(), st.lists(st.sampled_from(["a", "the", "Cat", "cat.", "sat", "4", "14", "", "—"])).map(" ".join)
)


@pytest.mark.parametrize(
    ("text", "normal"),
    [
        ("The  Cat's, a hat!", "cats hat"),
        ("It’s — “so”", "its so"),
        ("an theme anthem", "theme anthem"),
        ("$1,000.50", "100050"),
        ("ÉCOLE", "école"),
        ("the", ""),
        ("", ""),
    ],
)
def test_normalise_answer(text: str, normal: str) -> None:
    assert normalise_answer(text) == normal


@pytest.mark.parametrize(
    ("answer", "golds", "em", "words_f1", "contains", "rouge"),
    [
        # "cat sat on mat" and "cat sat mat": 3 common of 4 and 3 words; with articles the LCS has 4 of 6 and 5 words.
        ("The cat sat on the mat.", ["cat sat the mat"], 0, 6 / 7, 0, 8 / 10),
        ("The cat!", ["a cat"], 1, 1, 1, 0.5),
        ("It was 14.", ["4"], 0, 0, 0, 0),
        ("It was 4.", ["4"], 0, 0.5, 1, 0.5),
        ("Paris", ["Rome", "paris"], 1, 1, 1, 1),
        ("Paris", "paris", 1, 1, 1, 1),
        ("new old york", ["new york"], 0, 0.8, 0, 0.8),
        # Bags: "cat" twice meets "cat" once.
        ("cat cat", ["cat"], 0, 2 / 3, 1, 2 / 3),
        ("", ["cat"], 0, 0, 0, 0),
        # A gold without normalised words equals itself and nothing else.
        ("A", ["a"], 1, 1, 1, 1),
        ("", ["a"], 0, 0, 0, 0),
        ("the", ["a"], 0, 0, 0, 0),
        ("Η Αθήνα", ["αθήνα"], 0, 2 / 3, 1, 2 / 3),
    ],
)
def test_hand_worked(
    answer: str, golds: list[str] | str, em: float, words_f1: float, contains: float, rouge: float
) -> None:
    assert [metric(answer, golds) for metric in METRICS] == pytest.approx([em, words_f1, contains, rouge])


@settings(deadline=None)  # the first call imports rouge-score
@given(TEXTS, st.lists(TEXTS, min_size=1, max_size=3))
def test_bounds_and_order(answer: str, golds: list[str]) -> None:
    scores = [metric(answer, golds) for metric in METRICS]
    assert all(0 <= score <= 1 for score in scores)
    em, words_f1, contains, _ = scores
    assert em <= words_f1
    assert em <= contains
    assert contains == 0 or words_f1 > 0
    assert all(metric(answer, [*golds, "zebra"]) >= score for metric, score in zip(METRICS, scores, strict=True))
    assert [metric("", golds) for metric in METRICS] == [0, 0, 0, 0]


@settings(deadline=None)  # the first call imports rouge-score
@given(st.text(st.characters(max_codepoint=127)), st.text(st.characters(max_codepoint=127)))
def test_rouge_is_that_of_rouge_score_on_ascii(answer: str, gold: str) -> None:
    from rouge_score.rouge_scorer import RougeScorer

    assert rouge_l(answer, gold) == RougeScorer(["rougeL"]).score(gold, answer)["rougeL"].fmeasure


@pytest.mark.parametrize(
    ("answer", "declines"),
    [
        ("", True),
        (" \n", True),
        ("I don't know.", True),
        ("i DON’T know, sorry", True),
        ("I do not know", True),
        ("I don't knowingly lie", False),
        ("Well, I don't know", False),
        ("Paris", False),
        ("no", False),
    ],
)
def test_abstained(answer: str, declines: bool) -> None:
    assert abstained(answer) is declines


def test_null_responses_are_settable() -> None:
    assert abstained("No answer found in the documents.", ["no answer found"])
    assert not abstained("I don't know", ["no answer found"])
    assert not abstained("Paris", [""])
    assert abstained("", [])


def test_answer_words() -> None:
    assert answer_words(" two  words\n") == 2
    assert answer_words("") == 0
