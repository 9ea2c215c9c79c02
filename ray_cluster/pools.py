"""The environment of stages on a cluster: one pool of actors for each model and each index, shared by whoever asks.

A model is loaded once (per replica), however many roles, stages and stage workers use it. Stage workers hold clients,
whose calls wait a bounded time. A replica that dies is restarted and its requests are sent again; a request that kills
every engine it meets fails alone; a model or searcher that is gone for good ends the job as EngineError.
"""

import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import ray

from pipeline.env import BY_PLAID, ChatRequest, Completion, Engines, Method, Reading, ReadRequest, SearchRequest
from pipeline.errors import InputError
from pipeline.plaid.manifest import Manifest
from pipeline.profile import DENSE_RETRIEVER, RETRIEVER, RETRIEVERS, ModelSpec, Profile
from ray_cluster.actors import ModelActor, SearchActor, new_actor
from ray_cluster.replicas import TRIES, Pool, ReplicaLost

LLM_CALLS = 16  # stage workers whose requests one engine batches together


@dataclass(frozen=True)
class Makers:
    """Where actors find what builds their contents, as `module:function`."""

    model: str = "pipeline.local:make_model"  # (ModelSpec) -> an engine
    shards: str = "pipeline.plaid.index:IndexShards"  # (manifest, shard names, methods) -> IndexShards


