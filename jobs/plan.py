"""`tartan plan`: what an index will hold, weigh, take and cost, before any of it is built."""

import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from jobs.options import JsonOption, SetOption
from jobs.plan_table import show, size_of

MEASURED_SECONDS = 20.0
GIB = 2**30


def plan(
    config: Annotated[Path | None, typer.Argument(help="Index config; none: configs/indexes/default.yaml.")] = None,
    corpus: Annotated[str | None, typer.Option("--corpus", help="File, folder or glob of the documents.")] = None,
    cluster: Annotated[
        str | None, typer.Option("--cluster", help="Cluster file or name (configs/clusters); none: this machine.")
    ] = None,
    tokens_per_second: Annotated[
        float | None, typer.Option("--tokens-per-second", min=1e-9, help="That one encoder (GPU) reads.")
    ] = None,
    measure: Annotated[bool, typer.Option("--measure", help="Run the encoder here for 20 s on sampled passages.")] = (
        False
    ),
    sample: Annotated[int, typer.Option("--sample", min=1, help="Documents to split and tokenise.")] = 2000,
    profile: Annotated[
        str | None,
        typer.Option("--profile", help="Profile name or file, for its encoder; none: the config's, embedded."),
    ] = None,
    sets: SetOption = [],  # noqa: B006 - typer reads the default, nobody changes it
    as_json: JsonOption = False,
) -> int:
    """Size an index before building it: documents, passages, vectors, bytes, memory, GPU-hours, dollars.

    A corpus at hand is sampled: its footers are read, some documents are split and tokenised. One that is not is taken
    from the config's `estimate` section. Nothing is written.

    Examples:

        tartan plan --corpus 'docs/*.parquet'

        tartan plan --corpus docs --measure

        tartan plan fineweb-10bt --cluster h200-8

        tartan plan fineweb-10bt --cluster a100-8 --set codec.nbits=1 --set estimate.documents=2000000
    """
    from pipeline.plaid.hardware import load_cluster

    machine = load_cluster(cluster) if cluster else None
    found = look(config, corpus, profile, sets, sample, measure=measure, stated_rate=tokens_per_second)
    values = figures(found, machine, tokens_per_second)
    if as_json:
        Console(soft_wrap=True).print_json(data=values)
    else:
        show(values, Console())
    return 0


@dataclass(frozen=True)
class Found:
    """What is known of corpus and encoder. `intervals`, 95%, by field of contents; `measured`: tokens a second here."""

    name: str
    config: Any  # IndexConfig
    contents: Any  # Contents
    dim: int
    shape: Any  # EncoderShape | None
    searchers: int
    intervals: dict[str, tuple[float, float]]
    measured: float | None
    notes: list[str]


def look(
    config: Path | None, corpus: str | None, profile: str | None, sets: list[str], sample: int,
    measure: bool = False, stated_rate: float | None = None,
) -> Found:  # fmt: skip
    """Checks the settings, and samples the corpus or takes the stated totals. Raises InputError."""
    from pipeline.compose import load_profile
    from pipeline.errors import InputError
    from pipeline.plaid.codec import check_nbits
    from pipeline.plaid.config import load_index_config
    from pipeline.plaid.estimate import EncoderShape, stated_contents
    from pipeline.settings import split_sets

    if measure and stated_rate is not None:
        raise InputError("--measure does not go with --tokens-per-second: a throughput is measured or stated; drop one")
    rest, ours = split_sets(sets)
    settings = load_index_config(config or "default", corpus, rest, need_corpus=False)
    models = load_profile(profile or "embedded", ours)
    stated = settings.estimate
    name = Path(config).stem if config else "default"
    if corpus is None and stated.documents is not None:
        if measure:
            raise InputError(
                f"{name}: --measure encodes passages of the corpus, and this one is known by its totals only; give "
                "--corpus, or --tokens-per-second"
            )
        notes = [
            f"Corpus not opened: {stated.documents:,} documents of {stated.tokens_per_document:g} tokens and "
            f"{stated.bytes_per_document:g} bytes of text are the config's `estimate`.",
            "Passages: for documents whose lengths are exponential with that mean.",
            "Vectors: one for each token and 3 markers a passage; a checkpoint that masks punctuation keeps 12% fewer.",
            "BM25: 0.43 (term, passage) pairs a token, as in 253 passages of FineWeb [measured].",
            "Passage store: the text, and 151 bytes a passage for id, url and offsets.",
        ]
        if stated.dim is None or profile is not None:
            dim, shape, note = _of_profile(models, settings)
        else:
            shape = EncoderShape(stated.dim, stated.layers or 0, stated.hidden_size or 0, stated.intermediate_size or 0)
            dim, note = (
                stated.dim,
                f"Encoder: {shape.parameters / 1e6:.0f} M weights in its layers, the config's `estimate`.",
            )
        check_nbits(dim, settings.codec.nbits)
        contents = stated_contents(stated, settings.split)
        return Found(name, settings, contents, dim, shape, models.search_workers, {}, None, [*notes, note])
    if settings.corpus.path is None:
        raise InputError(
            f"{name}: no corpus; give --corpus 'FILES', set corpus.path, or state its totals: --set "
            "'estimate={documents: 1000000, tokens_per_document: 700, bytes_per_document: 3400}'"
        )
    return _sampled(name, settings, models, sample, measure)


