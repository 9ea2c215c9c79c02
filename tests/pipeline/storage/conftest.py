"""Homes of both kinds: a folder, and a prefix on a real S3 server."""

from pathlib import Path

import pytest

from pipeline.storage import Home, open_home


@pytest.fixture(params=["local", "s3"])
def home(request: pytest.FixtureRequest, tmp_path: Path) -> Home:
    return open_home(tmp_path / "home" if request.param == "local" else request.getfixturevalue("s3"))
