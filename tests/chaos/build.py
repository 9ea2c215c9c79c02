"""A driver to be killed: the build of a small index over Ray, as `tartan index` does it, with an encoder that is a stub
and slow enough to be hit.

    python -m tests.chaos.build CORPUS OUT [--allow-missing] [--address HOST:PORT] [--set KEY=VALUE ...]
"""

import argparse
import os
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from pipeline.errors import InputError, UnfinishedError
from pipeline.models.resolve import resolve_model
from pipeline.plaid.plan import freeze_plan
from pipeline.profile import ModelSpec
from pipeline.storage import open_home
from ray_cluster.build import build
from ray_cluster.connect import connect
from tests.pipeline.plaid.small_index import SPEC, StubEncoder, plan_of
from tests.ray_cluster.stubs import Recorder

DELAY_S = 0.15  # an encoder's call; a shard is one
POISON = "poison-kills-its-worker"  # in a text: the encoder's process dies
BAD = "poison-raises"  # in a text: the encoder raises


class SlowEncoder(StubEncoder):
    def __init__(self, spec: ModelSpec) -> None:
        self.spec = spec

    def encode_documents(self, texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        if any(POISON in text for text in texts):
            os.kill(os.getpid(), signal.SIGKILL)
        if any(BAD in text for text in texts):
            raise ValueError("this text explodes")
        time.sleep(DELAY_S)
        return super().encode_documents(texts)


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("corpus", type=Path)
    parser.add_argument("out")
    parser.add_argument("--allow-missing", action="store_true")
    parser.add_argument("--address", default="local")
    parser.add_argument("--set", action="append", default=[])
    options = parser.parse_args()
    try:
        home = open_home(options.out)
        plan = plan_of(options.corpus, "shards.documents=3", "split.size=60", *options.set)
        freeze_plan(plan, home)
        connect(options.address, 3 if options.address == "local" else 1, 0)
        spec = SPEC.model_copy(update={"cpus": 1, "replicas": 2})
        tokenizer = resolve_model(SPEC.source)
        maker = "tests.chaos.build:SlowEncoder"
        build(plan, plan.names(), home, spec, tokenizer, Recorder(), allow_missing=options.allow_missing, maker=maker)
    except UnfinishedError as problem:
        print(problem, file=sys.stderr)
        return 1
    except InputError as problem:
        print(problem, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