def _sampled(name: str, settings: Any, models: Any, sample: int, measure: bool) -> Found:
    from jobs.index import models_of
    from pipeline.models.resolve import resolve_model
    from pipeline.plaid import hardware
    from pipeline.plaid.plan import make_plan
    from pipeline.plaid.sample_corpus import encoder_shape, sample_corpus

    spec, embedder = models_of(models, settings)
    frozen = make_plan(settings, spec, embedder)
    folder = resolve_model(spec.source, spec.revision)
    seen = sample_corpus(frozen, folder, sample, settings.codec.seed)
    notes = [
        f"{seen.documents:,} of {seen.contents.documents:,} documents were split and tokenised with {spec.source}; "
        + ("seeded sample, 95% intervals." if seen.intervals else "no estimate but a count."),
    ]
    measured = None
    if measure:
        from pipeline.local import make_model

        measured = hardware.measure(make_model(spec), seen.texts, seen.lengths, MEASURED_SECONDS)
    shape = encoder_shape(folder)
    workers = models.search_workers
    return Found(name, settings, seen.contents, frozen.checkpoint.dim, shape, workers, seen.intervals, measured, notes)


def _of_profile(models: Any, settings: Any) -> tuple[int, Any, str]:
    from jobs.index import models_of
    from pipeline.models.resolve import resolve_model
    from pipeline.plaid.checkpoint import read_settings
    from pipeline.plaid.sample_corpus import encoder_shape

    spec, _ = models_of(models, settings)
    folder = resolve_model(spec.source, spec.revision)
    return (
        read_settings(folder).dim,
        encoder_shape(folder),
        f"Encoder: {spec.source}; the stated tokens are not its own.",
    )


