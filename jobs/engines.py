"""Environments for jobs that run many systems: one at a time is up, for variants of the same models and indexes."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

from jobs.options import Executor, Say
from pipeline.env import Method
from pipeline.execute import Part
from pipeline.plaid.manifest import Manifest
from pipeline.profile import Profile
from pipeline.stage import Stage
from pipeline.sweep.variants import Checked


class Engines:
    """`sweep.execute.Engine` for checked variants. An environment starts when a stage has work for it; `close` ends it.

    It holds what any of the variants with its models and indexes asks for, so that none of them loads a model again.
    """

    def __init__(
        self,
        variants: Sequence[Checked],
        manifests: Mapping[str, Mapping[str, Manifest]],
        executor: Executor,
        say: Say,
    ) -> None:
        """`manifests`: variant name -> index name -> manifest."""
        self._manifests, self._executor, self._say = manifests, executor, say
        self._roles: dict[str, dict[str, str]] = {}
        self._methods: dict[str, dict[str, set[Method]]] = {}
        for one in variants:
            key = self._key(one.profile, manifests[one.variant.name])
            self._roles.setdefault(key, {}).update(one.system.roles())
            methods = self._methods.setdefault(key, {})
            for index, ways in one.system.methods().items():
                methods[index] = methods.get(index, set()) | ways
        self._up: tuple[str, Any] | None = None

    def run(self, one: Checked, stages: Sequence[Stage], parts: Iterator[Part], given: pa.Schema) -> Iterator[Part]:
        env = self._env(one.profile, self._manifests[one.variant.name])
        columns = dict(zip(given.names, given.types, strict=True))
        if self._executor == "ray":
            from ray_cluster.execute import run_on_ray

            return run_on_ray(stages, env, parts, given=columns)
        from pipeline.execute import run_local

        return run_local(stages, env, parts, given=columns)

    def close(self) -> None:
        if self._up is not None:
            env, self._up = self._up[1], None
            (env.stop if self._executor == "ray" else env.close)()

    def _env(self, profile: Profile, manifests: Mapping[str, Manifest]) -> Any:
        key = self._key(profile, manifests)
        if self._up is not None and self._up[0] == key:
            return self._up[1]
        self.close()
        if self._executor == "ray":
            from ray_cluster.pools import RayEnv

            env: Any = RayEnv.start(profile, self._roles[key], manifests, methods=self._methods[key], say=self._say)
        else:
            from pipeline.local import LocalEnv

            places = {name: manifest.home.place for name, manifest in manifests.items()}
            env = LocalEnv(profile, places, self._methods[key])
        self._up = key, env
        return env

    @staticmethod
    def _key(profile: Profile, manifests: Mapping[str, Manifest]) -> str:
        places = {name: str(manifest.home) for name, manifest in manifests.items()}
        return json.dumps([profile.model_dump(mode="json"), places], sort_keys=True)


def join_cluster(variants: Sequence[Checked], address: str | None) -> None:
    """Starts or joins Ray with room for the most demanding variant."""
    from ray_cluster.connect import connect
    from ray_cluster.pools import demand

    wants = []
    for one in variants:
        alike = [other.system for other in variants if other.profile == one.profile]
        methods: dict[str, set[Method]] = {}
        for system in alike:
            for index, ways in system.methods().items():
                methods[index] = methods.get(index, set()) | ways
        wants.append(demand(one.profile, {role for system in alike for role in system.roles()}, methods))
    connect(address, max(cpus for cpus, _ in wants), max(gpus for _, gpus in wants))
