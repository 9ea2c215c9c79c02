import os
import subprocess
import sys
from pathlib import Path

import pytest

from pipeline.errors import InputError
from ray_cluster.connect import connect

ALONE = """
import os, ray
from pipeline.errors import InputError
from ray_cluster.connect import connect

def refusal(*wanted):
    try:
        connect(*wanted)
    except InputError as problem:
        assert not ray.is_initialized()
        return str(problem)

print(refusal("127.0.0.1:9", 1, 0))
print(refusal(None, 1, 3))
connect(None, os.cpu_count() + 3, 0)
print(ray.cluster_resources()["CPU"] - os.cpu_count())
"""


@pytest.mark.usefixtures("ray_session")
def test_a_cluster_that_has_what_is_wanted_is_used() -> None:
    connect(None, 4, 0)


@pytest.mark.usefixtures("ray_session")
@pytest.mark.parametrize(
    ("cpus", "gpus", "message"),
    [
        (1, 2, r"wanted 2 GPUs, the cluster has 8 CPUs and 0 GPUs: use --profile embedded, set models.NAME.gpus=0"),
        (8.5, 0, r"wanted 8.5 CPUs, the cluster has 8 CPUs and 0 GPUs: set models.NAME.cpus"),
    ],
)
def test_a_cluster_that_lacks_something_is_refused_at_once(cpus: float, gpus: float, message: str) -> None:
    with pytest.raises(InputError, match=message):
        connect(None, cpus, gpus)


def test_a_local_cluster_is_oversubscribed_in_cpus_and_not_in_gpus() -> None:
    environment = {name: value for name, value in os.environ.items() if name != "RAY_ADDRESS"}
    environment["CUDA_VISIBLE_DEVICES"] = ""
    root = Path(__file__).resolve().parents[2]
    done = subprocess.run(
        [sys.executable, "-c", ALONE],
        env=environment,
        cwd=root,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    unreachable, gpus, extra = done.stdout.strip().split("\n")
    assert unreachable.startswith("no Ray cluster answers at '127.0.0.1:9'")
    assert gpus.startswith("wanted 3 GPUs, the cluster has ")
    assert float(extra) == 3


@pytest.mark.slow
def test_a_local_cluster_grows_with_the_next_job() -> None:
    """`tartan demo` builds an index and then answers, which wants more CPUs, in one process."""
    code = (
        "import ray; from ray_cluster.connect import connect; connect(None, 1, 0); connect(None, 64, 0); "
        "print('has', ray.cluster_resources()['CPU'])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=180, check=False)
    assert "has 64" in done.stdout, done.stderr
