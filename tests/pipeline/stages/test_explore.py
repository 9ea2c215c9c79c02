"""explore: rounds over those still active, what is chosen, judged, trimmed and recorded."""

import json
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from pipeline.env import ChatRequest, Completion
from pipeline.schema import PASSAGE
from pipeline.stages.explore import Explore
from tests.stubs import StubEmbedder, StubEnv, StubLLM, hit, notes, questions, ready, said

STORY = (
    "Ishmael went to sea. The ship was old. Ahab had one leg. The white whale took it. Nobody laughed. "
    "Rain fell. Queequeg slept. The harpoon was sharp. Starbuck prayed. The whale sank the ship. All died. The end."
)
CONFIG: dict[str, Any] = {
    "llm": "explorer",
    "source": "story",
    "prompt": "keywords",
    "keywords": 3,
    "overlap": {"hits": 2, "neighbours": 0, "first_class": 2, "first_class_sentences": 1},
    "judge": {"llm": "judge", "prompt": "enough"},
    "rounds": 3,
    "max_context": 1000,
    "reserve": 10,
}


class Explorer(StubLLM):
    """Keywords by question, round after round; a judge who is content once all of a question's needs are in sight."""

    def __init__(self, words: dict[str, list[Any]], needs: dict[str, str] | None = None, **settings: Any) -> None:
        super().__init__(self._reply, **settings)
        self.words, self.needs = words, needs or {}

    def _reply(self, request: ChatRequest) -> Any:
        text = said(request)
        question = next(question for question in self.words if f'"{question}"' in text)
        if "yes or no" in text:
            need = self.needs.get(question)
            return "Yes." if need is not None and need in text else "No."
        tried = text.partition("already: ")[2].partition("\n")[0]
        done = sum(any(word in tried for word in words) for words in self.words[question] if isinstance(words, list))
        words = self.words[question][min(done, len(self.words[question]) - 1)]
        return json.dumps(words) if isinstance(words, list) else words


def run(
    llm: StubLLM, *texts: str, stories: list[str] | None = None, env: StubEnv | None = None, **changes: Any
) -> pa.Table:
    table = questions(*texts, story=(stories or [STORY] * len(texts), pa.string()))
    return ready(Explore.model_validate({**CONFIG, **changes}), env or StubEnv(llm=llm))(table)


def found(after: pa.Table) -> list[list[str]]:
    return [[passage["text"] for passage in row] for row in after["passages"].to_pylist()]


def test_a_round_keywords_hits_verdict_and_passages() -> None:
    llm = Explorer({"Who sank?": [["whale", "ship"]]}, {"Who sank?": "sank the ship"})
    (row,) = run(llm, "Who sank?").to_pylist()
    assert [passage["text"] for passage in row["passages"]] == ["The ship was old.", "The whale sank the ship."]
    assert row["rounds"] == [
        {
            "round": 1,
            "keywords": ["whale", "ship"],
            "hits": [9, 1],
            "first_class": 1,
            "sentences": 2,
            "passages": 2,
            "verdict": "enough",
        }
    ]
    first, second = row["passages"]
    assert (first["pid"], first["score"], first["rank"], first["query"]) == (1, 1.0, 0, "whale, ship")
    assert (second["pid"], second["score"], second["rank"], second["importance"]) == (9, 2.0, 1, None)
    assert all(STORY[p["start"] :].startswith(p["text"]) and p["doc_id"] == "q0" for p in row["passages"])
    trace = row["trace"][-1]
    assert (trace["kept"], trace["calls"], trace["notes"]) == (2, 2, [])


def test_first_class_and_neighbours_by_the_rule() -> None:
    # One first-class hit (sentence 9) of a budget of 5: 2 on each side; the other hit (1) has 1 on each side.
    overlap = {"hits": 2, "neighbours": 1, "first_class": 2, "first_class_sentences": 5}
    llm = Explorer({"?": [["whale", "ship"]]})
    after = run(llm, "?", overlap=overlap, rounds=1, judge=None)
    assert found(after) == [
        [
            "Ishmael went to sea. The ship was old. Ahab had one leg.",
            "The harpoon was sharp. Starbuck prayed. The whale sank the ship. All died. The end.",
        ]
    ]


def test_only_active_questions_take_part_one_call_a_round_and_one_for_the_judge() -> None:
    llm = Explorer(
        {"a": [["leg"], ["rain"]], "b": [["rain"], ["harpoon"], ["end"]], "c": [["sea"], ["leg"], ["rain"]]},
        {"a": "one leg", "b": "harpoon", "c": "nowhere"},
    )
    after = run(llm, "a", "b", "c")
    assert [len(batch) for batch in llm.batches] == [3, 3, 2, 2, 1, 1]
    rounds = after["rounds"].to_pylist()
    assert [[entry["verdict"] for entry in row] for row in rounds] == [
        ["enough"],
        ["not enough", "enough"],
        ["not enough"] * 3,
    ]
    assert [[entry["keywords"] for entry in row] for row in rounds] == [
        [["leg"]],
        [["rain"], ["harpoon"]],
        [["sea"], ["leg"], ["rain"]],
    ]
    assert [trace[-1]["calls"] for trace in after["trace"].to_pylist()] == [2, 4, 6]
    seeds = [request.seed for batch in llm.batches for request in batch]
    assert len(set(seeds)) == len(seeds)


