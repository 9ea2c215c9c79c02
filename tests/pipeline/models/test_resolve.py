"""From `source` to a folder, and the fingerprint of a model."""

import os
import shutil
from pathlib import Path

import huggingface_hub
import pytest
from huggingface_hub.errors import LocalEntryNotFoundError

from pipeline.errors import InputError
from pipeline.models.embedded import RECORD, prepare
from pipeline.models.resolve import model_fingerprint, resolve_model


def test_embedded_and_folder_sources(tmp_path: Path) -> None:
    assert resolve_model("embedded:minilm") == prepare("minilm")
    assert resolve_model(str(tmp_path)) == tmp_path
    with pytest.raises(InputError, match="no such folder"):
        resolve_model(str(tmp_path / "absent"))
    with pytest.raises(InputError, match="minilm-colbert"):
        resolve_model("embedded:absent")


def test_hub_ids(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    asked = []

    def download(name: str, revision: str | None) -> str:
        asked.append((name, revision))
        if name == "owner/absent":
            raise LocalEntryNotFoundError("no network")
        return str(tmp_path)

    monkeypatch.setattr(huggingface_hub, "snapshot_download", download)
    assert resolve_model("owner/model", "abc123") == tmp_path
    assert asked == [("owner/model", "abc123")]
    with pytest.raises(InputError, match=r"'owner/absent' at revision v1 .*HF_HOME.*--profile embedded"):
        resolve_model("owner/absent", "v1")


def test_fingerprint_follows_content_not_place(tmp_path: Path) -> None:
    first = tmp_path / "first"
    first.mkdir()
    (first / "config.json").write_text("{}")
    (first / "model.safetensors").write_bytes(b"weights")
    (first / "README.md").write_text("one")
    (first / RECORD).write_text("one")
    second = shutil.copytree(first, tmp_path / "second")
    (second / "README.md").write_text("another")
    (second / RECORD).write_text("another")
    before = model_fingerprint(first)
    assert len(before) == 64
    assert model_fingerprint(second) == before

    (second / "model.safetensors").write_bytes(b"weighty")
    os.utime(second / "model.safetensors", ns=(1, 1))
    assert model_fingerprint(second) != before
    (first / "model.safetensors").rename(first / "other.safetensors")
    assert model_fingerprint(first) != before
