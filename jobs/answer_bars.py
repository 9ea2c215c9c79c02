"""The live line of an answering job; where stderr is no terminal, a line now and then."""

import time
from collections.abc import Callable
from threading import Lock
from typing import Any

import pyarrow as pa
from rich.progress import ProgressColumn, Task
from rich.text import Text

from jobs.bars import HEARTBEAT_S, Bars, rate
from pipeline.env import Engines

Look = Callable[[], Engines]  # asked often, so it must not wait


class AnswerBars(Bars):
    """Answered, failed, questions a minute, tokens a second (read and written), engines alive, time left; and requests
    that models have finished, which move long before the first questions are through.

    Rates are those of this command: they count from its first question on, and what was there before is in none.
    """

    def __init__(self, quiet: bool) -> None:
        super().__init__(quiet, _Figures())
        self._lock = Lock()
        self._task: Any = None
        self._total = self._answered = self._failed = self._new = self._tokens = 0
        self._engines: Look = lambda: Engines(0, 0, 0)
        self._before = 0  # requests that had been finished when this job began
        self._started = self._said = time.monotonic()

    def begin(self, total: int, todo: int, engines: Look = lambda: Engines(0, 0, 0)) -> None:
        """`todo` of `total` questions are to be answered now; the others are. `engines`: of none nothing is said."""
        self._total, self._answered, self._engines = total, total - todo, engines
        self._before = engines().finished
        self._started = self._said = time.monotonic()
        self._task = self._bars.add_task("answer", total=max(total, 1), completed=total - todo, words="")
        self.log(self._line("started"))

    def add(self, table: pa.Table) -> None:
        """Questions that have come out of the last stage, from any thread."""
        steps = [step for trace in table["trace"].to_pylist() for step in trace]
        failed = table.num_rows - table["error"].null_count
        with self._lock:
            self._new += table.num_rows
            self._answered += table.num_rows - failed
            self._failed += failed
            self._tokens += sum((step["prompt_tokens"] or 0) + (step["generated_tokens"] or 0) for step in steps)

    def show(self) -> None:
        """To be called now and then."""
        now = time.monotonic()
        with self._lock:
            words = self._words(max(now - self._started, 0.1))
            done = self._answered + self._failed
        self._bars.update(self._task, completed=done, words=self._line(words))
        if now - self._said >= HEARTBEAT_S:
            self.log(self._line(words))
            self._said = now

    def end(self) -> None:
        """The last line, for what was answered since the last one."""
        with self._lock:
            self.log(self._line(self._words(max(time.monotonic() - self._started, 0.1))))

    def _words(self, spent: float) -> str:
        left = self._total - self._answered - self._failed
        engines = self._engines()
        words = [f"{spent:,.0f} s"]
        if engines.finished > self._before:
            words.append(f"{engines.finished - self._before:,} requests")
        if self._new:
            words.append(f"{rate(60 * self._new / spent)} questions/min")
            words.append(f"{rate(self._tokens / spent)} tokens/s")
        if engines.models:
            words.append(f"engines {engines.up} of {engines.models}")
        if self._new and left:
            words.append(f"about {left * spent / self._new:,.0f} s left")
        return ", ".join(words)

    def _line(self, words: str) -> str:
        failed = f", failed: {self._failed}" if self._failed else ""
        return f"answer: {self._answered:,} of {self._total:,} questions{failed}, {words}"


class _Figures(ProgressColumn):
    def render(self, task: Task) -> Text:
        return Text(task.fields["words"].removeprefix("answer: "))
