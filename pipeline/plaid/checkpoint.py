"""What a late-interaction checkpoint says about itself, read from its JSON files alone (no torch)."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipeline.errors import InputError


@dataclass(frozen=True)
class CheckpointSettings:
    """Lengths count every token of the model's input, markers included.

    `markers`: the token ids' names put after [CLS] in a (query, document) of a Stanford checkpoint; None where the
    checkpoint states its prompts as text (PyLate, sentence-transformers).
    """

    dim: int
    doc_maxlen: int
    query_maxlen: int
    markers: tuple[str, str] | None


def read_settings(folder: Path) -> CheckpointSettings:
    """Settings of a Stanford ColBERT (HF_ColBERT), PyLate or sentence-transformers multi-vector checkpoint.

    Raises InputError if `folder` is none of these: a plain encoder would get a random projection.
    """
    if "HF_ColBERT" in (_json(folder / "config.json").get("architectures") or []):
        # colbert-ai's own defaults stand where artifact.metadata says nothing.
        metadata = _json(folder / "artifact.metadata")
        markers = (metadata.get("query_token_id", "[unused0]"), metadata.get("doc_token_id", "[unused1]"))
        return CheckpointSettings(
            metadata.get("dim", 128), metadata.get("doc_maxlen", 220), metadata.get("query_maxlen", 32), markers
        )
    top = _json(folder / "config_sentence_transformers.json")
    if top.get("model_type") not in ("MultiVectorEncoder", "ColBERT") and "query_prefix" not in top:
        raise InputError(
            f"{folder} is not a late-interaction checkpoint (Stanford HF_ColBERT, PyLate, or a sentence-transformers "
            "MultiVectorEncoder); choose one as the profile's retriever, for example embedded:minilm-colbert."
        )
    modules = json.loads((folder / "modules.json").read_text())
    own = {**_json(folder / modules[0]["path"] / "sentence_bert_config.json"), **top}
    heads = [module["path"] for module in modules if module["type"].endswith("Dense")]
    tokens = _model_tokens(folder / modules[0]["path"])
    expansion = own.get("query_expansion") or {}
    return CheckpointSettings(
        dim=_json(folder / heads[-1] / "config.json")["out_features"] if heads else _hidden_size(folder),
        doc_maxlen=own.get("document_length") or tokens,
        query_maxlen=expansion.get("length") or own.get("query_length") or ("query_prefix" in own and 32) or tokens,
        markers=None,
    )


def _model_tokens(folder: Path) -> int:
    limits = (
        _json(folder / "tokenizer_config.json").get("model_max_length"),
        _json(folder / "config.json").get("max_position_embeddings"),
    )
    return int(min(limit for limit in limits if limit and limit > 0))


def _hidden_size(folder: Path) -> int:
    return int(_json(folder / "config.json")["hidden_size"])


def _json(path: Path) -> dict[str, Any]:
    """The file's object; empty where there is no such file."""
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
