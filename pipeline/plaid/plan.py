"""Step 1 of a build: freeze which documents each shard holds, and a fingerprint of everything that shapes the index.

`plan.json` is created once. A later run with another fingerprint is refused, the changed setting named.
"""

import os
from dataclasses import asdict, dataclass
from importlib.metadata import version
from typing import Any

from pipeline.corpus.document import BadFile, CorpusFile
from pipeline.corpus.plan import ShardPlan, plan_shards
from pipeline.corpus.read import corpus_files
from pipeline.errors import InputError, some
from pipeline.lexical.sentences import SENTENCES
from pipeline.lexical.terms import RULES
from pipeline.models.resolve import model_fingerprint, resolve_model
from pipeline.plaid.checkpoint import read_settings
from pipeline.plaid.codec import check_nbits
from pipeline.plaid.config import CorpusConfig, DenseConfig, IndexConfig, LexicalConfig, SplitConfig
from pipeline.profile import ModelSpec
from pipeline.storage import Home, to_json
from pipeline.storage.local import LocalHome

FORMAT = 1  # of the index folder; raised when older readers could misread it
OURS = {
    "plan.json", "additions", "commit", "passages", "lexical", "statistics", "weights", "vectors", "codec", "shards",
    "pieces", "attempts", "timings", "manifests", "MANIFEST.json", "report.json",
}  # fmt: skip
VERSIONED = ("torch", "transformers", "sentence-transformers", "tokenizers", "numpy")  # of vectors and splits


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

    def check(self, spec: ModelSpec, place: object) -> None:
        """Raises InputError where `spec` is another checkpoint than this one, with which `place` was built."""
        fingerprint = model_fingerprint(resolve_model(spec.source, spec.revision))
        if self.fingerprint != fingerprint:
            raise InputError(
                f"{place} was built with the checkpoint {self.source} ({self.fingerprint[:12]}), the profile's "
                f"retriever is {spec.source} ({fingerprint[:12]}); use the profile it was built with, or build another "
                "index"
            )


@dataclass(frozen=True)
class Plan:
    """What a build does: settings, checkpoint, the documents of each shard, and the damaged files left out."""

    config: IndexConfig
    checkpoint: Checkpoint
    shards: list[ShardPlan]
    fingerprint: dict[str, Any]
    bad_files: list[BadFile]

    def shard(self, name: str) -> ShardPlan:
        return next(shard for shard in self.shards if shard.shard == name)

    def check(self, spec: ModelSpec, dense: ModelSpec | None, place: object) -> None:
        """Raises InputError where the encoder or the embedder is another one than `place` was built with."""
        self.checkpoint.check(spec, place)
        if self.config.dense.role is not None:
            if dense is None:
                raise ValueError("an index with dense vectors needs the model that embeds")
            check_embedder(self.fingerprint["dense"]["model"], dense, self.config.dense.role, place)

    def names(self) -> list[str]:
        return [shard.shard for shard in self.shards]

    def as_dict(self) -> dict[str, Any]:
        """As `plan.json` holds it; `from_dict` is its inverse."""
        return {
            "config": self.config.model_dump(),
            "checkpoint": asdict(self.checkpoint),
            "shards": [asdict(shard) for shard in self.shards],
            "fingerprint": self.fingerprint,
            "bad_files": [asdict(file) for file in self.bad_files],
        }

    @classmethod
    def from_dict(cls, held: dict[str, Any]) -> "Plan":
        return cls(
            IndexConfig.model_validate(held["config"]),
            Checkpoint(**held["checkpoint"]),
            [ShardPlan.from_dict(shard) for shard in held["shards"]],
            held["fingerprint"],
            [BadFile(**file) for file in held["bad_files"]],
        )


def make_plan(config: IndexConfig, spec: ModelSpec, dense: ModelSpec | None = None) -> Plan:
    """Lists the corpus and checks everything that can be known before work starts. `dense`: the model of `dense.role`.

    Raises InputError: no corpus files, a damaged one unless such are skipped, a column missing, nbits that does not
    divide the dimension, passages (titles included) longer than the checkpoint reads.
    """
    if config.dense.role and dense is None:
        raise ValueError("an index with dense vectors needs the model that embeds")
    corpus = corpus_files(str(config.corpus.path), config.corpus.columns, config.corpus.on_bad_file)
    checkpoint = Checkpoint.of(spec)
    check_nbits(checkpoint.dim, config.codec.nbits)
    room = checkpoint.doc_maxlen - 3  # [CLS], the document marker, [SEP]
    title_tokens = config.corpus.title_tokens if config.corpus.title else None
    config.split.check_room(room, title_tokens, checkpoint.source)
    shards = plan_shards(corpus.files, config.shards.documents)
    fingerprint = _fingerprint(config, checkpoint, spec, dense, corpus.files)
    return Plan(config, checkpoint, shards, fingerprint, corpus.bad_files)


