import pickle
import time
from collections.abc import Iterator

import numpy as np
import pytest
import ray

from pipeline.env import ChatRequest, EngineError, Reading, ReadRequest, SearchRequest
from pipeline.errors import InputError
from pipeline.profile import ModelSpec, Profile
from ray_cluster.pools import RayEnv, demand
from tests.ray_cluster.stubs import MAKERS, MANIFEST, SCORES

pytestmark = pytest.mark.usefixtures("ray_session")


def profile(source: str = "fine", **roles: str) -> Profile:
    spec = ModelSpec(engine="vllm", source=source, cpus=0.5)
    encoder = ModelSpec(engine="late-interaction", source="fine", cpus=0.25)
    return Profile(
        models={"m": spec, "e": encoder},
        roles=roles or {"query_writer": "m", "answerer": "m", "retriever": "e"},
        search_workers=2,
        search_cpus=0.25,
    )


def ask(*texts: str) -> list[ChatRequest]:
    return [ChatRequest(({"role": "user", "content": text},), 8) for text in texts]


@pytest.fixture(scope="module")
def env() -> Iterator[RayEnv]:
    said: list[str] = []
    env = RayEnv.start(
        profile(), ["query_writer", "answerer"], {"plaid": MANIFEST}, makers=MAKERS, say=said.append, timeout_s=60
    )
    assert said == ["loading model 'm' (fine) x 1, model 'e' (fine) x 1, index 'plaid' (stub) x 2"]
    yield env
    env.stop()
    env.stop()


def test_roles_of_one_model_share_one_engine(env: RayEnv) -> None:
    answers = [env.llm(role).chat(ask("a", "b")) for role in ("query_writer", "answerer")]
    assert answers[0] == answers[1]
    assert [completion.prompt for completion in answers[0]] == ["a", "b"]
    assert answers[0][0].text.split("|")[1] == answers[0][1].text.split("|")[1]


def test_an_environment_travels_to_other_processes(env: RayEnv) -> None:
    assert pickle.loads(pickle.dumps(env)).llm("answerer").chat(ask("a")) == env.llm("answerer").chat(ask("a"))


def test_the_clients_answer_as_the_engines_do(env: RayEnv) -> None:
    llm = env.llm("answerer")
    assert llm.max_model_len == 128
    assert llm.count_tokens([{"role": "user", "content": "abcde"}]) == 5
    assert llm.chat([]) == []
    vectors = env.embedder("query_writer").embed(["a", "bcd"])
    assert vectors.dtype == np.float32
    assert vectors[:, 0].tolist() == [1, 3]


def test_scorers_and_readers_answer_as_the_engines_do(env: RayEnv) -> None:
    scorer = env.scorer("answerer")
    pairs = [("ab", "c"), ("abcde", "fg")]
    assert [logs.tolist() for logs in scorer.log_likelihoods(pairs)] == [[-2], [-5, -5]]
    assert scorer.log_likelihoods([]) == []
    assert scorer.cuts(pairs) == [0, 2]
    assert scorer.next_token(["a"], ["b", "cd"]).tolist() == [[-2, -3]]
    with pytest.raises(EngineError, match="no divergences here"):
        scorer.divergences([("a", "b", "c")])
    reader = env.reader("answerer")
    assert reader.read([ReadRequest(("x", "y"), 7)]) == [Reading("x y", "stop", 1, 7)]
    assert reader.read([]) == []


def test_what_a_model_raises_arrives_as_it_was(env: RayEnv) -> None:
    with pytest.raises(ValueError, match="cannot say that") as caught:
        env.llm("answerer").chat(ask("refuse"))
    assert type(caught.value) is ValueError


def test_all_shards_are_asked_and_merged_by_score_then_pid(env: RayEnv) -> None:
    found = env.searcher("plaid").search(SearchRequest(["ab", "c", "ab"], 4, {"times": 2}))
    assert [[hit["pid"] for hit in hits] for hits in found] == [[1, 3, 5, 4]] * 3
    assert [hit["score"] for hit in found[0]] == [20, 20, 20, 12]
    assert [hit["score"] for hit in found[1]] == [19, 19, 19, 11]
    assert found[0] == found[2]
    assert [hit["rank"] for hit in found[0]] == [0, 1, 2, 3]
    assert found[0][2]["text"] == "text 5"
    assert len({hit["url"] for hit in found[0]}) == 2, "two actors hold the three shards"


def test_k_larger_than_the_collection_returns_the_collection(env: RayEnv) -> None:
    (hits,) = env.searcher("plaid").search(SearchRequest(["q"], 100))
    assert len(hits) == len(SCORES)
    assert env.searcher("plaid").search(SearchRequest([], 3)) == []


