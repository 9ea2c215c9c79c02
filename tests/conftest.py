"""Fixtures that tests of several folders share."""

import os
from collections.abc import Iterator

import pytest

# Read by Ray when it is imported or started.
os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
os.environ["RAY_DATA_DISABLE_PROGRESS_BARS"] = "1"


@pytest.fixture(scope="session")
def ray_session() -> Iterator[None]:
    """One local Ray with 8 logical CPUs for every test that asks for it."""
    import ray

    ray.init(
        "local",
        num_cpus=8,
        num_gpus=0,
        include_dashboard=False,
        object_store_memory=200 * 2**20,
        logging_level="warning",
    )
    yield
    ray.shutdown()
