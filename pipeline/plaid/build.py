"""The steps of an index build after the plan, each on one machine and resumable: what is committed is not redone.

    passages (per shard) -> codec (once) -> encode (per shard) -> publish (pipeline/plaid/publish.py)

BM25's steps and the dense one, which need the passages alone, are in pipeline/lexical/build.py and
pipeline/dense/build.py; `publish` names them in the manifest.

`ray_cluster/build.py` runs them over a cluster. Killed anywhere and run again, the finished index has the same bytes.
"""

from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np

from pipeline.errors import InputError, UnfinishedError
from pipeline.plaid.ahead import ahead
from pipeline.plaid.codec import Codec
from pipeline.plaid.meter import Meter
from pipeline.plaid.passages import open_passages, write_passages
from pipeline.plaid.pieces import DocumentEncoder, Encoded, EncodedPieces
from pipeline.plaid.plan import Plan
from pipeline.plaid.read_shard import verify_shard
from pipeline.plaid.shard import write_shard
from pipeline.plaid.train_codec import train_codec
from pipeline.storage import ChangedError, Home


def passages_step(plan: Plan, shard: str, home: Home, tokenizer: Path, meter: Meter | None = None) -> dict[str, Any]:
    """Reads, splits and stores one shard's passages; returns its commit. `tokenizer`: a checkpoint's folder."""
    from pipeline.corpus.split import make_splitter

    name, meter = f"passages/{shard}", meter or Meter()
    if (held := home.committed(name)) is not None:
        return held
    split = plan.config.split
    splitter = make_splitter(split.unit, split.size, split.overlap, tokenizer)
    with home.attempt() as folder:
        with meter("read and split"):
            record = write_passages(plan.shard(shard), plan.config.corpus, splitter, folder)
        left_out = sum(file["documents"] for file in record["bad_files"])
        meter.count(documents=record["documents"] + left_out, passages=record["passages"])
        with meter("commit"):
            try:
                return home.commit(name, folder, record, expected=_used(home, shard))
            except ChangedError as problem:
                raise InputError(
                    f"{problem}: its documents have changed since the index was built from them; put the corpus files "
                    "back as they were, or build another index"
                ) from None


def _used(home: Home, shard: str) -> str | None:
    """The folder of the passages that other steps of a shard have used; none while there are no such steps."""
    records = (home.committed(f"{step}/{shard}") for step in ("shards", "lexical", "vectors"))
    return next((record["passages_folder"] for record in records if record is not None), None)


