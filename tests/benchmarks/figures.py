"""A measured number beside its goal, and the table and file that numbers end up in."""

import json
import os
import platform
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table


@dataclass(frozen=True)
class Figure:
    """One measured number; `goal` is ("at least" | "at most", bound), or None where nothing is asked of it."""

    what: str
    value: float
    goal: tuple[str, float] | None = None
    note: str = ""
    runs: int = 1

    @property
    def met(self) -> bool | None:
        if self.goal is None:
            return None
        sense, bound = self.goal
        return self.value >= bound if sense == "at least" else self.value <= bound


def report(title: str, parts: Mapping[str, Callable[[], Iterator[Figure]]], names: Sequence[str], kept: Path) -> None:
    """Measures the parts named, in that order, and prints a table. `kept` gets each figure when it is measured,
    beside those of earlier commands."""
    figures = json.loads(kept.read_text())["figures"] if kept.exists() else {}
    table = Table(title=title)
    for column in ("what", "value", "goal", "met", "runs", "note"):
        table.add_column(column)
    for name in names:
        figures[name] = []
        for figure in parts[name]():
            figures[name].append(asdict(figure) | {"met": figure.met})
            kept.write_text(json.dumps({"machine": machine(), "figures": figures}, indent=2))
            goal = f"{figure.goal[0]} {figure.goal[1]:g}" if figure.goal else ""
            met = {True: "yes", False: "NO", None: ""}[figure.met]
            table.add_row(figure.what, f"{figure.value:.3f}", goal, met, str(figure.runs), figure.note)
    Console(width=180).print(table)
    print(f"also in {kept}")


def machine() -> dict[str, Any]:
    """What a number depends on besides the code."""
    model = next(
        (line.split(":")[1].strip() for line in Path("/proc/cpuinfo").read_text().splitlines() if "model name" in line),
        platform.processor(),
    )
    packages = ("torch", "transformers", "numpy", "numba", "ray")
    return {"processor": model, "cores": os.cpu_count()} | {name: version(name) for name in packages}
