"""First class, its share of the budget, neighbours, runs and headings, by hand."""

import pytest

from pipeline.lexical.neighbours import deep_side, expanded, first_class, heading_of, headings, runs
from pipeline.lexical.overlap import Sentences

LETTERS = "Aa. Bb. Cc. Dd. Ee. Ff. Gg. Hh. Ii. Jj. Kk. Ll."


def test_first_class_is_the_tie_at_the_top_up_to_a_limit() -> None:
    hits = Sentences("red fox. red. red fox here. fox. A red fox.").search("red fox", 10)
    assert [(hit.sentence, hit.score) for hit in hits] == [(0, 2), (2, 2), (4, 2), (1, 1), (3, 1)]
    assert first_class(hits, 5) == [0, 2, 4]
    assert first_class(hits, 2) == [0, 2]
    assert first_class([], 5) == []


@pytest.mark.parametrize(("first", "side"), [(1, 4), (2, 2), (3, 1), (4, 0), (5, 0), (11, 0), (0, 0)])
def test_ten_sentences_shared_out(first: int, side: int) -> None:
    assert deep_side(10, first) == side


def test_neighbours_by_class_within_the_text() -> None:
    sentences = Sentences(LETTERS)
    hits = sentences.search("ff kk", 10)
    assert [hit.sentence for hit in hits] == [5, 10]
    assert expanded(sentences, hits, [5], deep=3, side=1) == {2, 3, 4, 5, 6, 7, 8, 9, 10, 11}
    assert expanded(sentences, hits, [], deep=3, side=0) == {5, 10}
    assert expanded(sentences, hits, [10], deep=9, side=0) == {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}


def test_neighbours_stay_in_their_page_or_passage() -> None:
    pages = Sentences(["Aa. Bb.", "Cc. Dd. Ee.", "Ff."])
    hits = pages.search("cc ff", 10)
    chosen = expanded(pages, hits, [], deep=0, side=2)
    assert chosen == {2, 3, 4, 5}
    assert runs(pages, chosen) == [(2, 4), (5, 5)]


def test_runs() -> None:
    assert runs(Sentences(LETTERS), {7, 1, 2, 9, 8}) == [(1, 2), (7, 9)]
    assert runs(Sentences(LETTERS), []) == []


def test_the_heading_above() -> None:
    sentences = Sentences("Front matter.\n\nCHAPTER I\n\nOne. Two.\n\nCHAPTER II\n\nThree. No CHAPTER here.")
    found = headings(sentences, "CHAPTER")
    assert [sentences.text(number) for number in found] == ["CHAPTER I", "CHAPTER II"]
    assert [heading_of(number, found) for number in (0, 1, 3, 4, 5, 6)] == [None, 1, 1, 4, 4, 4]
