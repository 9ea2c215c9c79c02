"""`MANIFEST.json`: what an index consists of, written last. Each change of a finished index is a new generation.

`manifests/<generation>.json` is created if absent, which decides between two commands that change an index at once;
MANIFEST.json is a copy of the latest. Readers that opened an earlier generation keep their files: none is removed.
"""

from dataclasses import MISSING, dataclass, fields
from pathlib import Path
from typing import Any

from pipeline.errors import InputError, UnfinishedError, some
from pipeline.storage import Home, open_home, to_json


@dataclass(frozen=True)
class Manifest:
    """`MANIFEST.json` of a finished index at `home`."""

    home: Home
    generation: int
    fingerprint: dict[str, Any]
    checkpoint: dict[str, Any]
    codec: str
    nbits: int
    centroids: int
    shards: list[dict[str, Any]]
    passages: int
    documents: int
    embeddings: int
    next_pid: int  # the first pid that no shard of any generation has had
    dropped: list[str]  # shards taken out on purpose
    missing: list[dict[str, Any]]  # shards published without, --allow-missing-shards: shard, documents, reason
    lexical: dict[str, Any] | None = None  # k1, b, rules, collection, ...; None: the index has no BM25
    dense: dict[str, Any] | None = None  # index, dim, dtype, model; None: the index has no dense vectors

    def identity(self) -> dict[str, Any]:
        """What answers depend on: how it was built, and which shards it has now."""
        return {**self.fingerprint, "shards": [shard["shard"] for shard in self.shards]}

    def shard_names(self) -> list[str]:
        """Shards that have something to search."""
        return [shard["shard"] for shard in self.shards if shard["passages"]]


def read_manifest(place: str | Path | Home) -> Manifest:
    """Raises InputError where `place` is absent, is not an index, or is one that is not finished."""
    home = open_home(place)
    try:
        values = home.json("MANIFEST.json")
    except FileNotFoundError:
        raise InputError(_no_index(home)) from None
    known = [field for field in fields(Manifest) if field.name != "home"]
    if absent := [field.name for field in known if field.default is MISSING and field.name not in values]:
        raise InputError(f"{home}/MANIFEST.json has no '{absent[0]}': another version of Tartan wrote it; build anew")
    return Manifest(home, **{field.name: values[field.name] for field in known if field.name in values})


def latest(home: Home) -> dict[str, Any] | None:
    """The newest generation's values, after making MANIFEST.json say the same; None: not published yet."""
    if not (entries := home.entries("manifests")):
        return None
    values = home.json(f"manifests/{entries[-1]}")
    try:
        same = home.json("MANIFEST.json")["generation"] == values["generation"]
    except FileNotFoundError:
        same = False
    if not same:
        home.write("MANIFEST.json", to_json(values))
    return values


def put(home: Home, values: dict[str, Any]) -> None:
    """Publishes a generation. Raises UnfinishedError where another command has published another of its number."""
    name = f"manifests/{values['generation']:06}.json"
    body = to_json(values)
    if not home.create(name, body) and home.read(name) != body:
        raise UnfinishedError(f"{home} was changed by another command meanwhile; run this one again")
    home.write("MANIFEST.json", body)
    latest(home)  # a slower writer may have put an older generation over a newer one


def _no_index(home: Home) -> str:
    held = home.entries()
    if not held:
        return f"{home}: no such index; build one with `tartan index --corpus 'FILES' --out {home}`"
    if "plan.json" in held:
        return (
            f"{home} is an unfinished index (it has plan.json and no MANIFEST.json); "
            "run the `tartan index` command that began it again to continue"
        )
    return f"{home} is not an index: it has no MANIFEST.json (it holds {some(held)})"
