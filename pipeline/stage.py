"""The contract of a stage: it adds or replaces columns of a question table and keeps its rows and their order.

A stage is a pydantic model: YAML keys are its constructor arguments, unknown keys are refused with the valid names.
`__init__` stays light; heavy state comes from the environment in `setup`, once per worker.
"""

import time
from abc import ABC, abstractmethod
from typing import Any, ClassVar, final

import pyarrow as pa
from pydantic import BaseModel, ConfigDict

from pipeline.env import EngineError, Env, Method
from pipeline.prompts import PromptUse
from pipeline.schema import BASE, ERROR, TRACE, type_name


class Stage(BaseModel, ABC):
    """One step of a system.

    Subclasses say what they read and write, which models and indexes they need, and do the work in `process`.
    `process` may return, beside its columns, the key `"trace"`: per row a dict of schema.TRACE's counts.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)
    name: ClassVar[str]

    @abstractmethod
    def reads(self) -> dict[str, pa.DataType]: ...

    @abstractmethod
    def writes(self) -> dict[str, pa.DataType]: ...

    def models(self) -> dict[str, str]:
        """Roles this stage asks the environment for: role -> kind, one of profile.KINDS."""
        return {}

    def indexes(self) -> list[str]:
        """Index names this stage searches."""
        return []

    def methods(self) -> dict[str, set[Method]]:
        """How it searches each of them: what an index must have, and what is opened for it."""
        return {index: {"plaid"} for index in self.indexes()}

    def prompts(self) -> list[PromptUse]:
        """Prompts this stage renders, with the slots it fills and those a prompt must have."""
        return []

    def bind(self, columns: dict[str, pa.DataType]) -> None:
        """Told the columns before it, once, when a system is composed: for a stage whose output type is its input's."""
        return None

    def setup(self, env: Env) -> None:
        """Fetch heavy state from the environment, once per worker. A stage without any keeps this."""
        return None

    @abstractmethod
    def process(self, batch: pa.Table) -> dict[str, list]: ...

    @final
    def __call__(self, batch: pa.Table) -> pa.Table:
        """The batch with this stage's columns. Rows that already failed pass through; a row that makes `process`
        raise gets an `error` and costs only itself. EngineError is nobody's row: it ends the job."""
        alive = [row for row, error in enumerate(batch["error"].to_pylist()) if error is None]
        started = time.perf_counter()
        outcome = self._run(batch.take(alive), alive) if alive else _Outcome(self.writes())
        seconds = (time.perf_counter() - started) / max(1, len(alive))
        return self._merge(batch, alive, outcome, seconds)

    def _run(self, batch: pa.Table, rows: list[int]) -> "_Outcome":
        try:
            return _Outcome(self.writes(), self._checked(batch))
        except EngineError:
            raise
        except Exception as problem:  # noqa: BLE001 - a stage may raise anything; the row, not the job, pays for it
            if batch.num_rows > 1:
                halves = [self._run(batch.slice(n, 1), rows[n : n + 1]) for n in range(batch.num_rows)]
                return _Outcome.joined(self.writes(), halves)
            error = {"stage": self.name, "kind": type(problem).__name__, "message": str(problem) or repr(problem)}
            return _Outcome(self.writes(), {"error": [error]}, rows=1)

    def _checked(self, batch: pa.Table) -> dict[str, list]:
        columns = self.process(batch)
        allowed = {*self.writes(), "trace", "error"}
        if missing := set(self.writes()) - set(columns):
            raise TypeError(f"stage {self.name} did not write {sorted(missing)}")
        if unknown := set(columns) - allowed:
            raise TypeError(f"stage {self.name} wrote columns it does not declare: {sorted(unknown)}")
        for column, values in columns.items():
            if len(values) != batch.num_rows:
                raise TypeError(f"stage {self.name}: {column} has {len(values)} values for {batch.num_rows} rows")
        for column, kind in {**self.writes(), "trace": TRACE, "error": ERROR}.items():
            try:
                pa.array(columns.get(column, []), kind)
            except (pa.ArrowInvalid, pa.ArrowTypeError) as problem:
                raise TypeError(f"stage {self.name}: {column} is not {type_name(kind)}: {problem}") from problem
        return columns

    def _merge(self, batch: pa.Table, alive: list[int], outcome: "_Outcome", seconds: float) -> pa.Table:
        position = {row: n for n, row in enumerate(alive)}
        for column, kind in self.writes().items():
            known = column in batch.column_names and batch.schema.field(column).type == kind
            old = batch[column].to_pylist() if known else [None] * batch.num_rows
            values = [
                outcome.columns[column][position[row]] if row in position else old[row] for row in range(len(old))
            ]
            batch = _set(batch, column, pa.array(values, kind))
        errors, traces = batch["error"].to_pylist(), batch["trace"].to_pylist()
        for row, n in position.items():
            errors[row] = outcome.columns["error"][n]
            traces[row] = [
                *traces[row],
                {"stage": self.name, "seconds": seconds, **(outcome.columns["trace"][n] or {})},
            ]
        batch = _set(batch, "error", pa.array(errors, ERROR))
        return _set(batch, "trace", pa.array(traces, BASE["trace"]))


class _Outcome:
    """Columns of the rows a stage worked on, with `error` and `trace` filled in where `process` said nothing."""

    def __init__(self, writes: dict[str, pa.DataType], columns: dict[str, list] | None = None, rows: int = 0) -> None:
        columns = columns or {}
        rows = max([rows, *(len(values) for values in columns.values())])
        self.columns = {name: columns.get(name) or [None] * rows for name in [*writes, "error", "trace"]}

    @classmethod
    def joined(cls, writes: dict[str, pa.DataType], parts: list["_Outcome"]) -> "_Outcome":
        names = [*writes, "error", "trace"]
        return cls(writes, {name: [value for part in parts for value in part.columns[name]] for name in names})


def _set(table: pa.Table, name: str, values: Any) -> pa.Table:
    if name in table.column_names:
        return table.set_column(table.column_names.index(name), pa.field(name, values.type), values)
    return table.append_column(pa.field(name, values.type), values)
