"""`tartan index`: plan, passages, codec, encode, publish; and adding to and dropping from a finished index."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from jobs.options import AddressOption, JsonOption, ProfileOption, QuietOption, SetOption, counted, out_option
from pipeline.plaid.config import IndexConfig
from pipeline.plaid.plan import Plan
from pipeline.profile import ModelSpec, Profile
from pipeline.storage import Home


def index(
    config: Annotated[Path | None, typer.Argument(help="Index config; none: configs/indexes/default.yaml.")] = None,
    out: Annotated[str, out_option("Folder or s3:// address of the index.")] = ...,  # type: ignore[assignment]
    corpus: Annotated[
        str | None, typer.Option("--corpus", help="Documents: file, folder, glob; also s3://, hf://, hf-dataset:NAME.")
    ] = None,
    add: Annotated[
        str | None, typer.Option("--add", help="Documents (as for --corpus) to add to a finished index.")
    ] = None,
    drop: Annotated[
        list[str],
        typer.Option("--drop-shard", help="Take a shard (MANIFEST.json lists them) out of it; may be repeated."),
    ] = [],  # noqa: B006
    allow_missing: Annotated[
        bool, typer.Option("--allow-missing-shards", help="Publish without shards that fail; the manifest names them.")
    ] = False,
    profile: ProfileOption = "embedded",
    sets: SetOption = [],  # noqa: B006 - typer reads the default, nobody changes it
    address: AddressOption = None,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> int:
    """Build a sharded PLAID index; run the same command again to continue where it stopped.

    Examples:

        tartan index --corpus 'docs/*.parquet' --out idx

        tartan index --corpus docs --out s3://bucket/idx --set shards.documents=1000 --set codec.nbits=4

        tartan index configs/indexes/adobe.yaml --corpus docs --out idx

        tartan index --add 'new/*.parquet' --out idx

        tartan index --drop-shard 00003 --out idx
    """
    from pipeline.errors import InputError

    hush = quiet or as_json
    if add or drop:
        given = [name for name, value in (("CONFIG", config), ("--corpus", corpus), ("--set", sets)) if value]
        if given or (add and drop):
            one, other = given[0] if given else "--drop-shard", "--add" if add else "--drop-shard"
            why = "the index keeps its own settings" if given else "a command makes one change"
            raise InputError(f"{one} does not go with {other}: {why}")
        summary = change_index(out, add, drop, profile, address, allow_missing, quiet=hush)
    else:
        summary = build_index(config, corpus, out, profile, sets, address, allow_missing, quiet=hush)
    console = Console(soft_wrap=True)
    if as_json:
        console.print_json(data=summary)
    else:
        console.print(
            f"Index {out}: {summary['documents']:,} documents, {summary['passages']:,} passages, "
            f"{summary['embeddings']:,} token vectors, {summary['centroids']:,} centroids, "
            f"{counted(summary['shards'], 'shard')}, {summary['bytes'] / 1e6:.1f} MB, {summary['seconds']:.0f} s."
        )
        for kind, found in summary["problems"].items():
            console.print(f"  {kind}: {found['count']}, for example {', '.join(found['ids'][:3])} (report.json)")
        for file in summary["bad_files"]:
            lost = "" if file["documents"] is None else f", {counted(file['documents'], 'document')} of it"
            console.print(f"  left out: {file['path']}{lost} ({file['reason']})", markup=False)
        for shard in summary["missing"]:
            console.print(f"  missing: shard {shard['shard']} ({shard['documents']} documents): {shard['reason']}")
    return 1 if summary["missing"] else 0


@dataclass(frozen=True)
class Build:
    """A checked build: the shards `names` of `plan` are to be in the index at `home`, those of `drop` are not."""

    plan: Plan
    names: Sequence[str]
    home: Home
    encoder: ModelSpec
    embedder: ModelSpec | None  # of an index with dense vectors
    drop: Sequence[str] = ()

    def run(self, allow_missing: bool, quiet: bool) -> dict[str, Any]:
        """Builds what is missing, publishes, and returns the report."""
        from jobs.bars import BuildBars
        from pipeline.models.resolve import resolve_model
        from pipeline.plaid.publish import report
        from ray_cluster.build import build

        tokenizer = resolve_model(self.encoder.source, self.encoder.revision)
        with BuildBars(quiet) as bars:
            manifest = build(
                self.plan,
                self.names,
                self.home,
                self.encoder,
                tokenizer,
                bars,
                dense=self.embedder,
                allow_missing=allow_missing,
                drop=self.drop,
            )
        return report(self.plan, self.home, manifest)


def build_index(
    config: Path | None,
    corpus: str | None,
    out: str | Path,
    profile: str,
    sets: list[str],
    address: str | None,
    allow_missing: bool = False,
    quiet: bool = False,
) -> dict[str, Any]:
    """Checks everything, builds what is missing, and returns the report with its seconds."""
    from pipeline.compose import load_profile
    from pipeline.plaid.config import load_index_config
    from pipeline.plaid.growth import with_additions
    from pipeline.plaid.plan import check_out, freeze_plan, make_plan
    from pipeline.settings import split_sets
    from pipeline.storage import open_home

    started = time.perf_counter()
    rest, ours = split_sets(sets)
    home = open_home(out)
    settings = load_index_config(config or "default", corpus, rest)
    encoder, embedder = models_of(load_profile(profile, ours), settings)
    plan = make_plan(settings, encoder, embedder)
    check_out(plan, home)
    _connect(address, encoder, embedder)
    freeze_plan(plan, home)
    build = Build(with_additions(plan, home), plan.names(), home, encoder, embedder)
    return build.run(allow_missing, quiet) | {"seconds": time.perf_counter() - started}


def change_index(
    out: str | Path,
    add: str | None,
    drop: list[str],
    profile: str,
    address: str | None,
    allow_missing: bool = False,
    quiet: bool = False,
) -> dict[str, Any]:
    """Adds documents to a finished index, or takes shards out of it; returns what `build_index` does."""
    from pipeline.compose import load_profile
    from pipeline.plaid.growth import freeze_addition, open_plan
    from pipeline.plaid.publish import check_drop
    from pipeline.storage import open_home

    started = time.perf_counter()
    home = open_home(out)
    plan, names = open_plan(home), list[str]()
    encoder, embedder = models_of(load_profile(profile), plan.config)
    if add is not None:
        plan, names = freeze_addition(home, add, encoder, embedder)
    else:
        plan.check(encoder, embedder, home)
        check_drop(home, drop)
    _connect(address, encoder, embedder)
    build = Build(plan, names, home, encoder, embedder, drop)
    return build.run(allow_missing, quiet) | {"seconds": time.perf_counter() - started}


def models_of(profile: Profile, settings: IndexConfig) -> tuple[ModelSpec, ModelSpec | None]:
    """The models that encode and, of an index with dense vectors, embed passages. Raises as `_model` does."""
    encoder = _model(profile, "encoder", settings.encoder.role, "late-interaction")
    role = settings.dense.role
    return encoder, None if role is None else _model(profile, "dense", role, "sentence-transformers")


def _model(profile: Profile, section: str, role: str, engine: str) -> ModelSpec:
    """The model of `SECTION.role`. Raises InputError where the profile has none, or one of another engine."""
    from pipeline.errors import InputError

    if role not in profile.roles:
        there = ", ".join(profile.roles)
        raise InputError(f"{section}.role '{role}' is not in profile {profile.name}; roles there: {there}")
    spec = profile.model(role)
    if spec.engine != engine:
        raise InputError(f"{section}.role '{role}' is a {spec.engine} model; an index needs a {engine} one")
    return spec


def _connect(address: str | None, encoder: ModelSpec, embedder: ModelSpec | None) -> None:
    """One model must fit at a time; more of its replicas join as the cluster has room for them."""
    from ray_cluster.connect import connect

    specs = [encoder, *([embedder] if embedder else [])]
    connect(address, max(spec.cpus for spec in specs), max(spec.gpus for spec in specs))


if __name__ == "__main__":
    from jobs.cli import run_alone

    run_alone("index")
