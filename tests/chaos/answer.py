"""A driver to be killed: `tartan` over Ray with an engine, an encoder and searchers that are stubs, deterministic, slow
enough to be hit, and that tell by files in a folder, the room, who they are and what they have in hand.

    python -m tests.chaos.answer answer SYSTEM ...

ROOM/born/KIND-PID   a process that holds a model or shards (KIND: engine, encoder, searcher) has built it
ROOM/busy/KIND-PID-CALL   it is in the middle of a call; where it was killed there, the file stays
ROOM/asked           a line for each request whose answer an engine gave, its question's id being in the question
ROOM/unloadable, ROOM/deadly   while there: an engine cannot be built; an engine's process dies while it builds it
ROOM/mended          once there: POISON kills nobody any more
"""

import os
import re
import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np

import pipeline.local
from jobs.cli import main
from pipeline.env import ChatRequest, Completion
from pipeline.plaid.index import IndexShards
from pipeline.profile import ModelSpec
from ray_cluster.pools import Makers, RayEnv
from tests.pipeline.plaid.small_index import StubEncoder

POISON = {"engine": "poison-for-engines", "encoder": "poison-for-encoders"}  # in a question: kills the one that sees it
PACE_S = 0.3  # a call of an engine
TIMEOUT = "TARTAN_CHAOS_TIMEOUT_S"  # in the driver's environment: of a call to a pool
ANSWER_ID = re.compile(r"number (\S+):")


class Presence:
    """What a stub tells of itself."""

    def __init__(self, room: Path, kind: str) -> None:
        self._room, self._name, self._calls = room, f"{kind}-{os.getpid()}", count()
        for folder in ("born", "busy"):
            (room / folder).mkdir(exist_ok=True)
        (room / "born" / self._name).touch()

    @contextmanager
    def busy(self, seconds: float) -> Iterator[None]:
        mark = self._room / "busy" / f"{self._name}-{next(self._calls)}"
        mark.touch()
        try:
            time.sleep(seconds)
            yield
        finally:
            mark.unlink(missing_ok=True)


class Engine:
    """Says the question's number and the pids of the evidence; a token is a word."""

    max_model_len = 4096

    def __init__(self, spec: ModelSpec) -> None:
        self._room = room_of(spec)
        if (self._room / "unloadable").exists():
            raise OSError("no room for the weights")
        if (self._room / "deadly").exists():
            os.kill(os.getpid(), signal.SIGKILL)
        self._presence = Presence(self._room, "engine")

    def chat(self, requests: Sequence[ChatRequest]) -> list[Completion]:
        prompts = [request.messages[-1]["content"] for request in requests]
        with self._presence.busy(PACE_S):
            die_of(POISON["engine"], prompts, self._room)
            numbers = [ANSWER_ID.findall(prompt)[-1] for prompt in prompts]
            with (self._room / "asked").open("a") as file:
                file.writelines(f"{number}\n" for number in numbers)
        answers = [
            f"answer {number}, of {len(prompt.split())} words, seed {request.seed}"
            for number, prompt, request in zip(numbers, prompts, requests, strict=True)
        ]
        return [
            Completion(answer, prompt, "stop", len(prompt.split()), len(answer.split()))
            for answer, prompt in zip(answers, prompts, strict=True)
        ]

    def count_tokens(self, messages: Sequence[dict[str, str]]) -> int:
        return sum(len(message["content"].split()) for message in messages)


class Encoder(StubEncoder):
    def __init__(self, spec: ModelSpec) -> None:
        self._room = room_of(spec)
        self._presence = Presence(self._room, "encoder")

    def encode_queries(self, texts: Sequence[str]) -> list[np.ndarray]:
        with self._presence.busy(PACE_S / 3):
            die_of(POISON["encoder"], texts, self._room)
            return super().encode_queries(texts)


class Searcher(IndexShards):
    def __init__(self, manifest: Any, names: Sequence[str], methods: Sequence[Any]) -> None:
        super().__init__(manifest, names, methods)
        self._presence = Presence(Path(manifest.home.place).parent, "searcher")

    def search(self, vectors: Sequence[np.ndarray], k: int, settings: dict[str, Any]) -> list[Any]:
        with self._presence.busy(PACE_S / 3):
            return super().search(vectors, k, settings)


def die_of(poison: str, texts: Sequence[str], room: Path) -> None:
    if any(poison in text for text in texts) and not (room / "mended").exists():
        os.kill(os.getpid(), signal.SIGKILL)


def room_of(spec: ModelSpec) -> Path:
    return Path(str(spec.engine_options["room"]))


def model(spec: ModelSpec) -> Any:
    return Engine(spec) if spec.engine == "vllm" else Encoder(spec)


if __name__ == "__main__":
    stubs = Makers("tests.chaos.answer:model", "tests.chaos.answer:Searcher")
    timeout_s = float(os.environ.get(TIMEOUT, 120))
    RayEnv.start = partial(RayEnv.start, makers=stubs, timeout_s=timeout_s)  # type: ignore[method-assign]
    pipeline.local.make_model = model  # of the local executor
    main()
