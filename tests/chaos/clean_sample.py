"""Passages and codec of a build, in this process, by an encoder that no text harms: what a poisoned text meets later is
the encode step alone.

    python -m tests.chaos.clean_sample CORPUS OUT
"""

import sys
from pathlib import Path

from pipeline.models.resolve import resolve_model
from pipeline.plaid import build
from pipeline.plaid.plan import freeze_plan
from pipeline.storage import open_home
from tests.pipeline.plaid.small_index import SPEC, StubEncoder, plan_of

if __name__ == "__main__":
    plan = plan_of(Path(sys.argv[1]), "shards.documents=3", "split.size=60")
    home = open_home(sys.argv[2])
    freeze_plan(plan, home)
    for name in plan.names():
        build.passages_step(plan, name, home, resolve_model(SPEC.source))
    build.codec_step(plan, home, StubEncoder())
    home.clean()  # the sample's vectors: the encode step must see the texts themselves
