"""Completions kept in a run's folder, so that what a model has said is not asked for again after a kill.

requests/HOST-PID-RANDOM.jsonl   {"key": 64 hex digits, "completion": {...}}; one file a process, which only appends
"""

import json
import os
import socket
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from hashlib import sha256
from pathlib import Path
from threading import Lock
from typing import Any, BinaryIO

from pipeline.env import LLM, ChatRequest, Completion, Embedder, Env, Reader, Scorer, Searcher

_HEAD, _MIDDLE = b'{"key": "', b'", "completion": '
_KEY = slice(len(_HEAD), len(_HEAD) + 64)


class RequestCache:
    """What all processes had written when this one began, and what it writes itself. Threads may share one.

    In memory are keys and places only (some 300 bytes a completion). The last line of a killed process may be torn, and
    a disk may have lost others: such a line is as if it had never been written.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._places: dict[bytes, tuple[Path, int]] = {}
        self._own: tuple[Path, BinaryIO] | None = None
        self._lock = Lock()
        for path in sorted(folder.glob("*.jsonl")):
            self._scan(path)

    def __len__(self) -> int:
        return len(self._places)

    def get(self, key: str) -> Completion | None:
        place = self._places.get(key.encode())
        if place is None:
            return None
        path, offset = place
        with path.open("rb") as file:
            file.seek(offset)
            line = file.readline()
        try:
            return _completion(json.loads(line)["completion"])
        except (ValueError, KeyError, TypeError):  # torn, or written by another version of this program
            return None

    def put(self, completions: Mapping[str, Completion]) -> None:
        """Appends them and waits for the disk."""
        if not completions:
            return
        with self._lock:
            path, file = self._own = self._own or self._create()
            for key, completion in completions.items():
                self._places[key.encode()] = path, file.tell()
                said = json.dumps(asdict(completion), ensure_ascii=False).encode(errors="surrogatepass")
                file.write(_HEAD + key.encode() + _MIDDLE + said + b"}\n")
            file.flush()
            os.fsync(file.fileno())

    def _create(self) -> tuple[Path, BinaryIO]:
        self._folder.mkdir(parents=True, exist_ok=True)
        path = self._folder / f"{socket.gethostname()}-{os.getpid()}-{uuid.uuid4().hex[:8]}.jsonl"
        return path, path.open("xb")

    def _scan(self, path: Path) -> None:
        offset = 0
        with path.open("rb") as file:
            for line in file:
                if line.startswith(_HEAD) and line.endswith(b"}\n") and line[_KEY.stop :].startswith(_MIDDLE):
                    self._places[line[_KEY]] = path, offset
                offset += len(line)


class CachedLLM:
    """`env.LLM` that asks another one only what the cache does not know. Equal requests of a call are asked once.

    A completion with an error is not kept, so it is asked for again. Nor is one that was sampled without a seed: two of
    those are meant to differ. `model` says what else the answer depends on (source, revision, precision, ...).
    """

    def __init__(self, llm: LLM, cache: RequestCache, model: Mapping[str, Any]) -> None:
        self._llm, self._cache = llm, cache
        self._model = json.dumps(dict(model), sort_keys=True)
        self.max_model_len = llm.max_model_len

    def chat(self, requests: Sequence[ChatRequest]) -> list[Completion]:
        keys = [self._key(request) or str(number) for number, request in enumerate(requests)]
        found = {key: completion for key in set(keys) if (completion := self._cache.get(key))}
        absent = {key: request for key, request in zip(keys, requests, strict=True) if key not in found}
        fresh = dict(zip(absent, self._llm.chat(list(absent.values())) if absent else [], strict=True))
        self._cache.put({key: said for key, said in fresh.items() if said.error is None and len(key) == 64})
        return [found[key] if key in found else fresh[key] for key in keys]

    def count_tokens(self, messages: Sequence[dict[str, str]]) -> int:
        return self._llm.count_tokens(messages)

    def _key(self, request: ChatRequest) -> str | None:
        """None for what is not kept."""
        if request.temperature > 0 and request.seed is None:
            return None
        asked = asdict(request) | {"messages": [dict(message) for message in request.messages]}
        return sha256(f"{self._model}\n{json.dumps(asked, sort_keys=True)}".encode()).hexdigest()


class CachingEnv:
    """An environment whose language models remember. Picklable as its parts are: each process has its cache."""

    def __init__(self, env: Env, folder: Path, models: Mapping[str, Mapping[str, Any]]) -> None:
        """`models`: role -> what its answers depend on, beside the request."""
        self._env, self._folder, self._models = env, folder, models
        self._cache: RequestCache | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_cache": None}

    def llm(self, role: str) -> LLM:
        self._cache = self._cache or RequestCache(self._folder)
        return CachedLLM(self._env.llm(role), self._cache, self._models[role])

    def searcher(self, index: str) -> Searcher:
        return self._env.searcher(index)

    def embedder(self, role: str) -> Embedder:
        return self._env.embedder(role)

    def scorer(self, role: str) -> Scorer:
        return self._env.scorer(role)

    def reader(self, role: str) -> Reader:
        return self._env.reader(role)


def _completion(held: dict[str, Any]) -> Completion:
    """The inverse of `asdict`, through JSON, which knows no tuples."""
    others = tuple(_completion(other) for other in held.get("others", ()))
    logprobs = held.get("logprobs")
    return Completion(**{**held, "others": others, "logprobs": None if logprobs is None else tuple(logprobs)})
