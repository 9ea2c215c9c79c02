"""Variants run one after another, each from the furthest table that an earlier one left; all of it can be continued.

OUT/stages/KEY/   the table where the ways of variants part, as a run's folder (parts, committed once)
OUT/runs/NAME/    each variant's run, complete: `tartan score` and the report read it as any other
"""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa

from pipeline.execute import Part, declared
from pipeline.questions import QUESTIONS, fingerprint
from pipeline.run import Run
from pipeline.stage import Stage
from pipeline.sweep.variants import Checked, shared_keys


class Engine(Protocol):
    """What runs stages: a LocalEnv with `execute.run_local`, or Ray."""

    def run(self, one: Checked, stages: Sequence[Stage], parts: Iterator[Part], given: pa.Schema) -> Iterator[Part]: ...


def run_variants(
    variants: Sequence[Checked],
    out: Path,
    engine: Engine,
    part_size: int,
    say: Callable[[str], None] = lambda text: None,
) -> dict[str, Path]:
    """The runs' folders by variant name. A stage whose inputs and settings are those of an earlier variant, or of an
    earlier attempt, is not run again."""
    shared = shared_keys(variants)
    folders: dict[str, Path] = {}
    for number, one in enumerate(variants, 1):
        name, stages = one.variant.name, one.system.stages
        say(f"variant {number} of {len(variants)}: {name}")
        folder, rows = out / "runs" / name, one.questions.num_rows
        folders[name] = folder
        last = Run.open(folder, _about(one), rows, part_size)
        if not last.is_complete():
            table, done = one.questions, 0
            for depth in range(1, len(one.keys)):
                if one.keys[depth] in shared:
                    about = {"identity": {"key": one.keys[depth], "part_size": part_size}}
                    kept = Run.open(out / "stages" / one.keys[depth], about, rows, part_size)
                    table, done = _filled(kept, table, one, done, depth, engine, say), depth
            _filled(last, table, one, done, len(stages), engine, say)
            say(last.progress())
        last.finish()
    return folders


def _filled(
    run: Run, table: pa.Table, one: Checked, done: int, depth: int, engine: Engine, say: Callable[[str], None]
) -> pa.Table:
    """The table after `depth` stages, from the one after `done`; what its folder lacks is computed."""
    if not run.is_complete():
        given, stages, left = declared(one.system.stages[:done]), one.system.stages[done:depth], run.rows_to_do()
        say(f"  {', '.join(stage.name for stage in stages)}: {left} questions")
        for number, part in engine.run(one, stages, run.parts(table), given):
            run.commit_part(number, part)
            left -= part.num_rows
            if left:
                say(f"  {left} left")
    return pa.Table.from_pylist(list(run.rows()), schema=declared(one.system.stages[:depth]))


def _about(one: Checked) -> dict[str, Any]:
    variant = one.variant
    identity = {
        "system": one.system.resolved,
        "prompts": {name: prompt.sha256 for name, prompt in one.system.prompts().items()},
        "models": dict(one.models),
        "questions": f"{one.questions.num_rows} of sha256 {fingerprint(one.questions.select(QUESTIONS.names))}",
        "indexes": dict(one.indexes),
        "key": one.keys[-1],
    }
    about = {"system": one.system.name, "profile": one.profile.name, "variant": variant.model_dump(mode="json")}
    return {**about, "identity": identity}
