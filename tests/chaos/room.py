"""A room for one answering job that is disturbed: its questions, index, profile and run, the processes in it and what
has been done to them."""

import json
import shutil
import signal
import time
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import psutil
import yaml

from pipeline.parts import Row
from pipeline.scoring.run import read_run
from tests.chaos.answer import POISON
from tests.chaos.processes import Driver, driver, there

MODULE = "tests.chaos.answer"
IDS = ["007", "NA", "null", "9223372036854775807", *(f"q{n}" for n in range(44))]
PART = 4
Result = dict[str, Any]  # "rows", and the files that are written at the end


class Room:
    def __init__(self, folder: Path, index: Path, replicas: int = 1, poisoned: Mapping[str, str] = {}) -> None:
        """`replicas`: of the engine. `poisoned`: ids of questions that kill something, and what."""
        self.folder, self.run = folder, folder / "run"
        self.kills = Counter[str]()
        self._parts: dict[str, bytes] = {}
        folder.mkdir(exist_ok=True)
        shutil.copytree(index, folder / "index")
        asked = [
            {"id": id, "question": f"number {id}: what of word{n % 12}x{n % 40} {POISON.get(poisoned.get(id, ''), '')}"}
            for n, id in enumerate(IDS)
        ]
        (folder / "questions.jsonl").write_text("".join(json.dumps(row) + "\n" for row in asked))
        common = {"cpus": 0.5, "engine_options": {"room": str(folder)}}
        profile = {
            "models": {
                "m": {"engine": "vllm", "source": "stub", "replicas": replicas, **common},
                "e": {"engine": "late-interaction", "source": "embedded:minilm-colbert", **common},
            },
            "roles": {"answerer": "m", "retriever": "e"},
        }
        (folder / "profile.yaml").write_text(yaml.safe_dump(profile))

    def answer(self, *more: object, env: dict[str, str] | None = None) -> AbstractContextManager[Driver]:
        """`tartan answer` in this room; the same command each time, but for `more` (an address, an executor)."""
        named = {"--profile": "profile.yaml", "--questions": "questions.jsonl", "--index": "index", "--out": "run"}
        places = [word for option, name in named.items() for word in (option, self.folder / name)]
        return driver(MODULE, "answer", "rag", *places, "--part-size", PART, *more, env=env)

    def complete(self, *more: object) -> str:
        """Has the same command do what is left, and gives back what it said. Where the machine is too busy to start a
        Ray, which it says, it is tried again."""
        for _ in range(3):
            with self.answer(*more) as job:
                code, said = job.finish()
            if not too_busy(said):
                break
        assert code == 0, said
        return said

    def born(self, kind: str) -> int:
        """How many processes have built such an object so far; "": any."""
        return sum(1 for _ in self.folder.glob(f"born/{kind}*-*"))

    def pids(self, kind: str) -> list[int]:
        """Of those processes, oldest first."""
        born = sorted(self.folder.glob(f"born/{kind}-*"), key=lambda file: file.stat().st_mtime)
        return [int(file.name.rpartition("-")[2]) for file in born]

    def asked(self) -> Counter[str]:
        """Question ids -> how often an engine has answered them."""
        path = self.folder / "asked"
        return Counter(path.read_text().splitlines()) if path.exists() else Counter()

    def kill_busy(self, kind: str, number: int = signal.SIGKILL) -> Callable[[], bool]:
        """A moment: a process of this kind is in the middle of a call, and is killed there."""

        def moment() -> bool:
            for file in self.folder.glob(f"busy/{kind}-*"):
                try:
                    process = psutil.Process(int(file.name.split("-")[1]))
                    if process.create_time() > file.stat().st_mtime:
                        raise psutil.NoSuchProcess(process.pid)  # another's, which has got the number
                    process.send_signal(number)
                except psutil.NoSuchProcess:
                    file.unlink(missing_ok=True)
                    continue
                except FileNotFoundError:
                    continue
                time.sleep(0.1)
                if file.exists():  # so it has not ended the call meanwhile: it was hit in the middle
                    file.unlink()
                    return self.killed(kind)
            return False

        return moment

    def killed(self, what: str) -> bool:
        """Notes it, and that no finished part has changed since the last time. True."""
        self.kills[what] += 1
        self.unchanged()
        return True

    def unchanged(self) -> None:
        now = {path.name: path.read_bytes() for path in self.run.glob("answers/part-*")}
        assert self._parts.items() <= now.items()
        self._parts = now

    def part(self, count: int) -> Callable[[], bool]:
        """A moment: so many parts are committed."""
        return there(self.run, "answers/part-*.parquet", count)

    def parts(self) -> int:
        return sum(1 for _ in self.run.glob("answers/part-*.parquet"))

    def progress(self, parts: int = 1) -> Callable[[], bool]:
        """A moment: so many parts more than now."""
        return self.part(self.parts() + parts)

    def result(self) -> Result:
        """What the answers are, without what may differ: times, and where files lie."""
        self.unchanged()
        rows = read_run(self.run)
        assert [row["id"] for row in rows] == IDS
        written = {name: (self.run / name).read_text() for name in ("answers.jsonl", "run.trec")}
        return {"rows": [timeless(row) for row in rows], **written}


def too_busy(said: str) -> bool:
    return "Ray did not start on this machine" in said


def timeless(row: Row) -> Row:
    trace = [{name: value for name, value in step.items() if "seconds" not in name} for step in row["trace"]]
    return {**row, "trace": trace}


NewRoom = Callable[..., Room]
