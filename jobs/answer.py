"""`tartan answer`: a question set through a system, on Ray or in this process."""

import hashlib
import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import pyarrow as pa
import typer
from rich.console import Console

from jobs.options import AddressOption, JsonOption, ProfileOption, QuietOption, SetOption, named_indexes
from pipeline.compose import System
from pipeline.plaid.manifest import Manifest
from pipeline.profile import DENSE_RETRIEVER, RETRIEVER, Profile
from pipeline.run import PART_SIZE, Run

if TYPE_CHECKING:
    from ray_cluster.pools import RayEnv

Executor = Literal["ray", "local"]
Say = Callable[[str], None]


def answer(
    system: Annotated[str, typer.Argument(help="System config: a name (configs/systems) or a file.")],
    questions: Annotated[Path, typer.Option("--questions", help="Question file, JSONL.")],
    out: Annotated[Path, typer.Option("--out", help="Folder of the run.")],
    indexes: Annotated[
        list[str], typer.Option("--index", metavar="NAME=PATH", help="An index the system searches.")
    ] = [],  # noqa: B006
    profile: ProfileOption = "embedded",
    sets: SetOption = [],  # noqa: B006 - typer reads the defaults, nobody changes them
    executor: Annotated[Executor, typer.Option(help="ray, or local: everything in this process.")] = "ray",
    part_size: Annotated[
        int, typer.Option(min=1, help="Questions of one part, the unit that is committed.")
    ] = PART_SIZE,
    address: AddressOption = None,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> int:
    """Answer every question; run the same command again to continue where it stopped.

    Examples:

        tartan answer hltcoe --questions questions.jsonl --index plaid=idx --out run

        tartan answer hltcoe --questions q.jsonl --index idx --out run --set filter_snippets.min_cosine=0.5
    """
    say: Say = (lambda text: None) if quiet or as_json else (lambda text: print(text, file=sys.stderr))
    job = prepare(system, questions, indexes, profile, sets, out, executor, address, part_size)
    finished = job.run(say)
    failed = job.folder.failed_rows()
    from pipeline.liverag import renumbered

    if as_json:
        print(json.dumps({"run": str(out), **finished, "errors": failed}))
    else:
        console = Console(highlight=False, soft_wrap=True)
        console.print(f"{out}: {finished['rows']} questions, {finished['failed']} failed, {finished['seconds']:.0f} s.")
        for note, count in finished["notes"].items():
            console.print(f"  {count} x {note}", markup=False)
        if renumbered(job.table["id"].to_pylist()):
            console.print(
                "  answers.jsonl numbers the questions 0, 1, 2, ...: LiveRAG's ids are integers, not all of these are"
            )
        console.print(f"  {out / 'answers.jsonl'}, {out / 'run.trec'}; next: tartan score {out}", markup=False)
        for row in failed:
            console.print(f"  failed {row['id']}: {row['stage']}: {row['kind']}: {row['message']}", markup=False)
    return 1 if failed else 0


@dataclass(frozen=True)
class Job:
    """A checked answering job: the cluster is joined and the run's folder open, no model is loaded."""

    system: System
    profile: Profile
    indexes: dict[str, Manifest]
    table: pa.Table
    folder: Run
    executor: Executor

    def run(self, say: Say, engines: "RayEnv | None" = None) -> dict[str, Any]:
        """Answers what the folder lacks, commits part after part, and returns the manifest's `finished`.

        `engines`: pools that several jobs share, and that stay; none: the job starts its own and stops them.
        """
        if self.folder.resumed:
            say(self.folder.progress())
        if self.folder.missing_parts():
            if engines is not None:
                self._answer(engines, say)
            elif self.executor == "ray":
                self._on_ray(say)
            else:
                self._here(say)
        return self.folder.finish()

    def _here(self, say: Say) -> None:
        from pipeline.execute import run_local
        from pipeline.local import LocalEnv

        places = {name: manifest.home.place for name, manifest in self.indexes.items()}
        env = LocalEnv(self.profile, places, self.system.methods())
        try:
            self._commit(run_local(self.system.stages, env, self.folder.parts(self.table)), say)
        finally:
            env.close()

    def _on_ray(self, say: Say) -> None:
        from ray_cluster.pools import RayEnv

        env = RayEnv.start(self.profile, self.system.roles(), self.indexes, methods=self.system.methods(), say=say)
        try:
            self._answer(env, say)
        finally:
            env.stop()

    def _answer(self, env: "RayEnv", say: Say) -> None:
        from ray_cluster.execute import run_on_ray

        self._commit(run_on_ray(self.system.stages, env, self.folder.parts(self.table)), say)

    def _commit(self, parts: Any, say: Say) -> None:
        for number, table in parts:
            self.folder.commit_part(number, table)
            say(self.folder.progress())


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
    questions: Path,
    index_options: list[str],
    profile_name: str,
    sets: list[str],
    out: Path,
    executor: Executor = "ray",
    address: str | None = None,
    part_size: int = PART_SIZE,
) -> Job:
    """Checks everything that can be known without loading a model, joins the cluster, and opens the run's folder.

    Raises InputError: config, profile, questions, an index that is absent, unfinished, of another checkpoint or
    without the BM25 or dense vectors it is asked for, a cluster that lacks what the profile wants, a folder that holds
    something else or another run.
    """
    from pipeline.compose import load_profile, load_system
    from pipeline.plaid.index import check_index
    from pipeline.questions import read_questions
    from pipeline.schema import question_table
    from pipeline.settings import split_sets

    ours, for_profile = split_sets(sets)
    profile = load_profile(profile_name, for_profile)
    system = load_system(system_name, profile, ours)
    indexes = named_indexes(index_options, system.indexes())
    asked = read_questions(questions)
    methods = system.methods()
    retrievers = profile.retrievers(method for ways in methods.values() for method in ways)
    encoder, embedder = (retrievers.get(role) for role in (RETRIEVER, DENSE_RETRIEVER))
    manifests = {name: check_index(path, encoder, methods[name], embedder) for name, path in indexes.items()}
    roles = list(dict.fromkeys([*system.roles(), *retrievers]))
    models = {role: profile.model(role).model_dump() for role in roles}
    identity = {
        "system": system.resolved,
        "prompts": {name: prompt.sha256 for name, prompt in system.prompts().items()},
        "models": {role: {k: v for k, v in spec.items() if k in MODEL_IDENTITY} for role, spec in models.items()},
        "questions": f"{asked.num_rows} of sha256 {hashlib.sha256(questions.read_bytes()).hexdigest()[:16]}",
        "indexes": {name: manifest.identity() for name, manifest in manifests.items()},
    }
    about = {
        "system": system.name,
        "profile": profile.name,
        "models": models,
        "questions": str(questions),
        "indexes": {name: str(manifest.home) for name, manifest in manifests.items()},
    }
    Run.check(out, {"identity": identity})
    if executor == "ray":
        from ray_cluster.connect import connect
        from ray_cluster.pools import demand

        connect(address, *demand(profile, system.roles(), methods))
    run = Run.open(out, {**about, "identity": identity}, asked.num_rows, part_size)
    return Job(system, profile, manifests, question_table(asked), run, executor)


MODEL_IDENTITY = (
    "engine",
    "source",
    "revision",
    "dtype",
    "max_model_len",
)  # what answers depend on; the rest is hardware


if __name__ == "__main__":
    from jobs.cli import run_alone

    run_alone("answer")
