"""Everything in this process: the environment of the local executor, and the one place where models are made."""

from collections.abc import Collection, Mapping
from pathlib import Path
from threading import RLock
from typing import Any, cast

from pipeline.env import BY_PLAID, LLM, Embedder, Engines, Method, Reader, Scorer, Searcher
from pipeline.errors import InputError
from pipeline.profile import DENSE_RETRIEVER, RETRIEVER, ModelSpec, Profile


def make_model(spec: ModelSpec) -> Any:
    """The loaded model: VllmEngine, EndpointLLM, TransformersEngine, FidReader, LateInteractionEncoder or
    SentenceEmbedder.

    Imports what that one needs.
    """
    if spec.engine == "vllm":
        from pipeline.models.llm import VllmEngine

        return VllmEngine(spec)
    if spec.engine == "openai":
        from pipeline.models.endpoint import EndpointLLM

        return EndpointLLM(spec)
    if spec.engine == "transformers":
        from pipeline.models.generation import TransformersEngine

        return TransformersEngine(spec)
    if spec.engine == "fid":
        from pipeline.models.fid import FidReader

        return FidReader(spec)
    from pipeline.models.resolve import resolve_model

    folder = resolve_model(spec.source, spec.revision)
    threads = max(1, int(spec.cpus))
    if spec.engine == "late-interaction":
        from pipeline.plaid.encoder import LateInteractionEncoder

        return LateInteractionEncoder(
            folder,
            dtype=spec.dtype,
            batch_tokens=spec.batch_tokens,
            threads=threads,
            doc_maxlen=spec.doc_maxlen,
        )
    from pipeline.models.embedder import SentenceEmbedder

    return SentenceEmbedder(folder, dtype=spec.dtype, threads=threads, trust_remote_code=spec.trust_remote_code)


class LocalEnv:
    """`env.Env` in this process. Each model of the profile is loaded once, when first asked for; roles share it."""

    def __init__(
        self,
        profile: Profile,
        indexes: Mapping[str, str | Path],
        methods: Mapping[str, Collection[Method]] | None = None,
    ) -> None:
        """`indexes`: the paths behind the index names that a system uses. `methods`: how each is searched; not named:
        plaid. A retriever is loaded only where an index is searched by its method."""
        self._profile, self._methods = profile, dict(methods or {})
        self._indexes = dict(indexes)
        self._models: dict[str, Any] = {}
        self._searchers: dict[str, Searcher] = {}
        self._lock = RLock()  # stages may run in several threads; a model must not be loaded twice

    def searcher(self, index: str) -> Searcher:
        """The index opened, for plaid and dense with the profile's retrievers to encode its queries."""
        if index not in self._indexes:
            raise InputError(
                f"there is no index '{index}' in this run (there are: {_listed(self._indexes)}); "
                f"name its path with --index {index}=PATH"
            )
        with self._lock:
            if index not in self._searchers:
                from pipeline.plaid.index import LocalSearcher

                methods = self._methods.get(index, BY_PLAID)
                encoder = self.encoder(RETRIEVER) if "plaid" in methods else None
                embedder = self.embedder(DENSE_RETRIEVER) if "dense" in methods else None
                self._searchers[index] = LocalSearcher(self._indexes[index], encoder, methods, embedder)
            return self._searchers[index]

    def llm(self, role: str) -> LLM:
        return cast(LLM, self._model(role, "llm"))

    def embedder(self, role: str) -> Embedder:
        return cast(Embedder, self._model(role, "embedder"))

    def scorer(self, role: str) -> Scorer:
        return cast(Scorer, self._model(role, "scorer"))

    def reader(self, role: str) -> Reader:
        return cast(Reader, self._model(role, "reader"))

    def encoder(self, role: str) -> Any:
        """The LateInteractionEncoder behind `role`."""
        return self._model(role, "encoder")

    def engines(self) -> Engines:
        """The models that are loaded; up are those that have not ended. Waits for none that is being loaded."""
        models = list(self._models.values())
        up = sum(model.alive() if hasattr(model, "alive") else True for model in models)
        return Engines(up, len(models), sum(getattr(model, "finished", 0) for model in models))

    def close(self) -> None:
        """Shuts down the engines and lets go of everything that was loaded."""
        with self._lock:
            for model in self._models.values():
                if hasattr(model, "shutdown"):
                    model.shutdown()
            self._models.clear()
            self._searchers.clear()

    def _model(self, role: str, kind: str) -> Any:
        profile = self._profile
        if role not in profile.roles:
            raise InputError(
                f"profile '{profile.name}' has no role '{role}' (it has: {_listed(profile.roles)}); "
                f"add it under `roles:` with the name of one of its models"
            )
        spec = profile.model(role)
        if kind not in spec.kinds:
            raise InputError(
                f"profile '{profile.name}': role '{role}' is asked for as {kind}, "
                f"and its model '{profile.roles[role]}' (engine {spec.engine}) is a {' or '.join(spec.kinds)}"
            )
        with self._lock:
            name = profile.roles[role]
            if name not in self._models:
                self._models[name] = make_model(spec)
            return self._models[name]


def _listed(names: Mapping[str, Any]) -> str:
    return ", ".join(names) or "none"
