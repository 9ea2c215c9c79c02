"""vLLM's settings on this machine, one changed at a time: tokens a second beside those of the embedded profile."""

import dataclasses
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

from pipeline.env import ChatRequest
from pipeline.profile import ModelSpec
from tests.benchmarks.answer.bench import Bench
from tests.benchmarks.answer.generation import CORES, TOKENS, prompts
from tests.benchmarks.figures import Figure

PROMPTS = 8
PATIENCE_S = 900  # of one setting: compiling can take longer than anybody wants to wait


@dataclasses.dataclass(frozen=True)
class Setting:
    """What differs from the embedded profile: options of the engine, its threads, the process's environment."""

    name: str
    options: dict[str, Any] = dataclasses.field(default_factory=dict)
    threads: int = CORES
    environment: dict[str, str] = dataclasses.field(default_factory=dict)


OURS = Setting("ours")
OTHERS = (
    Setting("one thread", threads=1),
    Setting("no prefix caching", {"enable_prefix_caching": False}),
    Setting("chunked prefill of 2048", {"enable_chunked_prefill": True, "max_num_batched_tokens": 2048}),
    Setting("chunked prefill of 512", {"enable_chunked_prefill": True, "max_num_batched_tokens": 512}),
    Setting("blocks of 128", {"block_size": 128}),
    Setting("spinning threads", environment={"OMP_WAIT_POLICY": "ACTIVE"}),
    Setting("compiled", {"enforce_eager": False}),
)


def settings(bench: Bench) -> Iterator[Figure]:
    """Each in a process of its own, `runs` times in turn; an engine's start is not counted."""
    count = bench.count(PROMPTS)
    seen: dict[str, list[float]] = {}
    for _ in range(bench.runs):
        for setting in (OURS, *OTHERS):
            seen.setdefault(setting.name, []).append(_in_a_process(setting, count, bench.tokens or TOKENS))
    medians = {name: statistics.median(rates) for name, rates in seen.items()}
    ours = medians[OURS.name]
    for setting in OTHERS:
        rate = medians[setting.name]
        note = f"{rate:.0f} tokens/s against {ours:.0f}; {count} prompts" if rate else "did not end, or failed"
        yield Figure(f"tokens a second, {setting.name} / ours", rate / ours, note=note, runs=bench.runs)


def _in_a_process(setting: Setting, count: int, most: int) -> float:
    """Tokens a second; 0 where it failed or was given up."""
    asked = json.dumps({"options": setting.options, "threads": setting.threads, "count": count, "most": most})
    command = [sys.executable, "-m", "tests.benchmarks.answer.settings", asked]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=PATIENCE_S, env=os.environ | setting.environment
        )
    except subprocess.TimeoutExpired:
        print(f"{setting.name}: given up after {PATIENCE_S} s", flush=True)
        return 0.0
    if done.returncode:
        print(f"{setting.name}: {done.stderr.strip().splitlines()[-1]}", flush=True)
        return 0.0
    rate = float(done.stdout.splitlines()[-1])
    print(f"{setting.name}: {rate:.0f} tokens/s", flush=True)
    return rate


def _measure(options: dict[str, Any], threads: int, count: int, most: int) -> float:
    """Greedy answers to `count` RAG prompts sent at once, after two others that warm the engine up."""
    from pipeline.models.llm import VllmEngine

    source = "embedded:smollm2-135m-instruct"
    spec = ModelSpec(engine="vllm", source=source, max_model_len=8192, cpus=threads, engine_options=options)
    engine = VllmEngine(spec)
    asked = [ChatRequest(({"role": "user", "content": text},), most) for text in prompts(count + 2)]
    engine.chat(asked[count:])
    began = time.perf_counter()
    answers = engine.chat(asked[:count])
    seconds = time.perf_counter() - began
    assert not any(answer.error for answer in answers), answers[0].error
    engine.shutdown()
    return sum(answer.prompt_tokens + answer.generated_tokens for answer in answers) / seconds


if __name__ == "__main__":
    print(_measure(**json.loads(sys.argv[1])))
