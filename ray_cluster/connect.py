"""Joins a Ray cluster, or starts one on this machine, and refuses at once what it cannot give."""

import logging
import math
import os
import socket
import sys
from typing import Any
from urllib.parse import urlsplit

import ray

from pipeline.errors import InputError, UnfinishedError

# Threads that spin while they wait starve each other where several models share the processor's cores.
WORKER_ENV = {"OMP_WAIT_POLICY": "PASSIVE", "TORCH_CPP_LOG_LEVEL": "ERROR"}
_logical_here = 0  # CPUs of the local cluster that `connect` has started in this process


def connect(address: str | None, cpus: float, gpus: float) -> None:
    """Joins the cluster at `address` (else at RAY_ADDRESS, else the one this process is in), or starts a local one.

    `cpus` and `gpus` are what the job's models and searchers want together. A local cluster gets as many *logical* CPUs
    as are wanted even where the machine has fewer: a laptop may be oversubscribed on purpose, it is then slow, not
    stuck; one that was started here for a smaller job is started again. GPUs are never oversubscribed, nor are the CPUs
    of a cluster that was joined.

    Raises InputError where the cluster does not answer or lacks what is wanted, before anything waits for it.
    """
    # Read by Ray when it starts; a user's own setting holds.
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    address = address or os.environ.get("RAY_ADDRESS")
    _quiet_ray()
    global _logical_here
    logical = max(os.cpu_count() or 1, math.ceil(cpus))
    if ray.is_initialized() and 0 < _logical_here < logical:
        ray.shutdown()
    joined_here = not ray.is_initialized()
    if joined_here and address in (None, "", "local"):
        os.environ.update({name: os.environ.get(name, value) for name, value in WORKER_ENV.items()})
        # Ray's C++ side warns of every actor that may be restarted; a failure reaches the user as an exception.
        os.environ.setdefault("RAY_BACKEND_LOG_LEVEL", "fatal")
        # "local", because without an address Ray would join any cluster that was started on this machine.
        options: dict[str, Any] = {"include_dashboard": False, "log_to_driver": False}
        try:
            ray.init("local", num_cpus=logical, logging_level=logging.WARNING, **options)
        except Exception as problem:  # Ray raises no class of its own here
            reason = str(problem).strip().split("\n")[0]
            raise UnfinishedError(
                f"Ray did not start on this machine ({reason}); it may be too busy, run the command again"
            ) from problem
        _logical_here = logical
    elif joined_here:
        try:
            _knock(address or "")
            ray.init(address, logging_level=logging.WARNING, runtime_env={"env_vars": WORKER_ENV})
        except (OSError, RuntimeError, ValueError) as problem:
            reason = str(problem).strip().split("\n")[0]
            raise InputError(
                f"no Ray cluster answers at '{address}' ({reason}); give the address of a running one (--address or "
                "RAY_ADDRESS), or unset RAY_ADDRESS to use this machine"
            ) from problem
    _quiet_ray_data()
    try:
        _check(cpus, gpus)
    except InputError:
        if joined_here:
            ray.shutdown()
        raise


def _knock(address: str) -> None:
    """Raises OSError where nothing listens at host:port; Ray itself would try for minutes."""
    place = urlsplit(address if "://" in address else f"//{address}")
    if place.hostname and place.port:
        socket.create_connection((place.hostname, place.port), timeout=10).close()


def _check(cpus: float, gpus: float) -> None:
    held = ray.cluster_resources()
    has = {"CPU": held.get("CPU", 0), "GPU": held.get("GPU", 0)}
    whole = f"the cluster has {has['CPU']:g} CPUs and {has['GPU']:g} GPUs"
    if gpus > has["GPU"]:
        raise InputError(
            f"wanted {gpus:g} GPUs, {whole}: use --profile embedded, set models.NAME.gpus=0, or join a larger cluster"
        )
    if cpus > has["CPU"]:
        raise InputError(
            f"wanted {cpus:g} CPUs, {whole}: set models.NAME.cpus, models.NAME.replicas or search_workers lower, or "
            "join a larger cluster"
        )


def _quiet_ray_data() -> None:
    """Progress bars on a terminal only; what Ray Data says of its plans goes to its log file."""
    from ray.data import DataContext

    context = DataContext.get_current()
    context.print_on_execution_start = False
    context.enable_progress_bars = context.enable_progress_bars and sys.stderr.isatty()
    logging.getLogger("ray.data").setLevel(logging.WARNING)
    logging.getLogger("ray.data._internal.progress").setLevel(logging.ERROR)  # says that there are no progress bars


def _quiet_ray() -> None:
    """Without the notice that token authentication is on; that it is off would still be said."""
    notices = logging.getLogger("ray._private.authentication.authentication_token_setup")
    notices.addFilter(lambda record: "is enabled for this Ray cluster" not in record.getMessage())