def codec_step(
    plan: Plan, home: Home, encoder: DocumentEncoder, shards: Sequence[str] | None = None, meter: Meter | None = None
) -> dict[str, Any]:
    """Trains the codec on a seeded sample of the passages of `shards` (all of the plan's); returns its commit.

    The sample has colbert-ai's size, 1 + 16 sqrt(120 N) of N passages, taken as random pieces and cut where its float32
    vectors reach `codec.sample_memory_gib`. Where it is half of the collection or more its vectors are kept for the
    encode step.
    """
    if (held := home.committed("codec")) is not None:
        return held
    settings, meter = plan.config.codec, meter or Meter()
    with meter("read"):
        stores = {shard: open_passages(home, shard) for shard in (plan.names() if shards is None else shards)}
    total = sum(map(len, stores.values()))
    if total == 0:
        raise InputError(
            f"corpus '{plan.config.corpus.path}': no document has text in column '{plan.config.corpus.text}', so there "
            f"is nothing to index; set corpus.text to the right one, and build into another --out or remove {home}"
        )
    wanted = min(total, 1 + int(16 * np.sqrt(120 * total)))
    room = max(1, int(settings.sample_memory_gib * 2**30) // (4 * plan.checkpoint.dim))
    pieces = [(shard, number) for shard, store in stores.items() for number in range(store.pieces)]
    order = [pieces[chosen] for chosen in np.random.default_rng(settings.seed).permutation(len(pieces))]
    encoded = EncodedPieces(home.scratch(), encoder, stores.__getitem__, meter)
    sample: list[np.ndarray] = []
    passages = vectors = 0
    with closing(encoded.encode(order, keep=2 * wanted >= total)) as found:
        for points, doclens in found:
            sample.append(points[: room - min(room, vectors)])
            passages, vectors = passages + len(doclens), vectors + len(points)
            meter.count(passages=len(doclens), vectors=len(points))
            if passages >= wanted or vectors >= room:
                break
    estimate = round(total * vectors / passages)
    with meter("train"):
        codec = train_codec(
            _joined(sample),
            estimate,
            nbits=settings.nbits,
            kmeans_iterations=settings.kmeans_iterations,
            seed=settings.seed,
            bucket_recipe=settings.bucket_recipe,
            renormalise=settings.renormalise,
            assignment=settings.assignment,
            device=encoder.device,
        )
    with home.attempt() as folder:
        codec.save(folder)
        record = {
            "centroids": len(codec.centroids),
            "dtype": encoder.dtype,
            "sample_passages": passages,
            "sample_vectors": min(room, vectors),
            "estimated_vectors": estimate,
        }
        with meter("commit"):
            return home.commit("codec", folder, record)


def _joined(parts: list[np.ndarray]) -> np.ndarray:
    """The rows of all parts, float16 [n, dim], as one float32 array; the list is emptied on the way, so that no more
    than the result's size is needed."""
    out = np.empty((sum(map(len, parts)), parts[0].shape[1]), np.float32)
    end = len(out)
    while parts:
        part = parts.pop()
        out[end - len(part) : end] = part
        end -= len(part)
    return out


def open_codec(home: Home, encoder: DocumentEncoder) -> tuple[Codec, Path]:
    """The committed codec and a local folder with its files.

    Raises UnfinishedError where it was trained in another precision than `encoder` computes in: a build spread over
    unlike machines would depend on which of them took a shard.
    """
    record = home.need("codec")
    if record["dtype"] != encoder.dtype:
        raise UnfinishedError(
            f"{home}: the codec was trained on {record['dtype']} vectors and this machine encodes in {encoder.dtype}; "
            "set models.NAME.dtype to one that all machines have, and build in a new --out"
        )
    folder = home.fetch(record)
    return Codec.load(folder), folder


def encode_step(
    plan: Plan,
    shard: str,
    home: Home,
    encoder: DocumentEncoder,
    codec: Codec,
    codec_folder: Path,
    meter: Meter | None = None,
) -> dict[str, Any]:
    """Encodes, compresses and writes one shard as a stock colbert-ai index folder, re-reads it, commits it.

    Three threads: one reads and tokenises the next piece of the shard, one encodes a piece, this one compresses the
    piece before and writes. The bytes do not depend on who is faster.
    """
    name, meter = f"shards/{shard}", meter or Meter()
    if (held := home.committed(name)) is not None:
        return held
    with meter("read"):
        store = open_passages(home, shard)
        source = home.need(f"passages/{shard}")["folder"]
    if len(store) == 0:  # every text of the shard was empty: nothing to encode, and nothing to search
        with home.attempt() as folder:
            return home.commit(name, folder, {"passages": 0, "embeddings": 0, "passages_folder": source})
    encoded = EncodedPieces(home.scratch(), encoder, lambda _: store, meter)
    pieces = [(shard, number) for number in range(store.pieces)]

    def counted() -> Iterator[Encoded]:
        for vectors, doclens in waiting:
            yield vectors, doclens
            meter.count(passages=len(doclens), vectors=len(vectors))

    with home.attempt() as folder, closing(ahead(encoded.encode(pieces))) as waiting:
        write_shard(
            folder / "index",
            counted(),
            codec,
            codec_folder=codec_folder,
            config={"query_maxlen": plan.checkpoint.query_maxlen, "doc_maxlen": plan.checkpoint.doc_maxlen},
            device=encoder.device,
            meter=meter,
            turns=encoded.turns,
        )
        with meter("verify"):
            counts = verify_shard(folder / "index")
        if counts.passages != len(store):
            raise UnfinishedError(f"shard {shard}: {counts.passages} passages encoded, {len(store)} stored")
        record = {"passages": counts.passages, "embeddings": counts.embeddings, "passages_folder": source}
        with meter("commit"):
            return home.commit(name, folder / "index", record, shared=home.need("codec"))
