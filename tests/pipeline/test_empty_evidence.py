"""Whatever leaves nothing, the system abstains by its config: the model is not asked, and the row says so."""

from pathlib import Path
from typing import Any

import pytest

from pipeline.compose import load_system
from pipeline.execute import run_local
from pipeline.scoring.score import score_rows
from tests.stubs import StubEmbedder, StubEnv, StubLLM, StubSearcher, hit, questions

SEARCH = "  - search: {index: i, queries: question, k: 3, into: passages}\n"
FILTER = "  - filter_snippets: {embedder: e, min_cosine: 0.5}\n"
CUT = "  - cut: {from: passages, max_words: 1, into: passages}\n"
FUSE = "  - fuse: {dense: passages, lexical: passages, into: passages}\n"
ANSWER = "  - answer: {llm: a, prompt: report, evidence: %s, max_words: 9, abstain_text: Nothing found.%s}\n"
FOUND = [hit(1, "some words")]

# name -> (stages, hits, evidence)
PATHS = {
    "search": (SEARCH, [], "passages"),
    "filter": (SEARCH + FILTER, FOUND, "snippets"),
    "search, then filter": (SEARCH + FILTER, [], "snippets"),
    "cut": (SEARCH + CUT, FOUND, "passages"),
    "fuse": (SEARCH + FUSE, [], "passages"),
}


def answered(folder: Path, stages: str, hits: list[Any], evidence: str, policy: str = "") -> tuple[dict, StubLLM]:
    path = folder / "system.yaml"
    path.write_text("stages:\n" + stages + ANSWER % (evidence, policy))
    llm = StubLLM()
    env = StubEnv(StubSearcher({"who?": hits}), llm, StubEmbedder({"some words": 0.1}))
    ((_, table),) = run_local(load_system(path).stages, env, [(0, questions("who?"))])
    return table.to_pylist()[0], llm


@pytest.mark.parametrize("name", PATHS)
def test_the_model_is_not_asked_and_the_row_says_so(name: str, tmp_path: Path) -> None:
    row, llm = answered(tmp_path, *PATHS[name])
    assert llm.batches == []
    assert (row["answer"], row["finish_reason"], row["final_prompt"]) == ("Nothing found.", "abstained", "")
    assert row["error"] is None
    assert row["trace"][-1]["notes"] == ["abstained: no evidence"]
    assert (row["trace"][-1]["calls"], row["trace"][-1]["kept"]) == (0, 0)
    scores = {line["metric"]: line["mean"] for line in score_rows([row], ["Nothing found"]).summary.to_pylist()}
    assert scores["abstained"] == 1


@pytest.mark.parametrize("name", PATHS)
def test_the_other_policy_asks(name: str, tmp_path: Path) -> None:
    row, llm = answered(tmp_path, *PATHS[name], policy=", when_empty: ask")
    assert len(llm.batches) == 1
    assert row["answer"] == "fine"


@pytest.mark.parametrize("system", ["adobe", "hltcoe", "rag"])
def test_shipped_systems_abstain(system: str) -> None:
    llm = StubLLM(lambda request: '["a query"]')
    loaded = load_system(system)
    policy = next(stage.model_dump() for stage in loaded.stages if stage.name == "answer")
    assert policy["when_empty"] == "abstain"
    env = StubEnv(StubSearcher({}), llm, StubEmbedder({policy["abstain_text"]: 0.0}))
    ((_, table),) = run_local(loaded.stages, env, [(0, questions("who?"))])
    (row,) = table.to_pylist()
    assert (row["answer"], row["finish_reason"]) == (policy["abstain_text"], "abstained")
    assert all("JSON list" in request.messages[-1]["content"] for batch in llm.batches for request in batch)
