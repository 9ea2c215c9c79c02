from pathlib import Path

import pytest

from pipeline import provenance
from pipeline.provenance import git_commit, versions


def test_the_commit_is_none_outside_a_checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(provenance, "__file__", str(tmp_path / "pipeline" / "provenance.py"))
    assert git_commit() is None
    (tmp_path / ".git").mkdir()
    assert git_commit() is None


def test_versions_name_python_and_what_is_installed() -> None:
    found = versions()
    assert found["python"].startswith("3.")
    assert {"numpy", "pyarrow", "ray"} <= set(found)
