"""BM25 on Ray: the same index bytes, and the same hits, as in one process."""

from pathlib import Path

import pytest

from pipeline.env import SearchRequest
from pipeline.errors import UnfinishedError
from pipeline.execute import run_local
from pipeline.lexical import build as lexical
from pipeline.lexical.build import collection_key
from pipeline.local import LocalEnv
from pipeline.models.resolve import resolve_model
from pipeline.plaid import build as steps
from pipeline.plaid.manifest import read_manifest
from pipeline.plaid.plan import freeze_plan
from pipeline.profile import ModelSpec, Profile
from pipeline.stages.search import Search
from pipeline.storage import open_home
from ray_cluster import workers
from ray_cluster.build import Job, build_statistics
from ray_cluster.execute import run_on_ray
from ray_cluster.pools import RayEnv
from ray_cluster.progress import Live
from tests.pipeline.plaid.small_index import SPEC, build_index, documents_of, hashes, plan_of, write_corpus
from tests.ray_cluster.stubs import Recorder, questions

pytestmark = pytest.mark.usefixtures("ray_session")
NO_MODEL = Profile(models={"e": ModelSpec(engine="late-interaction", source="/nowhere")}, roles={"retriever": "e"})


def test_steps_and_search_equal_those_of_one_process(tmp_path: Path) -> None:
    plan = plan_of(write_corpus(tmp_path / "corpus", documents_of()))
    here, there = tmp_path / "here", tmp_path / "there"
    build_index(plan, here)
    home, watch = open_home(there), Recorder()
    freeze_plan(plan, home)
    for name in plan.names():
        steps.passages_step(plan, name, home, resolve_model(SPEC.source))
    for _ in range(2):  # the second time there is nothing to do
        job = Job(plan, home, Live(watch))
        job.shards("lexical", plan.names(), workers.Postings(plan, home), {"num_cpus": 1})
        build_statistics(job, plan.names())
    total = read_manifest(here).passages
    weights = f"weights/{collection_key(plan.names())}"
    assert watch.began == [
        ("lexical", 0, total),
        (weights, 0, total),
        ("lexical", total, total),
        (weights, total, total),
    ]
    assert watch.passages["lexical"] == watch.passages[weights] == total
    build_index(plan, there)
    assert hashes(there) == hashes(here)

    request = SearchRequest(["word3x1 word3x2", "word7x5 word1x1", "nowhere"], 4, method="bm25")
    methods = {"plaid": ["bm25"]}
    nearby = LocalEnv(NO_MODEL, {"plaid": here}, methods)
    local = nearby.searcher("plaid").search(request)
    stage = Search.model_validate(
        {"index": "plaid", "k": 4, "queries": "question", "into": "lexical", "method": "bm25"}
    )
    asked = [(0, questions(*request.queries))]
    env = RayEnv.start(
        NO_MODEL, [], {"plaid": read_manifest(there)}, methods=methods, say=lambda text: None, timeout_s=60
    )
    try:
        assert env.searcher("plaid").search(request) == local
        ((_, there_table),) = run_on_ray([stage], env, asked)
    finally:
        env.stop()
    assert [len(hits) for hits in local] == [2, 4, 0]
    ((_, here_table),) = run_local([stage], nearby, asked)
    assert there_table["lexical"] == here_table["lexical"]
    found = [[(hit["pid"], hit["score"]) for hit in hits] for hits in here_table["lexical"].to_pylist()]
    assert [[pid for pid, _ in hits] for hits in found] == [[hit["pid"] for hit in hits] for hits in local]
    assert here_table["error"].null_count == 3


def test_a_failed_step_names_its_shards(tmp_path: Path) -> None:
    plan, home = plan_of(write_corpus(tmp_path / "corpus", documents_of())), open_home(tmp_path / "index")
    freeze_plan(plan, home)
    for name in plan.names():
        steps.passages_step(plan, name, home, resolve_model(SPEC.source))
    (tmp_path / "index" / "statistics").write_text("in the way")
    job = Job(plan, home, Live(Recorder()))
    for name in plan.names()[:2]:
        lexical.postings_step(plan, name, home)
    with pytest.raises(UnfinishedError, match="step lexical/00002 is not done"):
        build_statistics(job, plan.names())
