"""ELITE's presets: the paper's numbers, what sets them apart, and a run from keywords to votes over the book."""

import json
from typing import Any

import pytest

from pipeline.compose import load_profile, load_system
from pipeline.execute import run_local
from pipeline.schema import BASE
from tests.stubs import StubEnv, StubLLM, questions, said

PRESETS = ("elite", "elite-book", "elite-as-released")


def settings(preset: str, stage: str) -> dict[str, Any]:
    stages: list[dict[str, Any]] = load_system(preset).resolved["stages"]
    return next(entry[stage] for entry in stages if stage in entry)


@pytest.mark.parametrize("preset", PRESETS)
def test_the_papers_numbers(preset: str) -> None:
    overlap = settings(preset, "explore")["overlap"]
    assert (overlap["hits"], overlap["neighbours"]) == (25, 2)
    assert (overlap["first_class"], overlap["first_class_sentences"]) == (5, 10)
    assert settings(preset, "vote")["voter_num"] == 10
    assert settings(preset, "explore")["max_context"] == 21145


def test_the_same_system_over_an_index_and_over_a_book() -> None:
    over_index, over_book = settings("elite", "explore"), settings("elite-book", "explore")
    different = {key for key in over_index if over_index[key] != over_book[key]}
    assert different == {"source", "document", "given"}
    assert settings("elite", "vote") == settings("elite-book", "vote")


def test_as_released_is_a_single_pass() -> None:
    explore = settings("elite-as-released", "explore")
    assert (explore["rounds"], explore["judge"], explore["importance"]) == (1, None, None)
    assert explore["overlap"]["heading"] == "CHAPTER"


@pytest.mark.parametrize("profile", ["embedded", "paper"])
@pytest.mark.parametrize("preset", PRESETS)
def test_the_profiles_have_its_roles(preset: str, profile: str) -> None:
    assert load_system(preset, load_profile(profile)).roles()


def test_any_system_can_vote(tmp_path: Any) -> None:
    path = tmp_path / "rag-votes.yaml"
    path.write_text(
        "stages:\n"
        "  - search: {index: plaid, queries: question, k: 5, into: passages}\n"
        "  - vote: {llm: answerer, prompt: report, evidence: passages, max_words: 200, voter_num: 5}\n"
    )
    assert load_system(path, load_profile("embedded")).columns["confidence"] is not None


def test_from_keywords_to_votes_over_the_book() -> None:
    """Two questions of the book in one run: one that is counted, one that takes two rounds."""

    def reply(request: Any) -> str:
        text = said(request)
        if "how often a word occurs" in text:
            return "yes" if "saffron" in text else "no"
        if "has to be counted" in text:
            return "saffron"
        if "List every form" in text:
            return '["saffron"]'
        if "searched by words" in text:
            return '["Khuiten", "Orgil"]' if "already" in text else '["highest", "point"]'
        if "without guessing" in text:
            return "yes" if "Nayramadlin Orgil" in text else "no"
        if "one short sentence" in text:
            return "a summary"
        return "4" if "mentions of" in text else f"Nayramadlin Orgil{'!' * ((request.seed or 0) % 2)}"

    system = load_system("elite-book", sets=["vote.voter_num=3", "explore.max_context=4000"])
    asked = ["How often is saffron mentioned?", "What is the highest point in Mongolia?"]
    llm = StubLLM(reply, max_model_len=8192)
    ((_, after),) = run_local(system.stages, StubEnv(llm=llm), [(0, questions(*asked).select(list(BASE)))])
    counted, explored = after.to_pylist()
    assert (counted["answer"], counted["confidence"], counted["rounds"]) == ("4", 1.0, [])
    assert json.dumps(counted["mentions"]) == '{"keyword": "saffron", "forms": ["saffron"], "count": 4}'
    assert explored["answer"].rstrip("!") == "Nayramadlin Orgil"
    assert [entry["verdict"] for entry in explored["rounds"]] == ["not enough", "enough"]
    assert any("Nayramadlin Orgil" in passage["text"] for passage in explored["passages"])
    assert explored["error"] is counted["error"] is None
