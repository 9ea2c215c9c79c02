"""What `tartan sweep` and `tartan tune` both do: check the variants of a sweep, run them, score and compare them."""

import hashlib
import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from jobs.engines import Engines, join_cluster
from jobs.options import Executor, Say, named_indexes
from pipeline.errors import some
from pipeline.plaid.manifest import Manifest
from pipeline.profile import DENSE_RETRIEVER, RETRIEVER, Profile
from pipeline.sweep.config import Sweep, Variant
from pipeline.sweep.variants import Checked

if TYPE_CHECKING:
    from pipeline.compose import System

Composed = dict[str, "tuple[System, Profile]"]  # variant -> its system and the profile it runs with

PARAPHRASER = "query_writer"  # the role that writes search queries puts questions otherwise too


@dataclass(frozen=True)
class Graded:
    """By whom answers are graded too (a role of the profile, or nobody), by whose claims, in which scaling."""

    judge: str | None
    claims: Path | None
    scaling: str


@dataclass(frozen=True)
class Asked:
    """The options of the two commands."""

    file: str
    questions: Path
    out: Path
    indexes: list[str]
    corpus: str | None
    limit: int | None
    profile: str
    sets: list[str]
    graded: Graded
    executor: Executor
    part_size: int
    address: str | None
    hush: bool


@dataclass(frozen=True)
class Done:
    """A sweep whose variants all have run: their question scores and numbers of failed questions by name, and the
    outcome table, which is in OUT too."""

    sweep: Sweep
    scores: dict[str, pa.Table]
    outcome: pa.Table
    baseline: Path  # its run's folder
    failed: dict[str, int]

    def exit_code(self) -> int:
        """1 where questions failed, which is said."""
        for name, count in self.failed.items():
            print(f"variant '{name}': {count} of {self.scores[name].num_rows} questions failed", file=sys.stderr)
        return 1 if self.failed else 0


def run_sweep(asked: Asked, say: Say, objective: str | None = None) -> Done:
    """Checks every variant before anything runs, runs them and scores them, by `objective` too, and by a judge."""
    from jobs.score import judge_of
    from pipeline.questions import read_questions
    from pipeline.scoring.score import JUDGED_METRICS
    from pipeline.scoring.table import write_table
    from pipeline.settings import split_sets
    from pipeline.sweep.config import read_sweep
    from pipeline.sweep.execute import run_variants
    from pipeline.sweep.outcome import outcome_table, ranking_metrics, score_variants
    from pipeline.sweep.variants import shared_keys

    plan = read_sweep(asked.file)
    metrics = [*plan.metrics, *([objective] if objective else [])]
    ranking_metrics(metrics)
    composed = _composed(plan, asked)
    questions = read_questions(asked.questions).slice(0, asked.limit)
    given = _given(plan, composed, asked)
    graded, sets = asked.graded, split_sets(asked.sets)[1]
    with judge_of(graded.judge, asked.profile, sets, graded.claims, graded.scaling) as judge:  # loaded when it is asked
        places = {variant.name: given[variant.name] | _built(variant, asked, say) for variant in plan.variants}
        manifests = {name: _manifests(*composed[name], held) for name, held in places.items()}
        tables = _question_tables(plan, questions, asked.out, composed, say)
        checked = [_checked(one, composed[one.name], manifests[one.name], tables) for one in plan.variants]
        shared_keys(checked)
        if asked.executor == "ray":
            join_cluster(checked, asked.address)
        engines = Engines(checked, manifests, asked.executor, say)
        try:
            folders = run_variants(checked, asked.out, engines, asked.part_size, say)
        finally:
            engines.close()
        scores = score_variants(folders, metrics, judge.grade if judge else None, judge.method if judge else "")
    if plan.metrics and judge is not None:
        plan = plan.model_copy(update={"metrics": list(dict.fromkeys([*metrics, *JUDGED_METRICS.values()]))})
    outcome = outcome_table(plan, folders, scores)
    write_table(outcome, asked.out / "outcome.parquet")
    failed = {name: table.num_rows - table["error"].null_count for name, table in scores.items()}
    return Done(plan, scores, outcome, folders[plan.baseline], {name: n for name, n in failed.items() if n})


