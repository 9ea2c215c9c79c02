"""The steps of an index build after the plan, each on one machine and resumable: what is committed is not redone.

    passages (per shard) -> codec (once) -> encode (per shard) -> publish (once)

BM25's steps, which need the passages alone, are in pipeline/lexical/build.py; `publish` names them in the manifest.

`ray_cluster/build.py` runs them over a cluster. Killed anywhere and run again, the finished index has the same bytes.
"""

from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from pipeline import storage
from pipeline.errors import InputError, UnfinishedError
from pipeline.lexical import build as lexical
from pipeline.plaid.codec import Codec
from pipeline.plaid.passages import open_passages, write_passages
from pipeline.plaid.pieces import DocumentEncoder, EncodedPieces
from pipeline.plaid.plan import FORMAT, Plan
from pipeline.plaid.read_shard import verify_shard
from pipeline.plaid.shard import write_shard
from pipeline.plaid.train_codec import train_codec


def passages_step(plan: Plan, shard: str, out: Path, tokenizer: Path) -> dict[str, Any]:
    """Reads, splits and stores one shard's passages; returns its commit. `tokenizer`: a checkpoint's folder."""
    from pipeline.corpus.split import make_splitter

    name = f"passages/{shard}"
    if (held := storage.committed(out, name)) is not None:
        return held
    split = plan.config.split
    splitter = make_splitter(split.unit, split.size, split.overlap, tokenizer)
    with storage.attempt(out) as folder:
        record = write_passages(plan.shard(shard), plan.config.corpus, splitter, folder)
        return storage.commit(out, name, folder, record)


def codec_step(plan: Plan, out: Path, encoder: DocumentEncoder) -> dict[str, Any]:
    """Trains the codec on a seeded sample of all shards' passages; returns its commit.

    The sample has colbert-ai's size, 1 + 16 sqrt(120 N) of N passages, taken as random pieces and cut where its float32
    vectors reach `codec.sample_memory_gib`. Where it is half of the collection or more its vectors are kept for the
    encode step.
    """
    if (held := storage.committed(out, "codec")) is not None:
        return held
    settings = plan.config.codec
    stores = {shard.shard: open_passages(out, shard.shard) for shard in plan.shards}
    total = sum(map(len, stores.values()))
    if total == 0:
        raise InputError(
            f"corpus '{plan.config.corpus.path}': no document has text in column '{plan.config.corpus.text}', so there "
            f"is nothing to index; set corpus.text to the right one, and build into another --out or remove {out}"
        )
    wanted = min(total, 1 + int(16 * np.sqrt(120 * total)))
    room = int(settings.sample_memory_gib * 2**30) // (4 * plan.checkpoint.dim)
    pieces = [(shard, number) for shard, store in stores.items() for number in range(store.pieces)]
    encoded = EncodedPieces(out, encoder)
    sample: list[np.ndarray] = []
    passages = vectors = 0
    for chosen in np.random.default_rng(settings.seed).permutation(len(pieces)):
        shard, number = pieces[chosen]
        texts = stores[shard].piece(number)
        points, doclens = encoded.encode((shard, number), texts, keep=2 * wanted >= total)
        sample.append(points.astype(np.float32)[: room - min(room, vectors)])
        passages, vectors = passages + len(texts), vectors + int(doclens.sum())
        if passages >= wanted or vectors >= room:
            break
    estimate = round(total * vectors / passages)
    points = np.concatenate(sample)
    sample.clear()
    codec = train_codec(
        points,
        estimate,
        nbits=settings.nbits,
        kmeans_iterations=settings.kmeans_iterations,
        seed=settings.seed,
        bucket_recipe=settings.bucket_recipe,
        renormalise=settings.renormalise,
    )
    with storage.attempt(out) as folder:
        codec.save(folder)
        record = {
            "centroids": len(codec.centroids),
            "dtype": encoder.dtype,
            "sample_passages": passages,
            "sample_vectors": len(points),
            "estimated_vectors": estimate,
        }
        return storage.commit(out, "codec", folder, record)


def open_codec(out: Path, encoder: DocumentEncoder) -> tuple[Codec, Path]:
    """The committed codec and its folder.

    Raises UnfinishedError where it was trained in another precision than `encoder` computes in: a build spread over
    unlike machines would depend on which of them took a shard.
    """
    record = storage.committed(out, "codec")
    if record is None:
        raise UnfinishedError(f"{out}: its codec has not been trained")
    if record["dtype"] != encoder.dtype:
        raise UnfinishedError(
            f"{out}: the codec was trained on {record['dtype']} vectors and this machine encodes in {encoder.dtype}; "
            "set models.NAME.dtype to one that all machines have, and build in a new --out"
        )
    return Codec.load(out / record["folder"]), out / record["folder"]