def test_bm25_needs_no_retriever() -> None:
    said: list[str] = []
    env = RayEnv.start(
        profile(), [], {"plaid": MANIFEST}, methods={"plaid": {"bm25"}}, makers=MAKERS, say=said.append, timeout_s=60
    )
    try:
        assert said == ["loading index 'plaid' (stub) x 2"]
        found = env.searcher("plaid").search(SearchRequest(["five words are in here", "", "one"], 4, method="bm25"))
        assert [[hit["pid"] for hit in hits] for hits in found] == [[0, 1, 2, 3], [], [0]]
        with pytest.raises(ValueError, match=r"index 'plaid' \(stub\) was not opened for plaid"):
            env.searcher("plaid").search(SearchRequest(["a"], 1))
    finally:
        env.stop()


def test_never_more_searchers_than_shards() -> None:
    wide = profile().model_copy(update={"search_workers": 9, "search_cpus": 0.0})
    said: list[str] = []
    RayEnv.start(wide, [], {"plaid": MANIFEST}, makers=MAKERS, say=said.append).stop()
    assert said[0].endswith("index 'plaid' (stub) x 3")


def test_a_call_that_kills_the_model_is_an_engine_error_and_not_a_hang() -> None:
    env = RayEnv.start(profile(), ["answerer"], makers=MAKERS, say=lambda _: None, timeout_s=60)
    try:
        started = time.monotonic()
        with pytest.raises(EngineError, match=r"model 'm' \(fine\) is gone: The actor"):
            env.llm("answerer").chat(ask("die"))
        assert time.monotonic() - started < 60
    finally:
        env.stop()


def test_a_model_that_does_not_answer_is_waited_for_a_bounded_time() -> None:
    env = RayEnv.start(profile(), ["answerer"], makers=MAKERS, say=lambda _: None, timeout_s=0.5)
    try:
        with pytest.raises(EngineError, match=r"model 'm' \(fine\): no answer within 0.5 s"):
            env.llm("answerer").chat(ask("sleep"))
    finally:
        env.stop()


@pytest.mark.parametrize(
    ("source", "kind", "message"),
    [
        ("absent", InputError, "^models.m: no folder 'absent'; give a folder or a hub id$"),
        (
            "broken",
            EngineError,
            r"model 'm' \(broken\) could not be loaded: ValueError: the weights have another shape",
        ),
        ("slow", EngineError, r"model 'm' \(slow\): 1 of 1 actors were not ready in time"),
    ],
)
def test_a_model_that_does_not_load_is_named(source: str, kind: type[Exception], message: str) -> None:
    limit = 2 if source == "slow" else 60
    with pytest.raises(kind, match=message):
        RayEnv.start(profile(source), ["answerer"], makers=MAKERS, load_timeout_s=limit, say=lambda _: None)


def test_a_replica_no_node_can_hold_is_refused_at_once() -> None:
    large = profile().model_copy(update={"models": {"m": ModelSpec(engine="vllm", source="fine", cpus=64)}})
    with pytest.raises(InputError, match=r"models.m: a replica wants 64 CPUs and 0 GPUs on one node"):
        RayEnv.start(large, ["answerer"], makers=MAKERS)


def test_stopped_pools_give_their_cpus_back() -> None:
    deadline = time.monotonic() + 20
    env = RayEnv.start(profile(), ["answerer"], makers=MAKERS, say=lambda _: None)
    before = ray.available_resources().get("CPU", 0)
    env.stop()
    while ray.available_resources().get("CPU", 0) < before + 0.5 and time.monotonic() < deadline:
        time.sleep(0.2)
    assert ray.available_resources().get("CPU", 0) >= before + 0.5


def test_demand_counts_a_shared_model_once() -> None:
    two, writing = {"a": ["plaid"], "b": ["bm25"]}, ["query_writer", "answerer"]
    assert demand(profile(), writing, {}) == (0.5, 0)
    assert demand(profile(), writing, two) == (0.5 + 0.25 + 2 * 2 * 0.25, 0)
    assert demand(profile(), ["answerer"], {"a": ["bm25"]}) == (0.5 + 2 * 0.25, 0)
    dense = profile(answerer="m", dense_retriever="e")
    assert demand(dense, ["answerer"], {"a": ["dense", "bm25"]}) == (0.5 + 0.25 + 2 * 0.25, 0)
    gpus = ModelSpec(engine="vllm", source="x", gpus=0.5, replicas=3)
    assert demand(Profile(models={"m": gpus}, roles={"answerer": "m"}), ["answerer"], {}) == (3, 1.5)
