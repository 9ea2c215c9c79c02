"""Word overlap: sentences, scores, ties, and offsets that give back the text."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.lexical.overlap import STOPWORDS, Sentences, query_words
from pipeline.lexical.sentences import _BLOCK

TEXT = "The whale dived. A white whale! Did Ahab see the white whale?\nHe did.  Ahab slept."


def _found(sentences: Sentences, keywords: str | list[str], k: int = 10) -> list[tuple[int, int]]:
    return [(hit.sentence, hit.score) for hit in sentences.search(keywords, k)]


def _all(sentences: Sentences) -> list[str]:
    return [sentences.text(number) for number in range(len(sentences))]


def test_sentences_of_a_text() -> None:
    assert _all(Sentences(TEXT)) == [
        "The whale dived.",
        "A white whale!",
        "Did Ahab see the white whale?",
        "He did.",
        "Ahab slept.",
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        (" \n ", []),
        ("no end", ["no end"]),
        ("3.5 and U.S.A. is one", ["3.5 and U.S.A.", "is one"]),
        ("Chapter I\n\nIt was.\r\n\r\nNext", ["Chapter I", "It was.", "Next"]),
        ("他来了。她走了！真的？ 是", ["他来了。", "她走了！", "真的？", "是"]),
        ("Wait...\u00a0What?! Yes.", ["Wait...", "What?!", "Yes."]),
        ("One." + " " * 50 + "\n" * 50 + "Two.", ["One.", "Two."]),
        ("   Lead. Tail.  ", ["Lead.", "Tail."]),
        ("İstanbul’da. 😀 Güzel!", ["İstanbul’da.", "😀 Güzel!"]),
    ],
)
def test_where_sentences_end(text: str, expected: list[str]) -> None:
    assert _all(Sentences(text)) == expected


@given(st.text(alphabet="ab.!?。 \n\r\u00a0é", max_size=60))
def test_the_same_as_a_regular_expression(text: str) -> None:
    expected = [part.strip() for part in re.split(r"(?<=[.!?])(?=\s)|(?<=。)|(?<=\n)(?=\r?\n)", text) if part.strip()]
    assert _all(Sentences(text)) == expected


@pytest.mark.parametrize("filler", ["x", "é"])
@pytest.mark.parametrize("shift", range(-12, 3))
def test_blocks_leave_no_seam(filler: str, shift: int) -> None:
    text = filler * (_BLOCK + shift - 1) + ".   \n\n  Next one. " + " " * 30 + "Last."
    assert _all(Sentences(text))[1:] == ["Next one.", "Last."]


def test_score_is_the_number_of_distinct_query_words() -> None:
    sentences = Sentences(TEXT)
    assert _found(sentences, "white whale, Ahab; WHALE") == [(2, 3), (1, 2), (0, 1), (4, 1)]
    assert _found(sentences, ["ahab", "whale"]) == [(2, 2), (0, 1), (1, 1), (4, 1)]
    assert _found(sentences, "white whale Ahab", k=2) == [(2, 3), (1, 2)]


def test_whole_words_without_stopwords() -> None:
    sentences = Sentences("Whales dive. The cat_walk. Don't concatenate cats.")
    assert _found(sentences, "whale cat") == [(1, 1)]
    assert _found(sentences, "the of and") == []
    assert _found(sentences, "") == []
    assert _found(sentences, "zebra") == []
    assert "the" in STOPWORDS
    assert query_words("The Whale's the") == {"whale": True, "s": True}


def test_scripts_without_spaces_are_matched_by_neighbours() -> None:
    sentences = Sentences("他住在北京。她在上海工作。")
    assert _found(sentences, "北京大学") == [(0, 1)]
    assert _found(sentences, "在") == [(0, 1), (1, 1)]
    assert query_words("北京大") == {"北京": False, "京大": False}


def test_ties_go_by_position() -> None:
    sentences = Sentences("A fox. " * 30)
    assert [hit.sentence for hit in sentences.search("fox", 5)] == [0, 1, 2, 3, 4]


def test_pages_map_back_to_page_and_offset() -> None:
    pages = ["One fox. Two dogs.", "", "İ dogs and a FOX.\n\nEnd."]
    sentences = Sentences(pages)
    assert len(sentences) == 4
    hits = sentences.search("fox dogs", 10)
    assert [(hit.sentence, hit.score, hit.source) for hit in hits] == [(2, 2, 2), (0, 1, 0), (1, 1, 0)]
    for hit in hits:
        assert pages[hit.source][hit.start : hit.stop] == sentences.text(hit.sentence)
    assert pages[2][hits[0].start : hits[0].stop] == "İ dogs and a FOX."
    assert sentences.search("fox", 0) == []
    with pytest.raises(IndexError, match="sentence 4 of 4"):
        sentences.place(4)
    assert Sentences([]).search("fox", 3) == []


def test_pages_score_as_one_text_would() -> None:
    pages = TEXT.split("\n")
    assert _found(Sentences(pages), "white whale Ahab") == _found(Sentences(TEXT), "white whale Ahab")


def test_it_keeps_little_beside_the_text() -> None:
    text = "Twenty words or so make a sentence of this length, which is what one meets in a book, roughly. " * 1000
    assert Sentences(text).nbytes < 0.05 * len(text)