def encode_step(
    plan: Plan, shard: str, out: Path, encoder: DocumentEncoder, codec: Codec, codec_folder: Path
) -> dict[str, Any]:
    """Encodes, compresses and writes one shard as a stock colbert-ai index folder, re-reads it, commits it."""
    name = f"shards/{shard}"
    if (held := storage.committed(out, name)) is not None:
        return held
    store = open_passages(out, shard)
    encoded = EncodedPieces(out, encoder)
    if len(store) == 0:  # every text of the shard was empty: nothing to encode, and nothing to search
        with storage.attempt(out) as folder:
            return storage.commit(out, name, folder, {"passages": 0, "embeddings": 0})
    with storage.attempt(out) as folder:
        pieces = (encoded.encode((shard, number), store.piece(number)) for number in range(store.pieces))
        settings = {"query_maxlen": plan.checkpoint.query_maxlen, "doc_maxlen": plan.checkpoint.doc_maxlen}
        write_shard(folder / "index", pieces, codec, codec_folder=codec_folder, config=settings)
        counts = verify_shard(folder / "index")
        if counts.passages != len(store):
            raise UnfinishedError(f"shard {shard}: {counts.passages} passages encoded, {len(store)} stored")
        record = {"passages": counts.passages, "embeddings": counts.embeddings}
        return storage.commit(out, name, folder / "index", record)


def publish_step(plan: Plan, out: Path) -> dict[str, Any]:
    """Checks every commit's files and writes `report.json` and then `MANIFEST.json`; returns the manifest.

    Raises UnfinishedError that names each shard which is missing or damaged.
    """
    codec, bm25 = storage.committed(out, "codec"), plan.config.lexical.bm25
    shards, missing, offset = [], [], 0
    for shard in plan.shards:
        passages = storage.committed(out, f"passages/{shard.shard}")
        encoded = storage.committed(out, f"shards/{shard.shard}")
        if passages is None or encoded is None:
            missing.append(f"shard {shard.shard} is not {'encoded' if passages else 'read'}")
            continue
        missing += [f"shard {shard.shard}: {p}" for part in (passages, encoded) for p in storage.damage(out, part)]
        if bm25 and (problems := lexical.missing_parts(out, shard.shard)):
            missing += [f"shard {shard.shard}, BM25: {problem}" for problem in problems]
            continue
        entry = lexical.shard_entry(out, shard.shard) if bm25 else None
        shards.append(
            {
                "shard": shard.shard,
                "pid_offset": offset,
                "documents": passages["documents"],
                "passages": passages["passages"],
                "embeddings": encoded["embeddings"],
                "store": passages["folder"],
                "folder": encoded["folder"],
                "lexical": entry and {name: entry[name] for name in ("postings", "weights")},
                "bytes": sum(file["bytes"] for part in (passages, encoded) for file in part["files"].values())
                + (entry["bytes"] if entry else 0),
            }
        )
        offset += passages["passages"]
    if codec is None or missing:
        raise UnfinishedError(
            f"{out} is not complete: {'; '.join(missing) or 'no codec'}. Run the command again to continue"
        )
    manifest = {
        "format": FORMAT,
        "fingerprint": plan.fingerprint,
        "checkpoint": asdict(plan.checkpoint),
        "codec": codec["folder"],
        "nbits": plan.config.codec.nbits,
        "centroids": codec["centroids"],
        "lexical": lexical.index_entry(out, plan.config.lexical) if bm25 else None,
        "shards": shards,
        **{total: sum(shard[total] for shard in shards) for total in ("documents", "passages", "embeddings")},
    }
    storage.write_file(out / "report.json", storage.to_json(_report(plan, out, manifest)))
    storage.create_file(out / "MANIFEST.json", storage.to_json(manifest))
    EncodedPieces.discard(out)
    return manifest


def _report(plan: Plan, out: Path, manifest: dict[str, Any]) -> dict[str, Any]:
    problems: dict[str, dict[str, Any]] = {}
    for shard in plan.shards:
        record = storage.committed(out, f"passages/{shard.shard}") or {"problems": {}}
        for kind, found in record["problems"].items():
            entry = problems.setdefault(kind, {"count": 0, "ids": []})
            entry["count"] += found["count"]
            entry["ids"] += found["ids"]
    totals = ("documents", "passages", "embeddings", "centroids")
    return {**{total: manifest[total] for total in totals}, "shards": len(plan.shards), "problems": problems}
