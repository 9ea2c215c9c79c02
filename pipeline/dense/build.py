"""The dense step of an index build: one vector a passage, over the same passages as PLAID and BM25.

It needs the passages alone, goes shard by shard, and is resumable and of the same bytes like the other steps
(pipeline/plaid/build.py). A shard's folder holds, P passages in their order:

    vectors.npy   float16 [P, dim]   of unit length before rounding; memory-mappable
    faiss.index                      unless `dense.index` is exact: what proposes candidates (faiss_index.py)
"""

from pathlib import Path
from typing import Any, Protocol

import numpy as np

from pipeline import storage
from pipeline.dense.faiss_index import write_faiss
from pipeline.env import Embedder
from pipeline.errors import UnfinishedError
from pipeline.plaid.passages import PassageStore, open_passages
from pipeline.plaid.plan import Plan


class PassageEmbedder(Embedder, Protocol):
    dtype: str  # that vectors are computed in: "float32", "bfloat16"


def vectors_step(plan: Plan, shard: str, out: Path, embedder: PassageEmbedder) -> dict[str, Any]:
    """Embeds a shard's passages; returns its commit."""
    name = f"vectors/{shard}"
    if (held := storage.committed(out, name)) is not None:
        return held
    store = open_passages(out, shard)
    with storage.attempt(out) as folder:
        dim = write_vectors(store, embedder, folder / "vectors.npy")
        write_faiss(np.load(folder / "vectors.npy", mmap_mode="r"), plan.config.dense, folder / "faiss.index")
        record = {"passages": len(store), "dim": dim, "dtype": embedder.dtype}
        return storage.commit(out, name, folder, record)


def write_vectors(store: PassageStore, embedder: Embedder, path: Path) -> int:
    """Writes vectors.npy piece by piece, so that memory does not grow with the shard; returns dim."""
    dim = int(embedder.embed([]).shape[1])
    if len(store) == 0:
        np.save(path, np.empty((0, dim), np.float16))
        return dim
    vectors = np.lib.format.open_memmap(path, mode="w+", dtype=np.float16, shape=(len(store), dim))
    done = 0
    for number in range(store.pieces):
        texts = store.piece(number)
        vectors[done : done + len(texts)] = embedder.embed(texts)
        done += len(texts)
    vectors.flush()
    return dim


def missing_parts(out: Path, shard: str) -> list[str]:
    """What a shard's vectors lack or have damaged, for the report of a build that cannot be published."""
    record = storage.committed(out, f"vectors/{shard}")
    return ["its step vectors is not done"] if record is None else storage.damage(out, record)


def shard_entry(out: Path, shard: str) -> dict[str, Any]:
    """A shard's part of the manifest: the folder of its vectors; and their bytes."""
    record = _record(out, shard)
    return {"vectors": record["folder"], "bytes": sum(file["bytes"] for file in record["files"].values())}


def index_entry(plan: Plan, out: Path) -> dict[str, Any]:
    """The collection's part of the manifest. Raises UnfinishedError where machines computed in unlike precisions."""
    records = [_record(out, shard.shard) for shard in plan.shards]
    dtypes = sorted({record["dtype"] for record in records})
    if len(dtypes) > 1:
        raise UnfinishedError(
            f"{out}: some shards were embedded in {' and some in '.join(dtypes)}; set models.NAME.dtype to one that "
            "all machines have, and build in a new --out"
        )
    model = plan.fingerprint["dense"]["model"]
    return {"index": plan.config.dense.index, "dim": records[0]["dim"], "dtype": dtypes[0], "model": model}


def _record(out: Path, shard: str) -> dict[str, Any]:
    record = storage.committed(out, f"vectors/{shard}")
    if record is None:
        raise UnfinishedError(f"{out}: its step vectors/{shard} is not done. Run the command again to continue")
    return record