def test_without_a_judge_every_round_is_gone_through() -> None:
    llm = Explorer({"a": [["leg"], ["rain"], ["harpoon"]]}, {"a": "leg"})
    after = run(llm, "a", judge=None)
    assert [len(batch) for batch in llm.batches] == [1, 1, 1]
    assert [entry["verdict"] for entry in after["rounds"].to_pylist()[0]] == [None] * 3


def test_later_rounds_are_broader_and_deeper_and_keep_what_was_chosen() -> None:
    overlap = {
        "hits": 1,
        "neighbours": 0,
        "first_class": 1,
        "first_class_sentences": 1,
        "more_hits": 1,
        "more_neighbours": 1,
    }
    llm = Explorer({"a": [["whale"], ["rain"], ["harpoon"]]})
    after = run(llm, "a", overlap=overlap, judge=None)
    rounds = after["rounds"].to_pylist()[0]
    assert [entry["hits"] for entry in rounds] == [[3], [3, 5], [3, 5, 7]]
    # {3}; 2-4 and 4-6; 1-5, 3-7, 5-9
    assert [entry["sentences"] for entry in rounds] == [1, 5, 9]
    assert [passage["pid"] for passage in after["passages"].to_pylist()[0]] == [1]


def test_the_evidence_so_far_and_the_words_tried_are_shown_to_the_model() -> None:
    llm = Explorer({"a": [["leg"], ["rain"]]})
    run(llm, "a", rounds=2)
    first, judged, second, _ = (said(batch[0]) for batch in llm.batches)
    assert "already" not in first
    assert "Ahab had one leg." not in first
    assert "Ahab had one leg." in judged
    assert "Ahab had one leg." in second
    assert "already: leg\n" in second


@pytest.mark.parametrize("reply", ["no list here", "", Completion("", "p", "error", error="too long")])
def test_unreadable_keywords_leave_the_search_to_the_question(reply: Any) -> None:
    llm = StubLLM(lambda request: reply)
    after = run(llm, "Who had one leg?", judge=None, rounds=1)
    assert found(after) == [["Ahab had one leg."]]
    assert after["rounds"].to_pylist()[0][0]["keywords"] == ["one", "leg"]  # "had" is a stopword
    assert "keywords: fallback" in notes(after)[0]
    assert after["error"].to_pylist() == [None]


def test_keywords_that_are_not_in_the_text_leave_it_to_the_question() -> None:
    after = run(Explorer({"Who had one leg?": [["zebra"]]}), "Who had one leg?", judge=None, rounds=1)
    assert found(after) == [["Ahab had one leg."]]
    assert notes(after) == [["keywords: not in the text"]]


def test_nothing_found_is_not_enough_and_the_judge_is_not_asked() -> None:
    llm = Explorer({"zebra?": [["zebra"]]}, {"zebra?": ""})
    after = run(llm, "zebra?", rounds=2)
    assert found(after) == [[]]
    assert [entry["verdict"] for entry in after["rounds"].to_pylist()[0]] == ["not enough"] * 2
    assert not any("yes or no" in said(request) for batch in llm.batches for request in batch)
    assert notes(after)[0].count("keywords: none new") == 1


@pytest.mark.parametrize(("reply", "verdict"), [("YES", "enough"), ("No, yes", "not enough"), ("perhaps", "unclear")])
def test_what_a_judge_may_say(reply: str, verdict: str) -> None:
    llm = StubLLM(lambda request: reply if "yes or no" in said(request) else '["leg"]')
    after = run(llm, "a", rounds=1)
    assert [entry["verdict"] for entry in after["rounds"].to_pylist()[0]] == [verdict]


def test_a_failed_judgement_is_unclear_and_noted() -> None:
    def reply(request: ChatRequest) -> Any:
        return Completion("", "p", "error", error="x") if "yes or no" in said(request) else '["leg"]'

    after = run(StubLLM(reply), "a", rounds=1)
    assert after["rounds"].to_pylist()[0][0]["verdict"] == "unclear"
    assert notes(after) == [["judge: generation error"]]


def test_what_was_dropped_is_noted_and_recorded() -> None:
    llm = Explorer({"a": [["leg", "rain", "harpoon"]]})
    overlap = {"hits": 5, "neighbours": 0, "first_class": 5, "first_class_sentences": 1}
    after = run(llm, "a", overlap=overlap, judge=None, rounds=1, max_context=16)
    assert found(after) == [["Ahab had one leg.", "Rain fell."]]
    assert notes(after) == [["evidence: dropped 1 of 3"]]
    assert after["rounds"].to_pylist()[0][0]["passages"] == 2


