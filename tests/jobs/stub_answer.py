"""`tartan` with a model that answers at a given pace: python -m tests.jobs.stub_answer SECONDS LOG ARGUMENTS...

LOG gets a line for each request that reaches the model, when its answer is there. A question with the word "refuse" is
refused while the file LOG.refuse exists.
"""

import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pipeline.local
from jobs.cli import main
from pipeline.env import ChatRequest, Completion, Engines
from tests.stubs import StubEnv, StubLLM, said


class SlowLLM(StubLLM):
    def __init__(self, seconds: float, log: Path) -> None:
        super().__init__(lambda request: f"said {len(said(request))}")
        self.seconds, self.log, self.refusing = seconds, log, log.with_name(f"{log.name}.refuse")

    def chat(self, requests: Sequence[ChatRequest]) -> list[Completion]:
        time.sleep(self.seconds)
        with self.log.open("a") as file:
            file.writelines(f"{said(request)!r}\n" for request in requests)
        completions = super().chat(requests)
        for n, request in enumerate(requests):
            if "refuse" in said(request) and self.refusing.exists():
                completions[n] = Completion("", "", "error", error="too long")
        return completions


class SlowEnv(StubEnv):
    def engines(self) -> Engines:
        return Engines(1, 1, 0)

    def close(self) -> None:
        pass


def use(seconds: float, log: Path) -> Any:
    """What stands for LocalEnv."""
    return lambda *arguments: SlowEnv(llm=SlowLLM(seconds, log))


if __name__ == "__main__":
    pipeline.local.LocalEnv = use(float(sys.argv[1]), Path(sys.argv[2]))  # type: ignore[misc]
    main(sys.argv[3:])
