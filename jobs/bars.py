"""Live bars, those of an index build among them; where stderr is no terminal, a line now and then."""

import sys
import time
from typing import Any, Self

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.text import Text

from pipeline.plaid.meter import Counts, step_name

HEARTBEAT_S = 30.0


class Bars:
    """One or more live bars on a terminal, lines elsewhere; a context manager."""

    def __init__(self, quiet: bool, figures: ProgressColumn) -> None:
        self._quiet, self._live = quiet, sys.stderr.isatty()
        self._bars = Progress(
            TextColumn("{task.description:10}"),
            BarColumn(),
            figures,
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            console=Console(stderr=True, quiet=quiet),
            disable=quiet or not self._live,
        )

    def __enter__(self) -> Self:
        self._bars.start()
        return self

    def __exit__(self, *problem: object) -> None:
        self._bars.stop()

    def log(self, line: str) -> None:
        """A line for a log; nothing on a terminal, which has the bar."""
        if not self._quiet and not self._live:
            print(line, file=sys.stderr, flush=True)


class BuildBars(Bars):
    """`ray_cluster.progress.Watch` for people."""

    def __init__(self, quiet: bool) -> None:
        super().__init__(quiet, _Figures())
        self._task: Any = None
        self._step, self._unit, self._done, self._total = "", "", 0, 0
        self._started = self._said = time.monotonic()

    def begin(self, step: str, done: int, total: int) -> None:
        self._step = step_name(step)
        self._unit = "documents" if step == "passages" else "passages"
        self._done, self._total = done, total
        self._started = self._said = time.monotonic()
        figures: dict[str, Any] = {"unit": self._unit, "counts": Counts(), "failed": 0, "began": done}
        self._task = self._bars.add_task(self._step, total=max(total, 1), completed=done or int(total == 0), **figures)
        self._say("there already" if done == total else "started", done)

    def update(self, step: str, counts: Counts, failed: int) -> None:
        done = self._done + (counts.documents if self._unit == "documents" else counts.passages)
        self._bars.update(self._task, completed=min(done, self._total), counts=counts, failed=failed)
        now = time.monotonic()
        ended = done >= self._total > self._done and self._said != float("inf")  # said once
        if ended or now - self._said >= HEARTBEAT_S:
            spent = max(now - self._started, 0.1)
            words = [f"{spent:,.0f} s", f"{rate((done - self._done) / spent)} {self._unit}/s"]
            if counts.vectors:
                words.append(f"{rate(counts.vectors / spent)} vectors/s")
            if self._done < done < self._total:
                words.append(f"about {(self._total - done) * spent / (done - self._done):,.0f} s left")
            if failed:
                words.append(f"failed shards: {failed}")
            self._say(", ".join(words), done)
            self._said = now if done < self._total else float("inf")

    def _say(self, words: str, done: int) -> None:
        self.log(f"{self._step}: {done:,} of {self._total:,} {self._unit}, {words}")


def rate(value: float) -> str:
    """Whole numbers where they say enough, else two digits."""
    return f"{value:,.0f}" if value >= 10 else f"{value:.2g}"


class _Figures(ProgressColumn):
    def render(self, task: Task) -> Text:
        spent = max(task.elapsed or 0.0, 1e-9)
        counts, unit = task.fields["counts"], task.fields["unit"]
        words = f"{task.completed:,.0f}/{task.total:,.0f} {unit}"
        if new := task.completed - task.fields["began"]:
            words += f" {rate(new / spent)}/s"
        if counts.vectors:
            words += f" {rate(counts.vectors / spent)} vectors/s"
        if failed := task.fields["failed"]:
            words += f" failed shards: {failed}"
        return Text(words)
