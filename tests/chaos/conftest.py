"""Clusters for drivers that join one."""

from collections.abc import Iterator
from typing import Any

import pytest


@pytest.fixture
def cluster() -> Iterator[Any]:
    """A head that holds no workers; the tests add and kill the others."""
    yield from _started(num_cpus=0)


@pytest.fixture(scope="module")
def standing() -> Iterator[Any]:
    """One node for all drivers of a module."""
    yield from _started(num_cpus=4)


def _started(**head: Any) -> Iterator[Any]:
    from ray.cluster_utils import Cluster

    started = Cluster(initialize_head=True, connect=False, head_node_args={"include_dashboard": False, **head})
    yield started
    started.shutdown()
