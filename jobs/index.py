"""`tartan index`: plan, passages, codec, encode, publish."""

import time
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from jobs.options import AddressOption, JsonOption, ProfileOption, QuietOption, SetOption


def index(
    config: Annotated[Path | None, typer.Argument(help="Index config; none: configs/indexes/default.yaml.")] = None,
    out: Annotated[Path, typer.Option("--out", help="Folder of the index.")] = ...,  # type: ignore[assignment]
    corpus: Annotated[str | None, typer.Option("--corpus", help="File, folder or glob of the documents.")] = None,
    profile: ProfileOption = "embedded",
    sets: SetOption = [],  # noqa: B006 - typer reads the default, nobody changes it
    address: AddressOption = None,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> int:
    """Build a sharded PLAID index; run the same command again to continue where it stopped.

    Examples:

        tartan index --corpus 'docs/*.parquet' --out idx

        tartan index --corpus docs --out idx --set shards.documents=1000 --set codec.nbits=4
    """
    summary = build_index(config, corpus, out, profile, sets, address, quiet=quiet or as_json)
    console = Console(soft_wrap=True)
    if as_json:
        console.print_json(data=summary)
    else:
        console.print(
            f"Index {out}: {summary['documents']:,} documents, {summary['passages']:,} passages, "
            f"{summary['embeddings']:,} token vectors, {summary['centroids']:,} centroids, {summary['shards']} shards, "
            f"{summary['megabytes']:.1f} MB, {summary['seconds']:.0f} s."
        )
        for kind, found in summary["problems"].items():
            console.print(
                f"  {kind}: {found['count']} documents, for example {', '.join(found['ids'][:3])} (report.json)"
            )
    return 0


def build_index(
    config: Path | None,
    corpus: str | None,
    out: Path,
    profile: str,
    sets: list[str],
    address: str | None,
    quiet: bool = False,
) -> dict[str, Any]:
    """Checks everything, builds what is missing, and returns the report with megabytes and seconds."""
    from pipeline import storage
    from pipeline.compose import load_profile
    from pipeline.errors import InputError
    from pipeline.models.resolve import resolve_model
    from pipeline.plaid.config import load_index_config
    from pipeline.plaid.plan import check_out, freeze_plan, make_plan
    from pipeline.settings import split_sets
    from ray_cluster.build import build
    from ray_cluster.connect import connect

    started = time.perf_counter()
    rest, ours = split_sets(sets)
    models = load_profile(profile, ours)
    settings = load_index_config(config or "default", corpus, rest)
    role = settings.encoder.role
    if role not in models.roles:
        raise InputError(f"encoder.role '{role}' is not in profile {profile}; roles there: {', '.join(models.roles)}")
    spec = models.model(role)
    if spec.kind != "encoder":
        raise InputError(f"encoder.role '{role}' is a {spec.engine} model; an index needs a late-interaction one")
    plan = make_plan(settings, spec)
    check_out(plan, out)
    connect(address, spec.cpus * spec.replicas, spec.gpus * spec.replicas)
    freeze_plan(plan, out)
    tokenizer = resolve_model(spec.source, spec.revision)
    with _bars(quiet) as bars:
        tasks: dict[str, Any] = {}

        def progress(step: str, done: int, total: int) -> None:
            if step not in tasks:
                tasks[step] = bars.add_task(step, total=total)
            bars.update(tasks[step], completed=done)

        manifest = build(plan, out.absolute(), spec, tokenizer, progress)
    report = storage.read_json(out / "report.json")
    megabytes = sum(shard["bytes"] for shard in manifest["shards"]) / 1e6
    return report | {"megabytes": megabytes, "seconds": time.perf_counter() - started}


def _bars(quiet: bool) -> Progress:
    return Progress(
        TextColumn("{task.description:9}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=Console(stderr=True, quiet=quiet),
    )


if __name__ == "__main__":
    from jobs.cli import run_alone

    run_alone("index")
