"""The last step of a build: which shards the index has, checked, and the manifest that names them."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from pipeline.corpus.ids import HASHES, NAMES, duplicate_ids
from pipeline.dense import build as dense
from pipeline.errors import InputError, UnfinishedError, some
from pipeline.lexical import build as lexical
from pipeline.plaid.manifest import latest, put
from pipeline.plaid.meter import timings
from pipeline.plaid.plan import FORMAT, Plan
from pipeline.storage import Home, to_json

TOTALS = ("documents", "passages", "embeddings")
Reasons = Mapping[str, str]  # shard -> why it is not there


def collection(names: Iterable[str], home: Home, drop: Iterable[str] = ()) -> list[str]:
    """The shards an index is to have: `names` and those published before, less those dropped now or before."""
    held = latest(home) or {"shards": [], "dropped": []}
    return sorted({*names, *(shard["shard"] for shard in held["shards"])} - {*held["dropped"], *drop})


def check_drop(home: Home, drop: Sequence[str]) -> None:
    """Raises InputError where the index is not finished, has no such shard, or would be left without any."""
    held = latest(home)
    if held is None:
        raise InputError(f"{home} is not a finished index, so it has no shard to drop")
    there = [shard["shard"] for shard in held["shards"]]
    for name in drop:
        if name not in there and name not in held["dropped"]:
            raise InputError(f"{home} has no shard {name}; its shards are {some(there, 8)}")
    if not set(there) - set(drop):
        raise InputError(f"{home}: --drop-shard would leave no shard; remove the index instead")


def publish_step(
    plan: Plan,
    wanted: Sequence[str],
    home: Home,
    missing: Reasons | None = None,
    drop: Sequence[str] = (),
    partial: bool = False,
) -> dict[str, Any]:
    """Checks every commit's files, writes `report.json` and then the manifest's next generation; returns it.

    `wanted`: the index's shards, as `collection` gives them. `missing`: those of them that failed, with their reasons.
    They, and what is absent or damaged, raise UnfinishedError that names each; with `partial` the index is published
    without them and says so. Nothing new: the manifest as it is.
    """
    missing = dict(missing or {})
    held = latest(home)
    bm25, embeds = plan.config.lexical.bm25, plan.config.dense.role is not None
    names = [name for name in wanted if name not in missing]
    key = lexical.collection_key(names)
    entries = {}
    for name in names:
        parts = [f"passages/{name}", f"shards/{name}"]
        parts += [f"lexical/{name}", f"weights/{key}/{name}"] if bm25 else []
        parts += [f"vectors/{name}"] if embeds else []
        entry, problems = _entry(home, name, parts)
        if problems:
            missing[name] = "; ".join(problems)
        else:
            entries[name] = entry
    codec = home.need("codec")
    if problems := home.damage(codec):
        raise UnfinishedError(f"{home}: its codec is damaged ({'; '.join(problems)}); restore it or build anew")
    if missing and not (partial and entries and missing.keys().isdisjoint(names)):
        what = "; ".join(f"shard {name}: {reason}" for name, reason in sorted(missing.items()))
        raise UnfinishedError(f"{home} is not complete: {what}. Run the command again to continue")
    shards, next_pid = _numbered(entries, held)
    dropped = sorted({*(held["dropped"] if held else []), *drop})
    values = {
        "format": FORMAT,
        "fingerprint": plan.fingerprint,
        "checkpoint": asdict(plan.checkpoint),
        "codec": codec["folder"],
        "nbits": plan.config.codec.nbits,
        "centroids": codec["centroids"],
        "lexical": lexical.index_entry(names, plan.config.lexical, home) if bm25 else None,
        "dense": dense.index_entry(plan, names, home) if embeds else None,
        "shards": shards,
        "next_pid": next_pid,
        "dropped": dropped,
        "missing": [
            {"shard": name, "documents": plan.shard(name).documents, "reason": reason}
            for name, reason in sorted(missing.items())
        ],
        **{total: sum(shard[total] for shard in shards) for total in TOTALS},
    }
    if held is None or {**values, "generation": held["generation"]} != held:
        values["generation"] = 1 if held is None else held["generation"] + 1
        home.write("report.json", to_json(report(plan, home, values)))
        put(home, values)
    home.clean()
    return latest(home) or values


def report(plan: Plan, home: Home, manifest: Mapping[str, Any]) -> dict[str, Any]:
    """What was built, what was odd in the corpus, and where the time went."""
    return {
        **{total: manifest[total] for total in (*TOTALS, "centroids")},
        "shards": len(manifest["shards"]),
        "bytes": sum(shard["bytes"] for shard in manifest["shards"]),
        "missing": manifest["missing"],
        "dropped": manifest["dropped"],
        "bad_files": [asdict(file) for file in plan.bad_files],
        "problems": _problems(home, [shard["shard"] for shard in manifest["shards"]]),
        "steps": timings(home),
    }


def _problems(home: Home, names: Sequence[str]) -> dict[str, dict[str, Any]]:
    """kind -> {count, ids}: the shards' own, and ids that several documents of the collection have; these keep their
    passages."""
    records = [home.need(f"passages/{name}") for name in names]
    problems: dict[str, dict[str, Any]] = {}
    for record in records:
        for kind, found in record["problems"].items():
            entry = problems.setdefault(kind, {"count": 0, "ids": []})
            entry["count"] += found["count"]
            entry["ids"] += found["ids"]
    hashes = [home.fetch(record, [HASHES]) / HASHES for record in records]
    duplicates = duplicate_ids(hashes, names=lambda number: home.fetch(records[number], [NAMES]) / NAMES)
    return problems | ({"duplicate id": duplicates} if duplicates["count"] else {})


def _entry(home: Home, name: str, parts: Sequence[str]) -> tuple[dict[str, Any], list[str]]:
    """A shard's part of the manifest, without its pids; and what is wrong with it."""
    records = {part: home.committed(part) for part in parts}
    problems = [f"its step {part} is not done" for part, record in records.items() if record is None]
    there = [record for record in records.values() if record is not None]
    problems += [problem for record in there for problem in home.damage(record)]
    if problems:
        return {}, problems
    passages, encoded = there[:2]
    counts = {"documents": passages["documents"], "passages": passages["passages"]}
    if encoded["passages"] != passages["passages"]:
        return {}, [f"{encoded['passages']} passages encoded, {passages['passages']} stored"]
    return {
        "shard": name,
        **counts,
        "embeddings": encoded["embeddings"],
        "store": passages["folder"],
        "folder": encoded["folder"],
        "bytes": sum(file["bytes"] for record in there for file in record["files"].values()),
    }, []


def _numbered(
    entries: Mapping[str, dict[str, Any]], held: Mapping[str, Any] | None
) -> tuple[list[dict[str, Any]], int]:
    """Shards with their pid_offset: what a shard has been given it keeps, so that a pid means one passage for ever."""
    given = {shard["shard"]: shard["pid_offset"] for shard in held["shards"]} if held else {}
    following = held["next_pid"] if held else 0
    for name in sorted(set(entries) - set(given)):
        given[name] = following
        following += entries[name]["passages"]
    numbered = [{**entry, "pid_offset": given[name]} for name, entry in entries.items()]
    return sorted(numbered, key=lambda shard: shard["pid_offset"]), following
