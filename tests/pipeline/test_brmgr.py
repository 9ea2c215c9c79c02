"""The systems brmgr, brmgr-fid and hyde-rerank as they ship, from question to answer on stubs."""

from typing import Any

import pyarrow as pa
import pytest

from pipeline.compose import load_profile, load_system
from pipeline.env import ChatRequest, SearchRequest
from tests.stubs import StubEnv, StubLLM, StubScorer, StubSearcher, hit, questions, ready, said, timeless

TEXTS = ["who is a ?", "where is b ?", "what is c c ?", "nothing there"]
SYSTEMS = ["brmgr", "brmgr-fid", "hyde-rerank"]


class Index(StubSearcher):
    """Per query four passages, others by bm25 than by vectors; of "nothing" there is none."""

    def search(self, request: SearchRequest) -> list[list[dict[str, Any]]]:
        self.requests.append(request)
        return [self._hits(query, request.method) for query in request.queries]

    def _hits(self, query: str, method: str) -> list[dict[str, Any]]:
        if "nothing" in query:
            return []
        first = len(query.split()) + (2 if method == "bm25" else 0)
        return [hit(first + n, f"text {first + n}", score=9.0 - n) for n in range(4)]


def reply(request: ChatRequest) -> str:
    return f"words {(request.seed or 0) % 97} for {len(said(request))}"


def log_p(context: str, continuation: str) -> float:
    return -1 - sum(map(ord, context + continuation)) % 89 / 89


def run(name: str, order: list[int], sets: list[str]) -> dict[str, dict[str, Any]]:
    """Rows by id, without their timings."""
    profile = load_profile("paper")
    env = StubEnv(Index(), StubLLM(reply), scorer=StubScorer(log_p, yes=lambda prompt: len(prompt) % 5 / 2))
    table = questions(*TEXTS).take(pa.array(order))
    for stage in load_system(name, profile, sets).stages:
        table = ready(stage, env)(table)
    rows = [timeless(row) for row in table.to_pylist()]
    assert [row["id"] for row in rows] == [f"q{n}" for n in order]
    return {row["id"]: row for row in rows}


@pytest.mark.parametrize("name", SYSTEMS)
def test_every_question_comes_out_whatever_its_neighbours_and_order(name: str) -> None:
    together = run(name, [0, 1, 2, 3], [])
    assert run(name, [3, 1, 0, 2], []) == together
    assert {id: row for n in range(4) for id, row in run(name, [n], []).items()} == together
    assert [row["error"] for row in together.values()] == [None] * 4
    assert together["q3"]["finish_reason"] == "abstained"  # nothing was retrieved
    assert all(row["answer"] and row["finish_reason"] == "stop" for id, row in together.items() if id != "q3")


@pytest.mark.parametrize("how", ["rank", "random", "reversed", "hungarian"])
def test_pairings_differ_in_nothing_but_the_pairs(how: str) -> None:
    row = run("brmgr", [0, 1], [f"pair.how={how}", "pair.seed=3"])["q0"]
    rank = run("brmgr", [0, 1], [])["q0"]
    assert [pair["pid"] for pair in row["pairs"]] == [pair["pid"] for pair in rank["pairs"]]
    assert {pair["draft"] for pair in row["pairs"]} == {pair["draft"] for pair in rank["pairs"]}
    assert (row["pairs"] == rank["pairs"]) == (how == "rank")


def test_both_lists_are_ranked_by_likelihood() -> None:
    row = run("brmgr", [0], [])["q0"]
    for column, size in (("passages", 4), ("drafts", 10)):
        scores = [passage["score"] for passage in row[column]]
        assert scores == sorted(scores, reverse=True)
        assert len(scores) == size
    assert [pair["pid"] for pair in row["pairs"]] == [passage["pid"] for passage in row["passages"]]
    assert [pair["draft"] for pair in row["pairs"]] == [passage["pid"] for passage in row["drafts"][:4]]


def test_hyde_reranks_both_pools_and_keeps_to_300_words() -> None:
    row = run("hyde-rerank", [0], [])["q0"]
    assert row["hypothetical"].startswith("who is a ?\nwords ")
    assert {p["pid"] for p in row["pool"]} == {p["pid"] for p in row["lexical"] + row["dense"]}
    assert 0 < len(row["passages"]) <= len(row["pool"])
    assert all(passage["score"] >= 0.5 for passage in row["passages"]) or len(row["passages"]) == 1
    assert "at most 300 words" in row["final_prompt"]
