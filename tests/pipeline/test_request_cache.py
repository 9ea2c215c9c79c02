"""What a model has said is asked for once, whatever happens to the process that asked."""

import os
import pickle
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pipeline.env import ChatRequest, Completion, EngineError
from pipeline.execute import run_local
from pipeline.request_cache import CachedLLM, CachingEnv, RequestCache
from tests.stubs import StubEnv, StubLLM, questions, said

MODEL = {"source": "m", "revision": None}


def ask(text: str, **changes: Any) -> ChatRequest:
    return replace(ChatRequest(({"role": "user", "content": text},), 8, seed=1), **changes)


def asked(llm: StubLLM) -> list[list[str]]:
    return [[said(request) for request in batch] for batch in llm.batches]


def test_only_what_is_new_reaches_the_model(tmp_path: Path) -> None:
    llm = StubLLM(lambda request: f"{said(request)}!\n\u2028 ü")
    cached = CachedLLM(llm, RequestCache(tmp_path), MODEL)
    first = cached.chat([ask("a"), ask("b"), ask("a")])
    assert [completion.text[:2] for completion in first] == ["a!", "b!", "a!"]
    assert cached.chat([ask("b"), ask("c"), ask("a")])[0] == first[1]
    assert asked(llm) == [["a", "b"], ["c"]]
    again = CachedLLM(StubLLM(), RequestCache(tmp_path), MODEL)  # another process, later
    assert again.chat([ask("a"), ask("b")]) == first[:2]
    assert again.chat([]) == []
    assert again.max_model_len == llm.max_model_len
    assert again.count_tokens(({"role": "user", "content": "a b"},)) == 2


@pytest.mark.parametrize(
    "other",
    [
        ask("a", seed=2),
        ask("a", max_tokens=9),
        ask("a", temperature=0.5),
        ask("a", top_p=0.5),
        ask("a", messages=({"role": "system", "content": "a"},)),
        ask("a", messages=({"role": "user", "content": "a"}, {"role": "user", "content": "a"})),
    ],
)
def test_another_prompt_or_parameter_is_another_request(tmp_path: Path, other: ChatRequest) -> None:
    llm = StubLLM()
    cached = CachedLLM(llm, RequestCache(tmp_path), MODEL)
    cached.chat([ask("a")])
    cached.chat([other])
    CachedLLM(llm, RequestCache(tmp_path), {**MODEL, "revision": "v2"}).chat([ask("a")])
    assert len(llm.batches) == 3


def test_failures_and_samples_without_a_seed_are_not_kept(tmp_path: Path) -> None:
    llm = StubLLM(lambda request: Completion("", "", "error", error="no") if said(request) == "bad" else "fine")
    cached = CachedLLM(llm, RequestCache(tmp_path), MODEL)
    requests = [ask("bad"), ask("x", seed=None, temperature=1.0), ask("x", seed=None, temperature=1.0), ask("y")]
    assert [completion.error for completion in cached.chat(requests)] == ["no", None, None, None]
    assert len(llm.batches[0]) == 4
    cached.chat(requests)
    assert asked(llm)[1] == ["bad", "x", "x"]
    assert len(RequestCache(tmp_path)) == 1


def test_each_process_has_a_file_and_torn_lines_are_as_if_never_written(tmp_path: Path) -> None:
    for text in ("a", "b"):
        CachedLLM(StubLLM(), RequestCache(tmp_path), MODEL).chat([ask(text), ask(text * 2)])
    one, two = sorted(tmp_path.iterdir())
    torn = one.read_bytes()
    one.write_bytes(torn[:-1])  # its last line lacks its end
    two.write_bytes(b'{"key": "' + b"0" * 64 + b'", "completion": {"text": 1, "gone\n' + two.read_bytes())
    (tmp_path / "notes.txt").write_text("mine")
    cache, llm = RequestCache(tmp_path), StubLLM()
    assert len(cache) == 3
    assert cache.get("0" * 64) is None
    CachedLLM(llm, cache, MODEL).chat([ask("a"), ask("aa"), ask("b"), ask("bb")])
    assert sum(map(len, llm.batches)) == 1
    broken = tmp_path / "broken.jsonl"
    broken.write_bytes(b'{"key": "' + b"1" * 64 + b'", "completion": {"text": oh}}\n')
    assert RequestCache(tmp_path).get("1" * 64) is None


def test_what_a_killed_process_was_told_is_there(tmp_path: Path) -> None:
    """Killed as soon as its second call has returned, without any farewell."""
    code = (
        "import sys, time; from pathlib import Path; from tests.pipeline.test_request_cache import *\n"
        "cached = CachedLLM(StubLLM(), RequestCache(Path(sys.argv[1])), MODEL)\n"
        "cached.chat([ask('a')]); cached.chat([ask('b'), ask('c')]); print('said', flush=True); time.sleep(60)"
    )
    process = subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    assert process.stdout
    assert process.stdout.readline() == "said\n"
    os.kill(process.pid, signal.SIGKILL)
    process.wait(10)
    process.stdout.close()
    llm = StubLLM()
    CachedLLM(llm, RequestCache(tmp_path), MODEL).chat([ask("a"), ask("b"), ask("c"), ask("d")])
    assert asked(llm) == [["d"]]


def test_an_environment_that_remembers(tmp_path: Path) -> None:
    env = StubEnv()
    remembering = CachingEnv(env, tmp_path / "requests", {"answerer": MODEL})
    assert not (tmp_path / "requests").exists()
    remembering.llm("answerer").chat([ask("a")])
    assert remembering.searcher("plaid") is env.parts["searcher"]
    assert remembering.embedder("e") is env.parts["embedder"]
    assert remembering.scorer("s") is env.parts["scorer"]
    assert remembering.reader("r") is env.parts["reader"]
    copy = pickle.loads(pickle.dumps(CachingEnv(None, tmp_path / "requests", {"answerer": MODEL})))  # type: ignore[arg-type]
    assert copy._cache is None


def test_a_later_stage_that_dies_does_not_cost_the_earlier_ones_again(tmp_path: Path) -> None:
    from pipeline.prompts import load_prompt
    from pipeline.stages.answer import Answer
    from pipeline.stages.write_queries import WriteQueries

    write = WriteQueries(llm="w", prompt=load_prompt("research_queries"), n=2, into="queries")
    stages = [write, Answer(llm="a", prompt=load_prompt("closed_book"), max_words=5)]
    writer = StubLLM(lambda request: '["one", "two"]')
    answerer = StubLLM(lambda request: EngineError("gone"))

    class Env(StubEnv):
        def llm(self, role: str) -> Any:
            return writer if role == "w" else answerer

    def run() -> list[dict[str, Any]]:
        env = CachingEnv(Env(), tmp_path, {"w": MODEL, "a": MODEL})
        return [
            row for _, table in run_local(stages, env, [(0, questions("x", "y", "z"))]) for row in table.to_pylist()
        ]

    with pytest.raises(EngineError):
        run()
    answerer.reply = lambda request: "fine"
    assert [row["answer"] for row in run()] == ["fine"] * 3
    assert len(writer.batches) == 1
    assert len(answerer.batches) == 2


def test_a_scan_of_many_is_quick(tmp_path: Path) -> None:
    cache = RequestCache(tmp_path)
    cache.put({f"{n:064}": Completion("x" * 2000, "y" * 2000, "stop") for n in range(5000)})
    started = time.perf_counter()
    assert len(RequestCache(tmp_path)) == 5000
    assert time.perf_counter() - started < 30
