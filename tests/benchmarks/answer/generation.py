"""What generates fastest on this machine: our pool, `vllm.LLM.chat` with all prompts at once, or ray.data.llm.

All three run the same SmolLM2 by the same vLLM settings over the same prompts, greedily. An engine's start is not part
of the comparison: a Ray Data job starts one each time, so its work is what it takes beyond a job of one prompt.
"""

import os
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from pipeline.env import ChatRequest, Completion
from pipeline.models.embedded import prepare
from pipeline.profile import ModelSpec, Profile
from pipeline.prompts import load_prompt
from tests.benchmarks.answer.bench import Bench
from tests.benchmarks.compare import compare
from tests.benchmarks.figures import Figure
from tests.benchmarks.measures import passages

PROMPTS, CONTEXT, BATCH, TOKENS = 32, 5, 8, 48  # a prompt holds CONTEXT passages; a stage worker sends BATCH at once
CORES = os.cpu_count() or 1
SPEC = ModelSpec(
    engine="vllm",
    source="embedded:smollm2-135m-instruct",
    max_model_len=4096,
    kv_cache_gib=1,
    cpus=CORES,
    engine_options={"enable_prefix_caching": False},  # each run reads what the one before has read
)


def prompts(count: int) -> list[str]:
    """As `answer` sends them: a question and five passages of the World Factbook, some 2,000 tokens."""
    template, texts = load_prompt("report"), passages(count + CONTEXT, pages=24)
    return [
        template.render(context="\n\n".join(texts[n : n + CONTEXT]), question=texts[n][:80], max_words=40)
        for n in range(count)
    ]


def generation(bench: Bench) -> Iterator[Figure]:
    """Our pool against each of the two; tokens a second of prompt and answer in the notes."""
    import ray

    from ray_cluster.connect import connect
    from ray_cluster.pools import RayEnv

    count, most = bench.count(PROMPTS), bench.tokens or TOKENS
    asked = [ChatRequest(({"role": "user", "content": text},), most) for text in prompts(count)]
    connect("local", CORES, 0)
    env = RayEnv.start(Profile(models={"m": SPEC}, roles={"answerer": "m"}), ["answerer"], say=lambda _: None)
    try:
        llm = env.llm("answerer")

        def ours() -> list[Completion]:
            batches = [asked[start : start + BATCH] for start in range(0, len(asked), BATCH)]
            with ThreadPoolExecutor(len(batches)) as threads:
                return [completion for found in threads.map(llm.chat, batches) for completion in found]

        answers = ours()
        assert not any(answer.error for answer in answers), answers[0].error
        tokens = sum(answer.prompt_tokens + answer.generated_tokens for answer in answers)
        found = compare("", "", ours, _vllm_alone(asked), bench.runs)
    finally:
        env.stop()
    note = f"{tokens / found.ours_s:,.0f} and {tokens / found.peer_s:,.0f} tokens/s; {count} prompts, {tokens:,} tokens"
    what = "tokens a second, pool / vllm.LLM.chat"
    yield Figure(what, found.ratio, ("at least", 0.9), note, found.runs)
    least, whole = _ray_data(asked[:1]), _ray_data(asked)
    ray.shutdown()
    note = f"{tokens / (whole - least):,.0f} tokens/s; its start, {least:.0f} s, not counted"
    yield Figure("tokens a second, pool / ray.data.llm", (whole - least) / found.ours_s, note=note)


def _vllm_alone(asked: list[ChatRequest]) -> Any:
    """A function that answers all prompts in this process, by an engine with the settings of ours."""
    import torch

    from pipeline.models import llm

    llm._set_environment(CORES)
    torch.set_num_threads(CORES)
    set_num_threads = torch.set_num_threads
    from vllm import LLM, SamplingParams

    engine = LLM(**llm._arguments(SPEC, prepare("smollm2-135m-instruct")))
    torch.set_num_threads = set_num_threads  # vLLM disables it on CPU
    messages = [list(request.messages) for request in asked]
    greedy = SamplingParams(temperature=0.0, max_tokens=asked[0].max_tokens)
    return lambda: engine.chat(messages, greedy, use_tqdm=False)


def _ray_data(asked: list[ChatRequest]) -> float:
    """Seconds of a ray.data.llm job, its engine's start included. It starts vLLM's AsyncLLM, which asks for a GPU
    unless a placement group without one is given."""
    import ray
    from ray.data.llm import build_processor, vLLMEngineProcessorConfig

    from pipeline.models import llm

    folder = prepare("smollm2-135m-instruct")
    settings = llm._arguments(SPEC, folder)
    for ours in ("model", "use_tqdm_on_load"):
        settings.pop(ours)
    config = vLLMEngineProcessorConfig(
        model_source=str(folder),
        engine_kwargs=settings,
        batch_size=BATCH,
        max_concurrent_batches=PROMPTS // BATCH,
        concurrency=1,
        placement_group_config={"bundles": [{"CPU": 1}]},
        runtime_env={"env_vars": {"OMP_NUM_THREADS": str(CORES), "VLLM_CPU_OMP_THREADS_BIND": "nobind"}},
        log_engine_metrics=False,
        chat_template_stage={"enabled": True, "num_cpus": 0},
        tokenize_stage={"enabled": True, "num_cpus": 0},
        detokenize_stage={"enabled": False},
    )
    sampling = {"temperature": 0.0, "max_tokens": asked[0].max_tokens}
    processor = build_processor(
        config,
        preprocess=lambda row: {"messages": row["messages"], "sampling_params": sampling},
        postprocess=lambda row: {"text": row["generated_text"]},
    )
    rows = ray.data.from_items([{"messages": list(request.messages)} for request in asked])
    began = time.perf_counter()
    answered = processor(rows).take_all()
    assert len(answered) == len(asked)
    return time.perf_counter() - began
