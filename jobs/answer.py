"""`tartan answer`: a question set through a system, on Ray or in this process."""

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Protocol

import pyarrow as pa
import typer
from rich.console import Console

from jobs.answer_bars import AnswerBars
from jobs.options import (
    AddressOption,
    Executor,
    ExecutorOption,
    IndexOption,
    JsonOption,
    LimitOption,
    PartSizeOption,
    ProfileOption,
    QuietOption,
    Say,
    SetOption,
    counted,
    duration,
    named_indexes,
    out_option,
    saying,
)
from jobs.stopping import Work, stoppable
from pipeline.compose import System
from pipeline.deadline import Policy, unanswered
from pipeline.env import Engines, Env
from pipeline.plaid.manifest import Manifest
from pipeline.profile import DENSE_RETRIEVER, RETRIEVER, ModelSpec, Profile
from pipeline.request_cache import CachingEnv
from pipeline.run import PART_SIZE, Run

if TYPE_CHECKING:
    from ray_cluster.pools import RayEnv


def answer(
    system: Annotated[str, typer.Argument(help="System config: a name (configs/systems) or a file.")],
    questions: Annotated[
        list[str],
        typer.Option("--questions", help="Question file or hf-dataset:NAME; several are one set, shared ones once."),
    ],
    out: Annotated[Path, out_option("Folder of the run.")],
    indexes: IndexOption = [],  # noqa: B006
    profile: ProfileOption = "embedded",
    sets: SetOption = [],  # noqa: B006 - typer reads the defaults, nobody changes them
    id_column: Annotated[str, typer.Option(help="What the question file calls the ids.")] = "id",
    question_column: Annotated[str, typer.Option(help="What it calls the questions.")] = "question",
    limit: LimitOption = None,
    executor: ExecutorOption = "ray",
    part_size: PartSizeOption = PART_SIZE,
    deadline: Annotated[
        str | None, typer.Option(metavar="TIME", help="Stop generating after 110m, 1h50m, 90s; the rest is filled in.")
    ] = None,
    deadline_policy: Annotated[
        Policy, typer.Option(help="The rest: answers that abstain, or failed rows without one.")
    ] = "abstain",
    address: AddressOption = None,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> int:
    """Answer every question; run the same command again to continue where it stopped.

    Questions are JSONL, a JSON array, CSV, TSV, Parquet or a Hugging Face data set. The second time, what is missing,
    what had failed and what a deadline had cut off is done, nothing else.

    Examples:

        tartan answer hltcoe --questions questions.jsonl --index plaid=idx --out run

        tartan answer hltcoe --questions q.jsonl --index idx --out run --set filter_snippets.min_cosine=0.5

        tartan answer rag --questions q.jsonl --index idx --out tried --limit 5

        tartan answer hltcoe --questions live.csv --index idx --out live --deadline 110m
    """
    started = time.monotonic()
    until = Deadline(started + duration("--deadline", deadline), deadline, deadline_policy) if deadline else None
    columns = {"id_column": id_column, "question_column": question_column}
    job = prepare(system, questions, indexes, profile, sets, out, executor, address, part_size, limit, **columns)
    with AnswerBars(quiet or as_json) as bars:
        finished = job.run(saying(quiet, as_json), bars, until)
    failed = job.folder.failed_rows()
    if as_json:
        print(json.dumps({"run": str(out), **finished, "errors": failed}))
    else:
        show(out, finished, failed, job.table["id"].to_pylist())
    return 1 if failed else 0


@dataclass(frozen=True)
class Deadline:
    at: float  # of time.monotonic()
    limit: str  # as it was given
    policy: Policy


class CountedEnv(Env, Protocol):
    """What either executor's environment is."""

    def engines(self) -> Engines:
        """Its models. Waits for none."""
        ...


@dataclass(frozen=True)
class Job:
    """A checked answering job: the cluster is joined and the run's folder open, no model is loaded."""

    system: System
    profile: Profile
    indexes: dict[str, Manifest]
    table: pa.Table
    folder: Run
    executor: Executor

    def run(
        self, say: Say, bars: AnswerBars, deadline: Deadline | None = None, engines: "RayEnv | None" = None
    ) -> dict[str, Any]:
        """Answers what the folder lacks, commits part after part, and returns the manifest's `finished`.

        `engines`: pools that several jobs share, and that stay; none: the job starts its own and stops them.
        Raises KeyboardInterrupt at SIGINT or SIGTERM; what was committed stays.
        """
        self.folder.begin()
        if self.folder.resumed:
            say(self.folder.progress())
        if not self.folder.is_complete():
            with stoppable():
                self._answer(say, bars, deadline, engines)
        return self.folder.finish()

    def _answer(self, say: Say, bars: AnswerBars, deadline: Deadline | None, engines: "RayEnv | None") -> None:
        env, close, run_parts = self._on_ray(say, engines) if self.executor == "ray" else self._here()
        models = {role: model_identity(self.profile.model(role)) for role in self.system.roles()}
        remembering = CachingEnv(env, self.folder.folder / "requests", models)
        arriving = run_parts(self.system.stages, remembering, self.folder.parts(self.table))

        def step() -> bool:
            if (part := next(arriving, None)) is None:
                return False
            self.folder.commit_part(*part)
            bars.add(part[1])
            return True

        work = Work(step)
        try:
            bars.begin(self.table.num_rows, self.folder.rows_to_do(), env.engines)
            if not work.wait(deadline.at if deadline else None, bars.show) and deadline:
                self._fill(say, deadline)
                self.folder.finish()  # before anything is shut down, which may take its time
            bars.end()
        finally:
            close()
            work.join()

    def _fill(self, say: Say, deadline: Deadline) -> None:
        """What is under way is given up; of a part that arrives all the same, whichever version comes first stays."""
        filled = 0
        for number, part in self.folder.lacking(self.table):
            rows = unanswered(part, self.system.stages, deadline.policy, deadline.limit)
            filled += part.num_rows * self.folder.commit_part(number, rows)
        say(f"deadline ({deadline.limit}): {filled} questions were not reached and are filled in ({deadline.policy})")

    def _here(self) -> tuple[CountedEnv, Callable[[], None], Any]:
        from pipeline.execute import run_local
        from pipeline.local import LocalEnv

        places = {name: manifest.home.place for name, manifest in self.indexes.items()}
        env = LocalEnv(self.profile, places, self.system.methods())
        return env, env.close, run_local

    def _on_ray(self, say: Say, engines: "RayEnv | None") -> tuple[CountedEnv, Callable[[], None], Any]:
        from ray_cluster.execute import run_on_ray
        from ray_cluster.pools import RayEnv

        if engines is not None:
            return engines, lambda: None, run_on_ray  # whoever shares them stops them
        env = RayEnv.start(self.profile, self.system.roles(), self.indexes, methods=self.system.methods(), say=say)
        return env, env.stop, run_on_ray


def show(out: Path, finished: dict[str, Any], failed: list[dict[str, str]], ids: list[str]) -> None:
    """The end of a run, for people."""
    from pipeline.liverag import renumbered

    console = Console(highlight=False, soft_wrap=True)
    questions = counted(finished["rows"], "question")
    console.print(f"{out}: {questions}, {finished['failed']} failed, {finished['seconds']:.0f} s.", markup=False)
    for note, count in finished["notes"].items():
        console.print(f"  {count} x {note}", markup=False)
    if renumbered(ids):
        console.print(
            "  answers.jsonl numbers the questions 0, 1, 2, ...: LiveRAG's ids are integers, not all of these are"
        )
    console.print(f"  {out / 'answers.jsonl'}, {out / 'run.trec'}; next: tartan score {out}", markup=False)
    for row in failed:
        console.print(f"  failed {row['id']}: {row['stage']}: {row['kind']}: {row['message']}", markup=False)


def shared_engines(jobs: Sequence[Job], address: str | None, say: Say) -> "RayEnv":
    """Pools for all that these jobs (of one profile) ask for, each model loaded once; the caller stops them."""
    from ray_cluster.connect import connect
    from ray_cluster.pools import RayEnv, demand

    profile = jobs[0].profile
    roles = list(dict.fromkeys(role for job in jobs for role in job.system.roles()))
    indexes = {name: manifest for job in jobs for name, manifest in job.indexes.items()}
    methods = {name: set().union(*(job.system.methods().get(name, ()) for job in jobs)) for name in indexes}
    connect(address, *demand(profile, roles, methods))
    return RayEnv.start(profile, roles, indexes, methods=methods, say=say)


def prepare(
    system_name: str,
    questions: Sequence[str | Path],
    index_options: list[str],
    profile_name: str,
    sets: list[str],
    out: Path,
    executor: Executor = "ray",
    address: str | None = None,
    part_size: int = PART_SIZE,
    limit: int | None = None,
    id_column: str = "id",
    question_column: str = "question",
) -> Job:
    """Checks everything that can be known without loading a model, joins the cluster if there is something to do, and
    opens the run's folder.

    Raises InputError: config, profile, questions, an index that is absent, unfinished, of another checkpoint or
    without the BM25 or dense vectors it is asked for, a cluster that lacks what the profile wants, a folder that holds
    something else or another run.
    """
    from pipeline.compose import load_profile, load_system
    from pipeline.plaid.index import check_index
    from pipeline.questions import fingerprint, read_question_set
    from pipeline.schema import question_table
    from pipeline.settings import split_sets

    ours, for_profile = split_sets(sets)
    profile = load_profile(profile_name, for_profile)
    system = load_system(system_name, profile, ours)
    indexes = named_indexes(index_options, system.indexes())
    asked = read_question_set(questions, id_column, question_column).slice(0, limit)
    methods = system.methods()
    retrievers = profile.retrievers(method for ways in methods.values() for method in ways)
    encoder, embedder = (retrievers.get(role) for role in (RETRIEVER, DENSE_RETRIEVER))
    manifests = {name: check_index(path, encoder, methods[name], embedder) for name, path in indexes.items()}
    roles = list(dict.fromkeys([*system.roles(), *retrievers]))
    models = {role: profile.model(role).model_dump() for role in roles}
    identity = {
        "system": system.resolved,
        "prompts": {name: prompt.sha256 for name, prompt in system.prompts().items()},
        "models": {role: model_identity(profile.model(role)) for role in roles},
        "questions": f"{asked.num_rows} of sha256 {fingerprint(asked)}",
        "indexes": {name: manifest.identity() for name, manifest in manifests.items()},
    }
    about = {
        "system": system.name,
        "profile": profile.name,
        "models": models,
        "questions": [str(place) for place in questions],
        "indexes": {name: str(manifest.home) for name, manifest in manifests.items()},
    }
    Run.check(out, {"identity": identity})
    if executor == "ray" and not Run.ended(out):
        from ray_cluster.connect import connect
        from ray_cluster.pools import demand

        connect(address, *demand(profile, system.roles(), methods))
    run = Run.open(out, {**about, "identity": identity}, asked.num_rows, part_size)
    return Job(system, profile, manifests, question_table(asked), run, executor)


MODEL_IDENTITY = (
    "engine",
    "source",
    "revision",
    "base_url",
    "dtype",
    "max_model_len",
    "trust_remote_code",
    "engine_options",  # quantization, an override of the model's config, ...
)


def model_identity(spec: ModelSpec) -> dict[str, Any]:
    """What answers depend on; the rest of a model's settings is hardware."""
    return spec.model_dump(include=set(MODEL_IDENTITY))


if __name__ == "__main__":
    from jobs.cli import run_alone

    run_alone("answer")
