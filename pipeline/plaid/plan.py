"""Step 1 of a build: freeze which documents each shard holds, and a fingerprint of everything that shapes the index.

`plan.json` is created once. A later run with another fingerprint is refused, the changed setting named.
"""

import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pipeline import storage
from pipeline.corpus.plan import ShardPlan, plan_shards
from pipeline.corpus.read import CorpusFile, corpus_files
from pipeline.errors import InputError
from pipeline.lexical.terms import RULES
from pipeline.models.resolve import model_fingerprint, resolve_model
from pipeline.plaid.checkpoint import read_settings
from pipeline.plaid.codec import check_nbits
from pipeline.plaid.config import DenseConfig, IndexConfig, LexicalConfig
from pipeline.profile import ModelSpec

FORMAT = 1  # of the index folder; raised when older readers could misread it
OURS = {
    "plan.json", "commit", "passages", "lexical", "weights", "vectors", "codec", "shards", "pieces", "attempts",
    "MANIFEST.json", "report.json",
}  # fmt: skip


@dataclass(frozen=True)
class Checkpoint:
    """The encoder an index is built with, as far as it shapes the index."""

    source: str
    revision: str | None
    fingerprint: str
    dim: int
    doc_maxlen: int
    query_maxlen: int

    @classmethod
    def of(cls, spec: ModelSpec) -> "Checkpoint":
        """Reads the checkpoint's own settings; downloads it where it is a hub id."""
        folder = resolve_model(spec.source, spec.revision)
        settings = read_settings(folder)
        return cls(
            spec.source,
            spec.revision,
            model_fingerprint(folder),
            settings.dim,
            spec.doc_maxlen or settings.doc_maxlen,
            settings.query_maxlen,
        )


@dataclass(frozen=True)
class Plan:
    """What a build does: settings, checkpoint, and the documents of each shard."""

    config: IndexConfig
    checkpoint: Checkpoint
    shards: list[ShardPlan]
    fingerprint: dict[str, Any]

    def shard(self, name: str) -> ShardPlan:
        return next(shard for shard in self.shards if shard.shard == name)


def make_plan(config: IndexConfig, spec: ModelSpec, dense: ModelSpec | None = None) -> Plan:
    """Lists the corpus and checks everything that can be known before work starts. `dense`: the model of `dense.role`.

    Raises InputError: no corpus files, a column missing, nbits that does not divide the dimension, passages longer
    than the checkpoint reads.
    """
    if config.dense.role and dense is None:
        raise ValueError("an index with dense vectors needs the model that embeds")
    files = corpus_files(str(config.corpus.path), config.corpus.text, config.corpus.id)
    checkpoint = Checkpoint.of(spec)
    check_nbits(checkpoint.dim, config.codec.nbits)
    room = checkpoint.doc_maxlen - 3  # [CLS], the document marker, [SEP]
    if config.split.unit == "tokens" and config.split.size > room:
        raise InputError(
            f"split.size is {config.split.size} tokens, but {checkpoint.source} reads {room} of a passage "
            f"(doc_maxlen {checkpoint.doc_maxlen} less 3 markers); set split.size={room} or smaller, or the profile's "
            "models.NAME.doc_maxlen larger where the model reads more"
        )
    shards = plan_shards(files, config.shards.documents)
    return Plan(config, checkpoint, shards, _fingerprint(config, checkpoint, spec, dense, files))


def freeze_plan(plan: Plan, out: Path) -> None:
    """Creates `plan.json` in `out`, or checks that the plan found there is the same one. Raises InputError as
    `check_out` does."""
    check_out(plan, out)
    storage.create_file(out / "plan.json", storage.to_json(_as_dict(plan)))
    check_out(plan, out)


def check_out(plan: Plan, out: Path) -> None:
    """Raises InputError where `out` holds something else, or a build with other settings (old and new value named)."""
    if out.exists() and not out.is_dir():
        raise InputError(f"{out} is a file; give --out a folder")
    path = out / "plan.json"
    if not path.exists():
        foreign = sorted(entry.name for entry in out.iterdir() if entry.name not in OURS) if out.exists() else []
        if foreign:
            raise InputError(f"{out} holds something else ({', '.join(foreign[:5])}); give --out a new or empty folder")
        return
    held = storage.read_json(path)
    without = {"lexical": _lexical(LexicalConfig(bm25=False))}  # a build begun before BM25 was there has none
    old, new = _flat(without | held["fingerprint"]), _flat(plan.fingerprint)
    for key in sorted({*old, *new}):
        if old.get(key) != new.get(key):
            raise InputError(
                f"{out} was begun with {key} = {old.get(key)!r}, now it is {new.get(key)!r}; "
                "give the old setting to continue, or another --out to build anew"
            )


def _as_dict(plan: Plan) -> dict[str, Any]:
    return {
        "config": plan.config.model_dump(),
        "checkpoint": asdict(plan.checkpoint),
        "shards": [asdict(shard) for shard in plan.shards],
        "fingerprint": plan.fingerprint,
    }


def _fingerprint(
    config: IndexConfig, checkpoint: Checkpoint, spec: ModelSpec, dense: ModelSpec | None, files: list[CorpusFile]
) -> dict[str, Any]:
    root = os.path.commonpath([os.path.dirname(file.path) for file in files])  # a moved corpus is the same corpus
    return {
        "format": FORMAT,
        **config.model_dump(exclude={"corpus": {"path"}, "encoder": True, "lexical": True, "dense": True}),
        "lexical": _lexical(config.lexical),
        **({"dense": _dense(config.dense, dense)} if dense else {}),
        "checkpoint": {name: getattr(checkpoint, name) for name in ("fingerprint", "dim", "doc_maxlen")},
        "encoder": {"dtype": spec.dtype, "batch_tokens": spec.batch_tokens},  # both move the last bits of vectors
        "files": {os.path.relpath(file.path, root): {"bytes": file.size, "rows": file.rows} for file in files},
    }


def _lexical(config: LexicalConfig) -> dict[str, Any]:
    """The section, and which rules cut text into terms."""
    return {**config.model_dump(), **({"rules": RULES} if config.bm25 else {})}


def _dense(config: DenseConfig, spec: ModelSpec) -> dict[str, Any]:
    """The section, and which model embeds; an index without dense vectors has none."""
    model = model_fingerprint(resolve_model(spec.source, spec.revision))
    return {**config.model_dump(exclude={"role"}), "model": model, "dtype": spec.dtype}


def _flat(value: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, item in value.items():
        if isinstance(item, dict):
            flat |= _flat(item, f"{prefix}{key}.")
        else:
            flat[f"{prefix}{key}"] = item
    return flat
