"""Starting drivers, waiting for moments, killing processes for real, and leaving none behind."""

import os
import re
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil

MARK = "TARTAN_CHAOS"  # in the environment of everything a driver starts
STAGE_WORKER = "ray::MapWorker"
WAIT_S = 300  # for any one thing: nothing here may hang
END_S = 900  # for a driver to do all that is left


class Driver:
    """`python -m MODULE ARGUMENTS` with its Ray cluster."""

    def __init__(self, module: str, *arguments: object, env: dict[str, str] | None = None) -> None:
        self.mark = uuid.uuid4().hex
        self.process = subprocess.Popen(
            [sys.executable, "-m", module, *map(str, arguments)],
            env={**os.environ, **(env or {}), MARK: self.mark},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def wait_for(self, moment: Callable[[], bool]) -> bool:
        """Until `moment()`; False where the driver ended before it."""
        until = time.monotonic() + WAIT_S
        while time.monotonic() < until:
            if moment():
                return True
            if self.process.poll() is not None:
                return False
            time.sleep(0.01)
        raise TimeoutError("the moment did not come")

    def kill(self) -> None:
        """SIGKILL to the driver; its cluster notices and goes."""
        self.process.send_signal(signal.SIGKILL)
        self.process.communicate(timeout=WAIT_S)

    def kill_worker(self, doing: str) -> bool:
        """SIGKILL to one Ray worker whose title has `doing` ("Encode"); False where there is none now."""
        return kill_one(self._started(), rf"ray::.*{doing}")

    def kill_service(self, name: str) -> bool:
        """SIGKILL to a process of the driver's own cluster that is no worker: gcs_server, raylet."""
        return kill_one(self._started(), rf"\S*/{name}\b")

    def finish(self) -> tuple[int, str]:
        """Exit code, and what it said on stderr and stdout."""
        out, err = self.process.communicate(timeout=END_S)
        return self.process.returncode, err + out

    def succeed(self) -> None:
        """It must: else what it said is shown."""
        code, said = self.finish()
        assert code == 0, said

    def clean(self) -> None:
        """Nothing of this driver is left running."""
        for process in [*self._started()]:
            try:
                process.kill()
            except psutil.Error:
                continue

    def _started(self) -> Iterator[psutil.Process]:
        for process in psutil.process_iter():
            try:
                if process.environ().get(MARK) == self.mark:
                    yield process
            except psutil.Error:
                continue


@contextmanager
def driver(module: str, *arguments: object, env: dict[str, str] | None = None) -> Iterator[Driver]:
    started = Driver(module, *arguments, env=env)
    try:
        yield started
    finally:
        started.clean()


def kill_one(processes: Iterable[psutil.Process], title: str) -> bool:
    """SIGKILL to the first of these whose command line starts with this pattern; False where there is none now."""
    for process in processes:
        try:
            if re.match(title, " ".join(process.cmdline())):
                process.kill()
                return True
        except psutil.Error:
            continue
    return False


def workers(node: Any) -> list[psutil.Process]:
    """Of a `ray.cluster_utils.Cluster`'s node: the processes that its raylet has started."""
    try:
        return psutil.Process(node.all_processes["raylet"][0].process.pid).children(recursive=True)
    except psutil.Error:
        return []


def there(out: Path, pattern: str, count: int = 1) -> Callable[[], bool]:
    """Whether at least `count` files match."""
    return lambda: sum(1 for _ in out.glob(pattern)) >= count
