"""`tartan sweep`: variants of systems over one question set, compared with a baseline."""

import hashlib
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import pyarrow as pa
import typer
from rich.console import Console

from jobs.engines import Engines, Executor, Say, join_cluster
from jobs.options import AddressOption, JsonOption, ProfileOption, QuietOption, SetOption, named_indexes
from pipeline.plaid.manifest import Manifest
from pipeline.profile import DENSE_RETRIEVER, RETRIEVER, Profile
from pipeline.run import PART_SIZE
from pipeline.sweep.config import Sweep, Variant
from pipeline.sweep.variants import Checked

if TYPE_CHECKING:
    from pipeline.compose import System

IndexOption = Annotated[list[str], typer.Option("--index", metavar="NAME=PATH", help="An index the systems search.")]
CorpusOption = Annotated[str | None, typer.Option("--corpus", help="What indexes are built from, where one is varied.")]


def sweep(
    file: Annotated[str, typer.Argument(metavar="SWEEP", help="A name (configs/sweeps) or a YAML file.")],
    questions: Annotated[Path, typer.Option("--questions", help="Question file, JSONL.")],
    out: Annotated[Path, typer.Option("--out", help="Folder of the sweep.")],
    indexes: IndexOption = [],  # noqa: B006 - typer reads the defaults, nobody changes them
    corpus: CorpusOption = None,
    profile: ProfileOption = "embedded",
    sets: SetOption = [],  # noqa: B006
    executor: Annotated[Executor, typer.Option(help="ray, or local: everything in this process.")] = "ray",
    part_size: Annotated[int, typer.Option(min=1, help="Questions that are committed together.")] = PART_SIZE,
    address: AddressOption = None,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> int:
    """Run every variant, score it, and compare it with the baseline; run the same command again to continue.

    Stages on which variants agree run once. Leaves OUT/outcome.parquet and .csv, and OUT/runs/VARIANT.

    Examples:

        tartan sweep filter-threshold --questions questions.jsonl --index plaid=idx --out sweep

        tartan sweep mine.yaml --questions q.jsonl --index idx --out sweep --set answer.max_tokens=96
    """
    from pipeline.scoring.compare import comparison_table
    from pipeline.scoring.table import write_table
    from pipeline.sweep.outcome import outcome_table

    done = run_sweep(
        file, questions, out, indexes, corpus, profile, sets, executor, part_size, address, saying(quiet, as_json)
    )
    table = outcome_table(done.sweep, done.folders, done.scores)
    write_table(table, out / "outcome.parquet")
    if as_json:
        print(json.dumps(table.to_pylist(), indent=2))
    else:
        Console().print(comparison_table(table))
        Console(highlight=False, soft_wrap=True).print(f"{out / 'outcome.csv'}; runs: {out / 'runs'}", markup=False)
    return 0


@dataclass(frozen=True)
class Done:
    """A sweep whose variants all have run: their folders and question scores by name."""

    sweep: Sweep
    folders: dict[str, Path]
    scores: dict[str, pa.Table]


def run_sweep(
    file: str,
    questions: Path,
    out: Path,
    indexes: list[str],
    corpus: str | None,
    profile_name: str,
    sets: list[str],
    executor: Executor,
    part_size: int,
    address: str | None,
    say: Say,
    objective: str | None = None,
) -> Done:
    """Checks every variant before anything runs, runs them and scores them, by `objective` too."""
    from pipeline.sweep.config import read_sweep
    from pipeline.sweep.execute import run_variants
    from pipeline.sweep.outcome import ranking_metrics, score_variants
    from pipeline.sweep.variants import shared_keys

    plan = read_sweep(file)
    metrics = [*plan.metrics, *([objective] if objective else [])]
    ranking_metrics(metrics)
    composed = {variant.name: _composed(variant, profile_name, sets) for variant in plan.variants}
    built = {variant.name: _built(variant, out, corpus, profile_name, address) for variant in plan.variants}
    manifests = _manifests(plan, composed, built, indexes)
    tables = _question_tables(plan, questions, out, composed)
    checked = [_checked(variant, composed[variant.name], manifests[variant.name], tables) for variant in plan.variants]
    shared_keys(checked)
    if executor == "ray":
        join_cluster(checked, address)
    engines = Engines(checked, manifests, executor, say)
    try:
        folders = run_variants(checked, out, engines, part_size, say)
    finally:
        engines.close()
    return Done(plan, folders, score_variants(folders, metrics))


def saying(quiet: bool, as_json: bool) -> Say:
    return (lambda text: None) if quiet or as_json else (lambda text: print(text, file=sys.stderr))


def _composed(variant: Variant, profile_name: str, sets: Sequence[str]) -> "tuple[System, Profile]":
    from pipeline.compose import load_profile, load_system
    from pipeline.errors import InputError
    from pipeline.settings import split_sets

    ours, for_profile = split_sets([*sets, *variant.options()])
    try:
        profile = load_profile(profile_name, for_profile)
        return load_system(variant.system, profile, ours), profile
    except InputError as problem:
        raise InputError(f"variant '{variant.name}': {problem}") from problem


def _built(variant: Variant, out: Path, corpus: str | None, profile: str, address: str | None) -> dict[str, str]:
    """Paths of the indexes that the variant's settings ask for, built where they are not there."""
    from pipeline.errors import InputError

    paths = {}
    for name, settings in variant.index_settings.items():
        if corpus is None:
            raise InputError(
                f"variant '{variant.name}' varies how index '{name}' is built; give --corpus to build it from"
            )
        from jobs.index import build_index

        options = [f"{key}={json.dumps(value)}" for key, value in sorted(settings.items())]
        digest = hashlib.sha256(json.dumps([corpus, options]).encode()).hexdigest()[:12]
        paths[name] = str(out / "indexes" / digest)
        build_index(None, corpus, paths[name], profile, options, address, quiet=True)
    return paths


def _manifests(
    plan: Sweep,
    composed: "dict[str, tuple[System, Profile]]",
    built: dict[str, dict[str, str]],
    options: list[str],
) -> dict[str, dict[str, Manifest]]:
    """variant -> index -> its manifest, checked for how the variant searches it."""
    from pipeline.plaid.index import check_index

    lacking = [name for one, (system, _) in composed.items() for name in system.indexes() if name not in built[one]]
    given = named_indexes(options, list(dict.fromkeys(lacking)))
    found: dict[str, dict[str, Manifest]] = {}
    for variant in plan.variants:
        system, profile = composed[variant.name]
        found[variant.name] = {}
        ways = system.methods()
        retrievers = profile.retrievers(method for methods in ways.values() for method in methods)
        encoder, embedder = (retrievers.get(role) for role in (RETRIEVER, DENSE_RETRIEVER))
        for name, methods in ways.items():
            path = built[variant.name].get(name) or given[name]
            found[variant.name][name] = check_index(path, encoder, methods, embedder)
    return found


def _question_tables(
    plan: Sweep, questions: Path, out: Path, composed: "dict[str, tuple[System, Profile]]"
) -> dict[str, pa.Table]:
    """form -> question table. What a model paraphrased is kept in OUT, because it would not say the same again."""
    import pyarrow.parquet as pq

    from pipeline.local import LocalEnv
    from pipeline.questions import read_questions
    from pipeline.schema import question_table
    from pipeline.storage import create_file
    from pipeline.sweep.forms import reformed

    asked = question_table(read_questions(questions))
    tables: dict[str, pa.Table] = {}
    for variant in plan.variants:
        form = variant.questions
        if form in tables:
            continue
        if form != "paraphrased":
            tables[form] = reformed(asked, form, _no_model)
            continue
        digest = hashlib.sha256(questions.read_bytes()).hexdigest()[:12]
        path = out / "questions" / f"paraphrased-{digest}.parquet"
        if not path.exists():
            env = LocalEnv(composed[variant.name][1], {})
            try:
                table = reformed(asked, form, lambda env=env: env.llm(PARAPHRASER))  # type: ignore[misc]
            finally:
                env.close()
            buffer = pa.BufferOutputStream()
            pq.write_table(table, buffer)
            create_file(path, buffer.getvalue().to_pybytes())
        tables[form] = pq.read_table(path, schema=asked.schema)
    return tables


PARAPHRASER = "query_writer"  # the role that writes search queries puts questions otherwise too


def _no_model() -> Any:
    raise AssertionError("a form that is a rule asked for a model")


def _checked(
    variant: Variant, composed: "tuple[System, Profile]", manifests: dict[str, Manifest], tables: dict[str, pa.Table]
) -> Checked:
    from jobs.answer import model_identity
    from pipeline.sweep.variants import checked

    def model(profile: Profile, role: str) -> dict[str, Any]:
        return model_identity(profile.model(role))

    system, profile = composed
    identities = {name: manifest.identity() for name, manifest in manifests.items()}
    return checked(variant, system, profile, identities, tables[variant.questions], model)


if __name__ == "__main__":
    from jobs.cli import run_alone

    run_alone("sweep")