class ModelClient:
    """`LLM`, `Embedder`, `Scorer` or `Reader` of a stage worker."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self.max_model_len: int = pool.facts.get("max_model_len") or 0

    def chat(self, requests: Sequence[ChatRequest]) -> list[Completion]:
        """A replica that dies under a batch: sent again whole, then each request alone, to find the one that kills."""
        try:
            return _with_queue(*self._pool.serve("chat", list(requests))) if requests else []
        except ReplicaLost:
            return [self._chat_alone(request) for request in requests]

    def count_tokens(self, messages: Sequence[dict[str, str]]) -> int:
        """A call of its own (about a millisecond), beside the generations under way: the engine has the template."""
        return self._pool.aside("count_tokens", list(messages))

    def embed(self, texts: Sequence[str]) -> np.ndarray:
        return self._pool.ask("embed", list(texts))

    def log_likelihoods(self, pairs: Sequence[tuple[str, str]]) -> list[np.ndarray]:
        return self._pool.ask("log_likelihoods", list(pairs)) if pairs else []

    def divergences(self, triples: Sequence[tuple[str, str, str]]) -> np.ndarray:
        return self._pool.ask("divergences", list(triples))

    def next_token(self, prompts: Sequence[str], options: Sequence[str]) -> np.ndarray:
        return self._pool.ask("next_token", list(prompts), list(options))

    def cuts(self, pairs: Sequence[tuple[str, str]]) -> list[int]:
        return self._pool.aside("cuts", list(pairs)) if pairs else []

    def read(self, requests: Sequence[ReadRequest]) -> list[Reading]:
        return self._pool.ask("read", list(requests)) if requests else []

    def _chat_alone(self, request: ChatRequest) -> Completion:
        try:
            return _with_queue(*self._pool.serve_alone("chat", [request]))[0]
        except ReplicaLost as problem:
            return Completion.failed(f"the engine died {TRIES} times over this request, alone in it: {problem}")


def _with_queue(completions: list[Completion], queue_s: float) -> list[Completion]:
    return [replace(one, seconds=one.seconds + queue_s, queue_s=one.queue_s + queue_s) for one in completions]


class IndexClient:
    """`Searcher` of a stage worker: queries encoded once, all shards asked, text fetched for the merged top k only."""

    def __init__(self, pool: Pool, encoder: Pool | None, embedder: Pool | None = None) -> None:
        self._pool, self._encoder, self._embedder = pool, encoder, embedder

    def search(self, request: SearchRequest) -> list[list[dict[str, Any]]]:
        from pipeline.plaid.hits import merge_hits
        from pipeline.plaid.index import hits

        queries = list(dict.fromkeys(request.queries))
        if not queries:
            return []
        rankings = merge_hits(self._found(queries, request), request.k)
        wanted = sorted({int(pid) for pids, _ in rankings for pid in pids})
        passages = {pid: row for part in self._pool.ask_all("passages", wanted) for pid, row in part.items()}
        found = dict(zip(queries, rankings, strict=True))
        return [hits(found[query], passages) for query in request.queries]

    def _found(self, queries: list[str], request: SearchRequest) -> list[Any]:
        """[actor][query] Hits."""
        if request.method == "bm25":
            from pipeline.lexical.search import query_keys

            return self._pool.ask_all("bm25", [query_keys(query) for query in queries], request.k)
        model = self._embedder if request.method == "dense" else self._encoder
        if model is None:
            raise ValueError(f"{self._pool.what} was not opened for {request.method}")
        if request.method == "dense":
            return self._pool.ask_all("dense", model.ask("embed", queries), request.k, dict(request.settings))
        vectors = model.ask("encode_queries", queries)
        return self._pool.ask_all("search", vectors, request.k, dict(request.settings))


class RayEnv:
    """`Env` over actor pools. Picklable: every stage worker gets a copy, whose clients share the pools."""

    def __init__(self, models: dict[str, Pool], roles: dict[str, str], indexes: dict[str, Pool]) -> None:
        self._models, self._roles, self._indexes = models, roles, indexes

    @classmethod
    def start(
        cls,
        profile: Profile,
        roles: Iterable[str],
        indexes: Mapping[str, Manifest] | None = None,
        *,
        methods: Mapping[str, Collection[Method]] | None = None,
        makers: Makers = Makers(),
        timeout_s: float = 1800,
        load_timeout_s: float = 1800,
        say: Callable[[str], None] = print,
    ) -> "RayEnv":
        """Starts the pools that `roles` and `indexes` (name -> manifest) need, and returns when all are ready.

        `methods`: how each index is searched; not named: plaid. It needs the retriever's pool, dense that of the
        dense retriever, bm25 none. Two roles of one model share its pool, which is ready when `min_replicas` are up.
        Searchers: `profile.search_workers` an index, never more than it has shards, which are dealt in turn.
        `timeout_s` bounds each later call, `load_timeout_s` the wait here. Raises InputError for what is wrong with a
        model or index, EngineError for one that does not come up; both name it.
        """
        indexes = dict(indexes or {})
        opened = {name: tuple((methods or {}).get(name, BY_PLAID)) for name in indexes}
        wanted = _roles(roles, opened)
        env = cls({}, {role: profile.roles[role] for role in wanted}, {})
        try:
            for model in dict.fromkeys(env._roles.values()):
                spec = profile.models[model]
                actors = [_model_actor(spec, model, makers) for _ in range(spec.replicas)]
                env._models[model] = Pool(f"model '{model}' ({spec.source})", actors, timeout_s)
            for name, manifest in indexes.items():
                dealt = _deal(manifest.shard_names(), profile.search_workers)
                actors = [_search_actor(profile, manifest, shards, opened[name], makers) for shards in dealt]
                env._indexes[name] = Pool(f"index '{name}' ({manifest.home})", actors, timeout_s)
            pools = [*env._models.values(), *env._indexes.values()]
            say("loading " + ", ".join(f"{pool.what} x {len(pool.actors)}" for pool in pools))
            deadline = time.monotonic() + load_timeout_s
            for model, pool in env._models.items():
                pool.fill(deadline, profile.models[model].min_replicas)
            for pool in env._indexes.values():
                pool.fill(deadline)
        except BaseException:
            env.stop()
            raise
        return env

    def llm(self, role: str) -> ModelClient:
        return ModelClient(self._models[self._roles[role]])

    def embedder(self, role: str) -> ModelClient:
        return ModelClient(self._models[self._roles[role]])

    def scorer(self, role: str) -> ModelClient:
        return ModelClient(self._models[self._roles[role]])

    def reader(self, role: str) -> ModelClient:
        return ModelClient(self._models[self._roles[role]])

    def searcher(self, index: str) -> IndexClient:
        encoder, embedder = (
            self._models[self._roles[role]] if role in self._roles else None for role in (RETRIEVER, DENSE_RETRIEVER)
        )
        return IndexClient(self._indexes[index], encoder, embedder)

    def engines(self) -> Engines:
        """The replicas of its models. Waits for none."""
        found = [pool.engines() for pool in self._models.values()]
        return Engines(*map(sum, zip(*found, strict=True))) if found else Engines(0, 0, 0)

    def stop(self) -> None:
        """Ends every actor of every pool. Stopping twice is fine."""
        for pool in [*self._models.values(), *self._indexes.values()]:
            for actor in pool.actors:
                ray.kill(actor)
            pool.actors.clear()


def demand(profile: Profile, roles: Iterable[str], methods: Mapping[str, Collection[Method]]) -> tuple[float, float]:
    """(CPUs, GPUs) that `RayEnv.start` needs for these roles and indexes; `connect` wants them. Of a model with
    `min_replicas` these count, for the others start when there is room.

    `methods`: how each index is searched.
    """
    models = {profile.roles[role] for role in _roles(roles, methods)}
    specs = [profile.models[model] for model in models]
    cpus = sum((spec.min_replicas or spec.replicas) * spec.cpus for spec in specs)
    gpus = sum((spec.min_replicas or spec.replicas) * spec.gpus for spec in specs)
    return cpus + len(methods) * profile.search_workers * profile.search_cpus, gpus


def _roles(roles: Iterable[str], methods: Mapping[str, Collection[Method]]) -> list[str]:
    """`roles`, and those of the retrievers that searching needs."""
    ways = {method for used in methods.values() for method in used}
    return list(dict.fromkeys([*roles, *(role for method, (role, _) in RETRIEVERS.items() if method in ways)]))


def _deal(shards: Sequence[str], workers: int) -> list[list[str]]:
    """Shards in turn to at most `workers` hands, none empty."""
    hands = max(1, min(workers, len(shards)))
    return [list(shards[hand::hands]) for hand in range(hands)]


def _model_actor(spec: ModelSpec, model: str, makers: Makers) -> Any:
    _check_fits(f"models.{model}", spec.cpus, spec.gpus)
    calls = LLM_CALLS if spec.kind == "llm" else 1  # any other's forward pass already uses all of its threads
    return new_actor(ModelActor, makers.model, (spec,), calls=calls, cpus=spec.cpus, gpus=spec.gpus)


def _search_actor(
    profile: Profile, manifest: Manifest, shards: list[str], methods: tuple[Method, ...], makers: Makers
) -> Any:
    arguments = (manifest, shards, methods)
    return new_actor(SearchActor, makers.shards, arguments, calls=1, cpus=profile.search_cpus, gpus=0)


def _check_fits(what: str, cpus: float, gpus: float) -> None:
    """A replica lives on one node: the cluster's total says nothing of it."""
    nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    if not any(node.get("CPU", 0) >= cpus and node.get("GPU", 0) >= gpus for node in nodes):
        raise InputError(
            f"{what}: a replica wants {cpus:g} CPUs and {gpus:g} GPUs on one node, and no node of the cluster has "
            f"both; set {what}.cpus or {what}.gpus lower, or join a cluster of larger nodes"
        )