def _composed(plan: Sweep, asked: Asked) -> Composed:
    """A --set of a stage is for the variants whose system has that stage; one that none has is refused."""
    from pipeline.compose import load_profile, load_system
    from pipeline.errors import InputError
    from pipeline.settings import parse_set, split_sets

    stages = {one.system: {stage.name for stage in load_system(one.system).stages} for one in plan.variants}
    anywhere: set[str] = set().union(*stages.values())
    composed: Composed = {}
    for variant in plan.variants:
        elsewhere = anywhere - stages[variant.system]
        sets = [option for option in asked.sets if parse_set(option)[0][0] not in elsewhere]
        ours, for_profile = split_sets([*sets, *variant.options()])
        try:
            profile = load_profile(asked.profile, for_profile)
            composed[variant.name] = load_system(variant.system, profile, ours), profile
        except InputError as problem:
            raise InputError(f"variant '{variant.name}': {problem}") from problem
    return composed


def _given(plan: Sweep, composed: Composed, asked: Asked) -> dict[str, dict[str, str]]:
    """variant -> index -> path, of the indexes that are searched as they are. InputError where one is not given, or
    where one that is varied is not searched or has nothing to be built from."""
    from pipeline.errors import InputError

    for variant in plan.variants:
        searched = composed[variant.name][0].indexes()
        for name in variant.index_settings:
            where = f"variant '{variant.name}' varies how index '{name}' is built; "
            if name not in searched:
                raise InputError(f"{where}its system searches {some(searched) or 'no index'}")
            if asked.corpus is None:
                raise InputError(f"{where}give --corpus to build it from")
    wanted = {
        one.name: [name for name in composed[one.name][0].indexes() if name not in one.index_settings]
        for one in plan.variants
    }
    paths = named_indexes(asked.indexes, list(dict.fromkeys(name for names in wanted.values() for name in names)))
    return {variant: {name: paths[name] for name in names} for variant, names in wanted.items()}


def _built(variant: Variant, asked: Asked, say: Say) -> dict[str, str]:
    """Paths of the indexes that the variant's settings ask for, built where they are not there."""
    paths = {}
    for name, settings in variant.index_settings.items():
        from jobs.index import build_index

        assert asked.corpus is not None  # see _given
        options = [f"{key}={json.dumps(value)}" for key, value in sorted(settings.items())]
        digest = hashlib.sha256(json.dumps([asked.corpus, options]).encode()).hexdigest()[:12]
        paths[name] = str(asked.out / "indexes" / digest)
        say(f"index '{name}' of variant '{variant.name}': {paths[name]}")
        build_index(None, asked.corpus, paths[name], asked.profile, options, asked.address, quiet=asked.hush)
    return paths


def _manifests(system: "System", profile: Profile, places: dict[str, str]) -> dict[str, Manifest]:
    """index -> its manifest, checked for how the system searches it."""
    from pipeline.plaid.index import check_index

    ways = system.methods()
    retrievers = profile.retrievers(method for methods in ways.values() for method in methods)
    encoder, embedder = (retrievers.get(role) for role in (RETRIEVER, DENSE_RETRIEVER))
    return {name: check_index(places[name], encoder, methods, embedder) for name, methods in ways.items()}


def _question_tables(plan: Sweep, questions: pa.Table, out: Path, composed: Composed, say: Say) -> dict[str, pa.Table]:
    """form -> question table. What a model paraphrased is kept in OUT, because it would not say the same again."""
    import pyarrow.parquet as pq

    from pipeline.local import LocalEnv
    from pipeline.questions import fingerprint
    from pipeline.schema import question_table
    from pipeline.storage import create_file
    from pipeline.sweep.forms import reformed

    table = question_table(questions)
    tables: dict[str, pa.Table] = {}
    for variant in plan.variants:
        form = variant.questions
        if form in tables:
            continue
        if form != "paraphrased":
            tables[form] = reformed(table, form, _no_model)
            continue
        path = out / "questions" / f"paraphrased-{fingerprint(questions)}.parquet"
        if not path.exists():
            env = LocalEnv(composed[variant.name][1], {})
            try:
                said = reformed(table, form, lambda env=env: env.llm(PARAPHRASER))  # type: ignore[misc]
            finally:
                env.close()
            buffer = pa.BufferOutputStream()
            pq.write_table(said, buffer)
            create_file(path, buffer.getvalue().to_pybytes())
        tables[form] = pq.read_table(path, schema=table.schema)
        if same := sum(
            a == b for a, b in zip(*(t["question"].to_pylist() for t in (table, tables[form])), strict=True)
        ):
            say(f"{same} of {table.num_rows} questions stay as they are: the model's paraphrase was none")
    return tables


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
