"""Systems of stub stages' worth, an engine over stubs that counts calls, and the checked variants of a sweep file."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from pipeline.compose import load_profile, load_system
from pipeline.execute import Part, run_local
from pipeline.settings import split_sets
from pipeline.stage import Stage
from pipeline.sweep.config import Sweep, read_sweep
from pipeline.sweep.forms import reformed
from pipeline.sweep.variants import Checked, checked
from tests.stubs import StubEnv, StubLLM, questions

SYSTEM = """
stages:
  - search: {index: plaid, queries: question, k: 2, into: context}
  - write_queries: {llm: query_writer, prompt: research_queries, context: context, n: 1, date: May, into: queries}
  - search: {index: plaid, queries: [question, queries], k: 2, into: passages}
  - filter_snippets: {embedder: snippet_filter, size: 1000, overlap: 100, min_cosine: 0.35, into: snippets}
  - answer: {llm: answerer, prompt: report, evidence: snippets, max_words: 200}
"""


class StubEngine:
    """Runs here, with stubs; `env` keeps what was asked of them."""

    def __init__(self, env: StubEnv | None = None, fail_after: int | None = None) -> None:
        self.env, self.ran, self._left = (
            env or StubEnv(llm=StubLLM(lambda request: '["more"]')),
            list[list[str]](),
            fail_after,
        )

    def run(self, one: Checked, stages: Sequence[Stage], parts: Iterator[Part], given: pa.Schema) -> Iterator[Part]:
        self.ran.append([stage.name for stage in stages])
        columns = dict(zip(given.names, given.types, strict=True))
        for part in run_local(stages, self.env, parts, given=columns):
            if self._left == 0:
                raise KeyboardInterrupt
            self._left = None if self._left is None else self._left - 1
            yield part


def write(folder: Path, sweep: str, system: str = SYSTEM) -> Sweep:
    (folder / "sys.yaml").write_text(system)
    (folder / "sweep.yaml").write_text(sweep.replace("SYSTEM", str(folder / "sys.yaml")))
    return read_sweep(folder / "sweep.yaml")


def variants_of(
    sweep: Sweep, texts: Sequence[str] = ("one", "three", "seven"), **gold: list[list[str] | None]
) -> list[Checked]:
    """`gold`: `answers`, `doc_ids`."""
    table = questions(*texts)
    for name, values in gold.items():
        place = table.column_names.index(name)
        table = table.set_column(place, name, pa.array(values, table.schema.field(name).type))
    found = []
    for variant in sweep.variants:
        ours, for_profile = split_sets(variant.options())
        profile = load_profile("embedded", for_profile)
        system = load_system(variant.system, profile, ours)
        asked = reformed(table, variant.questions, lambda: StubLLM(lambda request: "said otherwise"))
        indexes = {name: ["index 1", variant.index_settings.get(name)] for name in system.indexes()}
        found.append(checked(variant, system, profile, indexes, asked, model))
    return found


def model(profile: Any, role: str) -> dict[str, Any]:
    return profile.model(role).model_dump(include={"source", "dtype"})
