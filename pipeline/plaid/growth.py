"""Adding files to a finished index: they become new shards under the same codec, and a new generation of the manifest.

`additions/<number>.json` is created once, like `plan.json`; the files of an addition are its identity, so the same
command run again continues it, or finds it done.
"""

from dataclasses import asdict, replace
from typing import Any

from pipeline.corpus.document import BadFile
from pipeline.corpus.plan import ShardPlan, plan_shards
from pipeline.corpus.read import corpus_files
from pipeline.errors import InputError, some
from pipeline.plaid.manifest import latest
from pipeline.plaid.plan import Plan, file_facts, held_plan
from pipeline.profile import ModelSpec
from pipeline.storage import Home, to_json


def open_plan(home: Home) -> Plan:
    """The plan of the index at `home` with every shard that it has been given. Raises InputError: no index there."""
    held = held_plan(home)
    if held is None:
        raise InputError(f"{home}: no such index; build one with `tartan index --corpus 'FILES' --out {home}`")
    return with_additions(Plan.from_dict(held), home)


def with_additions(plan: Plan, home: Home) -> Plan:
    """The plan of a build with the shards that were added later."""
    entries = _additions(home)
    shards = [ShardPlan.from_dict(shard) for entry in entries for shard in entry["shards"]]
    bad = [BadFile(**file) for entry in entries for file in entry["bad_files"]]
    return replace(plan, shards=[*plan.shards, *shards], bad_files=[*plan.bad_files, *bad])


def freeze_addition(
    home: Home, pattern: str, spec: ModelSpec, dense: ModelSpec | None = None
) -> tuple[Plan, list[str]]:
    """Plans the files of `pattern` as new shards, or finds that plan begun; returns the index's plan with them, and
    their names. `dense`: the model of the index's `dense.role`, where it has one.

    Raises InputError: the index is not finished, another addition is under way, a file is in the index already, or
    the profile's retriever or embedder is not the index's.
    """
    plan = open_plan(home)
    manifest = latest(home)
    if manifest is None:
        raise InputError(f"{home} is not finished; run the `tartan index` command that began it again, then --add")
    plan.check(spec, dense, home)
    corpus = corpus_files(pattern, plan.config.corpus.columns, plan.config.corpus.on_bad_file)
    facts = file_facts(corpus.files)
    additions = _additions(home)
    for entry in additions:
        if entry["files"] == facts:
            return plan, [shard["shard"] for shard in entry["shards"]]
    held = {shard["shard"] for shard in manifest["shards"]} | set(manifest["dropped"])
    for entry in additions:
        if begun := [shard["shard"] for shard in entry["shards"] if shard["shard"] not in held]:
            raise InputError(
                f"{home}: adding {some(sorted(entry['files']), 3)} is not finished (shard {begun[0]}); run that "
                "command again first"
            )
    there = [plan.fingerprint["files"], *(entry["files"] for entry in additions)]
    for name, fact in facts.items():
        if any(known.get(name) == fact for known in there):
            raise InputError(f"{home} holds {name} ({fact['bytes']} bytes, {fact['rows']} rows) already; leave it out")
    shards = plan_shards(corpus.files, plan.config.shards.documents)
    first = 1 + max(int(shard.shard) for shard in plan.shards)
    shards = [replace(shard, shard=f"{first + number:05d}") for number, shard in enumerate(shards)]
    bad = [asdict(file) for file in corpus.bad_files]
    body = to_json({"files": facts, "shards": [asdict(shard) for shard in shards], "bad_files": bad})
    name = f"additions/{1 + len(additions):04}.json"
    if not home.create(name, body) and home.read(name) != body:
        raise InputError(f"{home}: another command began to add files meanwhile; run this one again when it is done")
    return open_plan(home), [shard.shard for shard in shards]


def _additions(home: Home) -> list[dict[str, Any]]:
    return [home.json(f"additions/{entry}") for entry in home.entries("additions")]