def figures(found: Found, cluster: Any, tokens_per_second: float | None) -> dict[str, Any]:
    """Every number of the plan, and what was assumed, ready for JSON: counts, bytes, FLOP, hours, dollars."""
    from pipeline.plaid import estimate as e
    from pipeline.plaid import hardware

    config, contents, dim, shape = found.config, found.contents, found.dim, found.shape
    trained = e.kmeans(contents, config, dim)
    size = e.index_bytes(contents, config, dim, trained.centroids)
    low, high = (e.index_bytes(contents, config, dim, trained.centroids, r).plaid for r in e.IVF_PAIRS_RANGE)
    memory = e.searcher(contents, size, dim, trained.centroids, found.searchers)
    per_passage = contents.vectors / contents.passages
    full = per_passage if config.split.unit == "characters" else config.split.size
    length = contents.read / contents.passages
    rate: hardware.Throughput | None
    if tokens_per_second is not None:
        rate = hardware.from_tokens(tokens_per_second, shape, length, "stated: --tokens-per-second")
    elif found.measured is not None:
        rate = hardware.from_tokens(found.measured, shape, length, "measured on this machine, one encoder")
    else:
        rate = hardware.from_cluster(cluster, shape, length) if cluster else None
    encoders = cluster.encoders if cluster else 1
    hours = rate and e.work(contents, trained, dim, encoders, rate.tokens_per_second, rate.flops)
    price = cluster and cluster.dollars_per_node_hour
    room = _memory(cluster)
    notes = [
        *found.notes,
        f"Inverted lists: 2.7 bytes a vector, PLAID's mean; with the least and the most it reports (2.0, 3.1), codes, "
        f"residuals and lists are {size_of(low)} to {size_of(high)}.",
    ]
    if config.dense.role is not None:
        notes.append("Left out: dense vectors (2 bytes a passage and dimension, what faiss adds) and embedding them.")
    notes += _time_notes(rate, hours, cluster, encoders)
    if trained.sample_vectors < trained.rule_vectors * 0.999:
        notes.append(
            f"k-means sees {trained.vectors_per_centroid:.0f} vectors a centroid: codec.sample_memory_gib="
            f"{config.codec.sample_memory_gib:g} caps the sample of colbert-ai's rule."
        )
    if room is not None and 2 * trained.sample_bytes > room:
        notes.append(
            f"Memory: the sample is held twice while it is joined, {2 * trained.sample_bytes / GIB:.1f} GiB; there are "
            f"{room / GIB:.0f} GiB. Lower codec.sample_memory_gib."
        )
    return {
        "index": found.name,
        "documents": contents.documents,
        "passages": round(contents.passages),
        "token_vectors": round(contents.vectors),
        "intervals": found.intervals,
        "dim": dim,
        "nbits": config.codec.nbits,
        "shards": size.shards,
        "kmeans": {**asdict(trained), "vectors_per_centroid": trained.vectors_per_centroid},
        "bytes": {**asdict(size), "plaid": size.plaid, "of_a_shard": size.of_a_shard, "total": size.total},
        "searchers": {"number": found.searchers, **asdict(memory)},
        "query": {
            "centroid_flop": e.probe_flop(dim, trained.centroids),
            "bytes_read_at_least": e.query_bytes(full, dim, config.codec.nbits),
        },
        "encoder_flop": shape and shape.flop(length) * contents.read,
        "gpus": cluster.nodes * cluster.gpus_per_node if cluster else 0,
        "throughput": rate and asdict(rate),
        "write_bytes_per_second": rate and rate.tokens_per_second * encoders * e.vector_bytes(dim, config.codec.nbits),
        "hours": hours and {**asdict(hours), "total": hours.total, "wall": hours.wall},
        "dollars": hours and price and hours.wall * cluster.nodes * price,
        "assumptions": notes,
    }


def _time_notes(rate: Any, hours: Any, cluster: Any, encoders: int) -> list[str]:
    if rate is None:
        return ["No throughput known, so no hours: give --tokens-per-second, --measure, or --cluster with a rate."]
    notes = [
        f"Throughput: {rate.tokens_per_second:,.0f} tokens/s an encoder, {rate.source}. Encoders ({encoders}) "
        "share the work perfectly, k-means is one's alone. Reading, splitting and BM25 are hidden behind the encoder.",
    ]
    if hours.assign is None:
        notes.append("Nearest centroids and k-means are left out: the encoder's FLOP are not known.")
    else:
        notes.append("Nearest centroids and k-means: exact search at the encoder's FLOP/s; a faster search takes less.")
    if cluster and cluster.dollars_per_node_hour is not None:
        notes.append(f"Price: ${cluster.dollars_per_node_hour:g} a node and hour, the cluster file's.")
    return notes


def _memory(cluster: Any) -> float | None:
    """Bytes of memory of a node, or of this machine; None where the cluster file does not say."""
    if cluster is None:
        return float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    return cluster.memory_gib and cluster.memory_gib * GIB


if __name__ == "__main__":
    from jobs.cli import run_alone

    run_alone("plan")