def check_embedder(held: str, spec: ModelSpec, role: str, place: object) -> None:
    """Raises InputError where `spec`, which fills `role`, is not the model (a fingerprint) of the dense vectors held at
    `place`."""
    fingerprint = model_fingerprint(resolve_model(spec.source, spec.revision))
    if held != fingerprint:
        raise InputError(
            f"{place}: its dense vectors are of another embedder ({held[:12]}) than the profile's {role}, "
            f"{spec.source} ({fingerprint[:12]}); use the profile it was built with, or build another index"
        )


def freeze_plan(plan: Plan, home: Home) -> None:
    """Creates `plan.json`, or checks that the plan found there is the same one; raises as `check_out` does."""
    check_out(plan, home)
    try:
        home.create("plan.json", to_json(plan.as_dict()))
    except OSError as problem:
        reason = problem.strerror or type(problem).__name__
        raise InputError(f"{home} cannot be written to ({reason}); give --out a folder that can") from problem
    check_out(plan, home)


def check_out(plan: Plan, home: Home) -> None:
    """Raises InputError where `home` holds something else, or a build with other settings (old and new value named)."""
    held = held_plan(home)
    if held is None:
        return
    finished = home.exists("MANIFEST.json")
    old, new = _flat(held["fingerprint"]), _flat(plan.fingerprint)
    for key in sorted({*old, *new}):
        if finished and key.startswith("versions."):
            continue  # nothing more is computed
        if old.get(key) != new.get(key):
            raise InputError(
                f"{home} was begun with {key} = {old.get(key)!r}, now it is {new.get(key)!r}; "
                "give the old setting to continue, or another --out to build anew"
            )


def held_plan(home: Home) -> dict[str, Any] | None:
    """The `plan.json` of a build; None where nothing has begun. Raises InputError where `home` holds something else."""
    if isinstance(home, LocalHome) and home.root.exists() and not home.root.is_dir():
        raise InputError(f"{home} is a file; give --out a folder")
    try:
        return home.json("plan.json")
    except FileNotFoundError:
        foreign = [entry for entry in home.entries() if entry not in OURS]
        if foreign:
            raise InputError(
                f"{home} holds something else ({some(foreign)}); give --out a new or empty folder"
            ) from None
        return None


def _fingerprint(
    config: IndexConfig, checkpoint: Checkpoint, spec: ModelSpec, dense: ModelSpec | None, files: list[CorpusFile]
) -> dict[str, Any]:
    return {
        "format": FORMAT,
        "versions": {name: version(name) for name in VERSIONED},
        **config.model_dump(exclude={"corpus", "split", "encoder", "lexical", "dense"}),
        "corpus": _corpus(config.corpus),
        "split": _split(config.split),
        "lexical": _lexical(config.lexical),
        **({"dense": _dense(config.dense, dense)} if dense else {}),
        "checkpoint": {name: getattr(checkpoint, name) for name in ("fingerprint", "dim", "doc_maxlen")},
        "encoder": {"dtype": spec.dtype, "batch_tokens": spec.batch_tokens},  # both move the last bits of vectors
        "files": file_facts(files),
    }


def file_facts(files: list[CorpusFile]) -> dict[str, dict[str, int]]:
    """Which files a corpus has: names below their common folder, since a moved corpus is the same corpus."""
    root = os.path.commonpath([os.path.dirname(file.path) for file in files])
    return {os.path.relpath(file.path, root): {"bytes": file.size, "rows": file.rows} for file in files}


def _corpus(config: CorpusConfig) -> dict[str, Any]:
    """The section without what says where the corpus is, and without what becomes of damaged files: the list of those
    that are in the index has that, and a build that met one may go on without it."""
    return config.model_dump(exclude={"path", "on_bad_file"})


def _split(config: SplitConfig) -> dict[str, Any]:
    """The section, and which rules find sentences."""
    return {**config.model_dump(), **({"unit_rules": SENTENCES} if config.unit == "sentences" else {})}


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
