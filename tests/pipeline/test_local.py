"""LocalEnv with a counting factory in place of real models."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import pipeline.local
from pipeline.errors import InputError
from pipeline.local import LocalEnv
from pipeline.profile import ModelSpec, Profile

PROFILE = Profile(
    name="small",
    models={
        "colbert": ModelSpec(engine="late-interaction", source="c"),
        "minilm": ModelSpec(engine="sentence-transformers", source="m"),
        "smollm": ModelSpec(engine="vllm", source="s"),
    },
    roles={"retriever": "colbert", "snippet_filter": "minilm", "query_writer": "smollm", "answerer": "smollm"},
)


class Loaded:
    def __init__(self, spec: ModelSpec) -> None:
        self.spec = spec
        self.stopped = 0

    def shutdown(self) -> None:
        self.stopped += 1


@pytest.fixture
def loads(monkeypatch: pytest.MonkeyPatch) -> list[Loaded]:
    made: list[Loaded] = []

    def make(spec: ModelSpec) -> Loaded:
        made.append(Loaded(spec))
        return made[-1]

    monkeypatch.setattr(pipeline.local, "make_model", make)
    return made


def test_two_roles_of_one_model_load_it_once(loads: list[Loaded]) -> None:
    env = LocalEnv(PROFILE, {})
    assert loads == []  # nothing before somebody asks
    assert env.llm("query_writer") is env.llm("answerer")
    assert [model.spec.source for model in loads] == ["s"]
    assert env.embedder("snippet_filter") is not env.llm("answerer")
    assert [model.spec.source for model in loads] == ["s", "m"]


def test_a_searcher_is_opened_once_with_the_retriever(loads: list[Loaded], monkeypatch: pytest.MonkeyPatch) -> None:
    import pipeline.plaid.index

    opened: list[tuple[Path, Any]] = []

    def open_index(path: Path, encoder: Any, methods: Any, embedder: Any) -> object:
        assert (tuple(methods), embedder) == (("plaid",), None)
        opened.append((path, encoder))
        return object()

    monkeypatch.setattr(pipeline.plaid.index, "LocalSearcher", open_index)
    env = LocalEnv(PROFILE, {"plaid": Path("a"), "other": Path("b")})
    assert env.searcher("plaid") is env.searcher("plaid")
    assert env.searcher("other") is not env.searcher("plaid")
    assert [path for path, _ in opened] == [Path("a"), Path("b")]
    assert [model.spec.source for model in loads] == ["c"]
    assert opened[0][1] is opened[1][1] is loads[0]


def test_a_retriever_is_loaded_for_the_methods_that_need_it(
    loads: list[Loaded], monkeypatch: pytest.MonkeyPatch
) -> None:
    import pipeline.plaid.index

    opened: list[tuple[Any, ...]] = []
    monkeypatch.setattr(pipeline.plaid.index, "LocalSearcher", lambda path, *how: opened.append(how))
    LocalEnv(PROFILE, {"plaid": Path("a")}, {"plaid": ["bm25"]}).searcher("plaid")
    assert opened == [(None, ["bm25"], None)]
    assert loads == []
    profile = PROFILE.model_copy(update={"roles": {**PROFILE.roles, "dense_retriever": "minilm"}})
    LocalEnv(profile, {"plaid": Path("a")}, {"plaid": ["dense"]}).searcher("plaid")
    assert [model.spec.source for model in loads] == ["m"]
    assert opened[1] == (None, ["dense"], loads[0])


def test_close_shuts_engines_down_once(loads: list[Loaded]) -> None:
    env = LocalEnv(PROFILE, {})
    env.llm("answerer")
    env.close()
    env.close()
    assert [model.stopped for model in loads] == [1]


def test_what_is_not_there_is_named(loads: list[Loaded]) -> None:
    env = LocalEnv(PROFILE, {"plaid": Path("a")})
    with pytest.raises(InputError, match=r"no index 'bm25'.*there are: plaid.*--index bm25=PATH"):
        env.searcher("bm25")
    with pytest.raises(InputError, match=r"profile 'small' has no role 'judge'.*retriever, snippet_filter"):
        env.llm("judge")
    with pytest.raises(InputError, match=r"role 'snippet_filter' is asked for as llm.*'minilm'.*is a embedder"):
        env.llm("snippet_filter")
    assert loads == []


def test_engines_are_the_models_loaded(loads: list[Loaded], monkeypatch: pytest.MonkeyPatch) -> None:
    env = LocalEnv(PROFILE, {})
    assert env.engines() == (0, 0, 0)
    env.embedder("snippet_filter")
    env.llm("answerer")
    assert env.engines() == (2, 2, 0)
    monkeypatch.setattr(Loaded, "alive", lambda model: model.spec.engine != "vllm", raising=False)
    assert env.engines() == (1, 2, 0)
    with env._lock:  # another thread loads a model
        assert ThreadPoolExecutor(1).submit(env.engines).result(30) == (1, 2, 0)