def test_importance_is_measured_once_for_all_questions_a_round_and_kept() -> None:
    def reply(request: ChatRequest) -> str:
        text = said(request)
        if "one short sentence" in text:
            return "from the leg" if "Ahab had one leg." in text else "something"
        return '["leg", "rain"]'

    llm = StubLLM(reply)
    env = StubEnv(llm=llm, embedder=StubEmbedder({"something": 0.25}))
    importance = {"form": "embedding", "embedder": "e", "prompt": "passage_only", "samples": 2, "max_tokens": 9}
    after = run(llm, "a", "b", env=env, importance=importance, judge=None, rounds=2)
    # Two passages of two questions, three texts each; in round 2 nothing is new.
    assert [len(batch) for batch in llm.batches] == [2, 12, 2]
    for row in after["passages"].to_pylist():
        leg, rain = (passage["importance"] for passage in row)
        assert any(leg == pytest.approx(0.75 * altered / 2) for altered in (1, 2))  # a weak noise may alter nothing
        assert rain == 0.0
    assert [trace[-1]["calls"] for trace in after["trace"].to_pylist()] == [8, 8]
    above = run(llm, "a", env=env, importance={**importance, "minimum": 0.3}, judge=None, rounds=1)
    assert found(above) == [["Ahab had one leg."]]


def test_given_rows_keep_what_they_have_and_are_not_explored() -> None:
    llm = Explorer({"a": [["leg"]], "b": [["leg"]]})
    given = ([[], [hit(7, "Counted: 3.")]], pa.list_(PASSAGE))
    table = questions("a", "b", story=([STORY] * 2, pa.string()), counts=given)
    after = ready(Explore.model_validate({**CONFIG, "given": "counts"}), StubEnv(llm=llm))(table)
    assert found(after) == [["Ahab had one leg."], ["Counted: 3."]]
    assert after["rounds"].to_pylist()[1] == []
    assert [trace[-1]["calls"] for trace in after["trace"].to_pylist()] == [6, 0]


def test_over_passages_and_over_pages() -> None:
    llm = Explorer({"a": [["whale"]]})
    passages = [hit(5, "The whale. Ahab.", start=100, doc_id="moby"), hit(6, "Rain. A whale.", start=7, doc_id="dick")]
    config = Explore.model_validate({**CONFIG, "source": "items", "judge": None, "rounds": 1})
    after = ready(config, StubEnv(llm=llm))(questions("a", items=([passages], pa.list_(PASSAGE))))
    (row,) = after["passages"].to_pylist()
    assert [(p["text"], p["doc_id"], p["url"], p["start"]) for p in row] == [
        ("The whale.", "moby", "http://x/5", 100),
        ("A whale.", "dick", "http://x/6", 13),
    ]
    pages = questions("a", items=([["The whale. Ahab.", "Rain. A whale."]], pa.list_(pa.string())))
    (row,) = ready(config, StubEnv(llm=llm))(pages)["passages"].to_pylist()
    assert [(p["text"], p["doc_id"], p["start"]) for p in row] == [("The whale.", "q0", 0), ("A whale.", "q0", 22)]


def test_marker_and_headings() -> None:
    story = "CHAPTER 1\n\nRain. A leg. Snow.\n\nCHAPTER 2\n\nAhab. One leg. Two legs."
    overlap = {"hits": 3, "neighbours": 0, "first_class": 9, "first_class_sentences": 1, "heading": "CHAPTER"}
    llm = Explorer({"a": [["one", "leg"]]})
    after = run(llm, "a", stories=[story], overlap=overlap, judge=None, rounds=1, marker="Look:")
    assert found(after) == [["CHAPTER 1", "A leg.", "CHAPTER 2", "Look: One leg."]]


WORDS = ["whale", "ship", "leg", "rain", "harpoon", "sea", "zebra"]


@settings(max_examples=30, deadline=None)
@given(st.permutations(range(5)), st.integers(1, 5), st.integers(0, 3))
def test_a_question_is_explored_alike_alone_and_among_others(order: list[int], size: int, judge: int) -> None:
    """Whoever shares its batch, and in whichever order, when some end early and others do not."""

    def explorer() -> Callable[..., pa.Table]:
        words = {f"q{n}?": [[WORDS[n]], [WORDS[n + 1]], [WORDS[n + 2]]] for n in range(5)}
        llm = Explorer(words, {f"q{n}?": WORDS[(n + judge) % 7] for n in range(5)})
        return ready(Explore.model_validate({**CONFIG, "source": "story"}), StubEnv(llm=llm))

    table = questions(*(f"q{n}?" for n in range(5)), story=([STORY] * 5, pa.string()))
    together = explorer()(table)
    apart = explorer()(table.take(order[:size]))
    for column in ("passages", "rounds"):
        assert apart[column].to_pylist() == together[column].take(order[:size]).to_pylist()
    assert notes(apart) == [notes(together)[n] for n in order[:size]]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"source": None}, "one of source"),
        ({"document": "embedded:world-factbook"}, "not both"),
        ({"reserve": 1000}, "below max_context"),
        ({"judge": {"llm": "judge"}}, "prompt"),
        ({"overlap": {**CONFIG["overlap"], "hits": 0}}, "greater than 0"),
    ],
)
def test_settings_that_make_no_sense(changes: dict, message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        Explore.model_validate({**CONFIG, **changes})
