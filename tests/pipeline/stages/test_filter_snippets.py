"""filter_snippets: windows by hand, and who stays by which rule."""

from typing import Any

import pyarrow as pa
import pytest

from pipeline.schema import PASSAGE
from pipeline.stages.filter_snippets import FilterSnippets, windows
from tests.stubs import StubEmbedder, StubEnv, hit, questions, ready

# Four passages of one window each, best match third.
COSINES = {"p0": 0.5, "p1": 0.2, "p2": 0.9, "p3": 0.35}


def run(passages: list[dict], embedder: StubEmbedder | None = None, **settings: Any) -> pa.Table:
    table = questions("q", passages=([passages], pa.list_(PASSAGE)))
    stage = FilterSnippets.model_validate({"embedder": "filter", **settings})
    return ready(stage, StubEnv(embedder=embedder or StubEmbedder(COSINES)))(table)


def outcome(table: pa.Table) -> list[tuple]:
    return [(s["text"], s["kept"], s["reason"]) for s in table["snippets"].to_pylist()[0]]


def four() -> list[dict]:
    return [hit(n, f"p{n}", query="sub") for n in range(4)]


@pytest.mark.parametrize(
    ("length", "starts"),
    [
        (0, []),
        (1, [0]),
        (1000, [0]),
        (1001, [0, 900]),
        (1900, [0, 900]),
        (1901, [0, 900, 1800]),
        (2800, [0, 900, 1800]),
    ],
)
def test_windows_of_1000_characters_with_100_shared(length: int, starts: list[int]) -> None:
    text = "".join(chr(ord("a") + n % 26) for n in range(length))
    found = windows(hit(7) | {"text": text}, 1000, 100)
    assert [w["start"] for w in found] == starts
    assert [w["text"] for w in found] == [text[start : start + 1000] for start in starts]
    assert {w["doc_id"] for w in found} <= {"d7"}
    if found:
        assert found[-1]["start"] + len(found[-1]["text"]) == length


def test_windows_without_overlap_tile_the_text() -> None:
    assert [w["text"] for w in windows(hit(1, "abcdefg"), 3, 0)] == ["abc", "def", "g"]


def test_the_paper_keeps_at_least_035_in_passage_order_and_the_dropped_come_last() -> None:
    table = run(four())
    expected = [("p0", True, None), ("p2", True, None), ("p3", True, None), ("p1", False, "cosine 0.2 < 0.35")]
    assert outcome(table) == expected
    scores = [round(s["score"], 4) for s in table["snippets"].to_pylist()[0]]
    assert scores == [0.5, 0.9, 0.35, 0.2]
    assert table["trace"].to_pylist()[0][-1]["kept"] == 3


def test_gt_drops_a_cosine_equal_to_the_threshold() -> None:
    assert outcome(run(four(), op="gt"))[2:] == [
        ("p1", False, "cosine 0.2 <= 0.35"),
        ("p3", False, "cosine 0.35 <= 0.35"),
    ]


@pytest.mark.parametrize(
    ("order", "texts"),
    [("rank", ["p0", "p2", "p3"]), ("similarity", ["p2", "p0", "p3"]), ("reverse", ["p3", "p2", "p0"])],
)
def test_orders(order: str, texts: list[str]) -> None:
    assert [text for text, kept, _ in outcome(run(four(), order=order)) if kept] == texts


def test_equal_cosines_keep_passage_order() -> None:
    table = run(four(), StubEmbedder(dict.fromkeys(COSINES, 0.5)), order="similarity", k=3)
    assert [text for text, _, _ in outcome(table)] == ["p0", "p1", "p2", "p3"]


def test_k_keeps_the_most_similar_whatever_the_order() -> None:
    expected = [
        ("p0", True, None),
        ("p2", True, None),
        ("p1", False, "cosine 0.2 < 0.35"),
        ("p3", False, "beyond k = 2"),
    ]
    assert outcome(run(four(), k=2)) == expected


def test_no_filter_asks_no_model_and_scores_nothing() -> None:
    embedder = StubEmbedder()
    table = run(four(), embedder, min_cosine=None)
    assert embedder.batches == []
    assert outcome(table) == [(f"p{n}", True, None) for n in range(4)]
    assert [s["score"] for s in table["snippets"].to_pylist()[0]] == [None] * 4
    assert FilterSnippets.model_validate({"embedder": "filter", "min_cosine": None}).models() == {}


def test_no_threshold_with_k_still_compares() -> None:
    assert [text for text, kept, _ in outcome(run(four(), min_cosine=None, k=1)) if kept] == ["p2"]


def test_compared_with_the_question_or_with_the_query_that_found_it() -> None:
    asked = StubEmbedder(COSINES)
    run(four(), asked)
    assert asked.batches == [["p0", "q", "p1", "p2", "p3"]]
    asked = StubEmbedder(COSINES)
    run(four(), asked, compare_to="query")
    assert asked.batches == [["p0", "sub", "p1", "p2", "p3"]]


def test_one_call_a_batch_with_every_text_once() -> None:
    embedder = StubEmbedder(COSINES)
    table = questions("q", "q2", passages=([four(), four()], pa.list_(PASSAGE)))
    after = ready(FilterSnippets.model_validate({"embedder": "filter"}), StubEnv(embedder=embedder))(table)
    assert embedder.batches == [["p0", "q", "p1", "p2", "p3", "q2"]]
    assert [trace[-1]["calls"] for trace in after["trace"].to_pylist()] == [5, 5]


def test_windows_follow_their_passage() -> None:
    table = run([hit(1, "abcdef"), hit(2, "xyz")], StubEmbedder(), size=4, overlap=1)
    found = [(s["pid"], s["start"], s["text"]) for s in table["snippets"].to_pylist()[0]]
    assert found == [(1, 0, "abcd"), (1, 3, "def"), (2, 0, "xyz")]


def test_no_passages_no_snippets_no_call() -> None:
    embedder = StubEmbedder()
    assert outcome(run([], embedder)) == []
    assert embedder.batches == []
