"""The dense step of an index build: one vector a passage, over the same passages as PLAID and BM25.

It needs the passages alone, goes shard by shard, and is resumable and of the same bytes like the other steps
(pipeline/plaid/build.py). A shard's folder holds, P passages in their order:

    vectors.npy   float16 [P, dim]   of unit length before rounding; memory-mappable
    faiss.index                      unless `dense.index` is exact: what proposes candidates (faiss_index.py)
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from pipeline.dense.faiss_index import write_faiss
from pipeline.env import Embedder
from pipeline.errors import UnfinishedError
from pipeline.plaid.meter import Meter
from pipeline.plaid.passages import PassageStore, open_passages
from pipeline.plaid.plan import Plan
from pipeline.storage import Home


class PassageEmbedder(Embedder, Protocol):
    dtype: str  # that vectors are computed in: "float32", "bfloat16"


def vectors_step(
    plan: Plan, shard: str, home: Home, embedder: PassageEmbedder, meter: Meter | None = None
) -> dict[str, Any]:
    """Embeds a shard's passages; returns its commit."""
    name, meter = f"vectors/{shard}", meter or Meter()
    if (held := home.committed(name)) is not None:
        return held
    store = open_passages(home, shard)
    with home.attempt() as folder:
        dim = write_vectors(store, embedder, folder / "vectors.npy", meter)
        with meter("faiss"):
            write_faiss(np.load(folder / "vectors.npy", mmap_mode="r"), plan.config.dense, folder / "faiss.index")
        source = home.need(f"passages/{shard}")["folder"]
        record = {"passages": len(store), "dim": dim, "dtype": embedder.dtype, "passages_folder": source}
        with meter("commit"):
            return home.commit(name, folder, record)


def write_vectors(store: PassageStore, embedder: Embedder, path: Path, meter: Meter) -> int:
    """Writes vectors.npy piece by piece, so that memory does not grow with the shard; returns dim."""
    dim = int(embedder.embed([]).shape[1])
    if len(store) == 0:
        np.save(path, np.empty((0, dim), np.float16))
        return dim
    vectors = np.lib.format.open_memmap(path, mode="w+", dtype=np.float16, shape=(len(store), dim))
    done = 0
    for number in range(store.pieces):
        texts = store.piece(number)
        with meter("embed"):
            vectors[done : done + len(texts)] = embedder.embed(texts)
        done += len(texts)
        meter.count(passages=len(texts))
    vectors.flush()
    return dim


def index_entry(plan: Plan, names: Sequence[str], home: Home) -> dict[str, Any]:
    """The collection's part of the manifest. Raises UnfinishedError where machines computed in unlike precisions."""
    records = [home.need(f"vectors/{name}") for name in names]
    dtypes = sorted({record["dtype"] for record in records})
    if len(dtypes) > 1:
        raise UnfinishedError(
            f"{home}: some shards were embedded in {' and some in '.join(dtypes)}; set models.NAME.dtype to one that "
            "all machines have, and build in a new --out"
        )
    model = plan.fingerprint["dense"]["model"]
    return {"index": plan.config.dense.index, "dim": records[0]["dim"], "dtype": dtypes[0], "model": model}
