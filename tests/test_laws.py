"""The laws that a reading of the imports can show: what may import what, and that configs check without torch."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


def _imports(path: Path) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module)
    return names


def _breaches(folder: str, forbidden: str) -> list[str]:
    files = sorted((ROOT / folder).rglob("*.py"))
    assert files, f"no source files under {folder}"
    return [
        f"{path.relative_to(ROOT)} imports {name}"
        for path in files
        for name in sorted(_imports(path))
        if name == forbidden or name.startswith(f"{forbidden}.")
    ]


@pytest.mark.parametrize(
    ("folder", "forbidden"),
    [
        ("pipeline", "ray"),
        ("pipeline", "ray_cluster"),
        ("pipeline", "jobs"),
        ("ray_cluster", "pipeline.stages"),
        ("ray_cluster", "jobs"),
    ],
)
def test_who_may_import_whom(folder: str, forbidden: str) -> None:
    assert _breaches(folder, forbidden) == []


def test_the_reading_of_imports_finds_a_breach() -> None:
    assert _breaches("ray_cluster", "ray")


def test_the_project_is_the_folders_the_readme_names() -> None:
    folders = {path.name for path in ROOT.iterdir() if path.is_dir() and not path.name.startswith(".")}
    assert {"jobs", "ray_cluster", "pipeline", "tests", "configs"} <= folders
    assert all(name in (ROOT / "README.md").read_text() for name in ("jobs/", "ray_cluster/", "pipeline/", "configs/"))
