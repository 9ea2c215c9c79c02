"""The outcome of a sweep: every variant x metric against the baseline or what it names instead, with what it cost."""

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from pipeline.parts import Row
from pipeline.scoring.compare import COMPARISON, SHARES, compare_runs
from pipeline.scoring.intervals import mean_interval
from pipeline.scoring.retrieval import METRICS, PASSAGE_METRICS, check_metrics
from pipeline.scoring.run import read_run
from pipeline.scoring.score import ANSWER_METRICS, JUDGED_METRICS, SUPPORTED, WORDS, score_rows
from pipeline.sweep.config import Sweep, Variant

COST = ("seconds", "calls", "prompt_tokens", "generated_tokens")
OUTCOME = pa.schema(
    [
        *COMPARISON,  # `run` is the variant's name; the baseline's own lines have no difference
        ("system", pa.string()),
        ("settings", pa.string()),  # JSON: what the variant sets
        # Of a question, mean over all, stages that were reused included: what the variant costs by itself.
        *[(name, pa.float64()) for name in COST],
    ]
)


def ranking_metrics(names: Sequence[str]) -> tuple[str, ...]:
    """The retrieval measures to compute for a table of these metrics. InputError where nobody knows one."""
    known = {*PASSAGE_METRICS, *ANSWER_METRICS, *JUDGED_METRICS.values(), SUPPORTED, WORDS, *SHARES, "failed"}
    return tuple(dict.fromkeys([*METRICS, *check_metrics([name for name in names if name not in known])]))


def score_variants(
    folders: Mapping[str, Path],
    metrics: Sequence[str],
    grade: Callable[[Path, list[Row]], pa.Table] | None = None,
    judge: str = "",
) -> dict[str, pa.Table]:
    """variant -> its question scores, which are written into its run's folder with the summary. `grade`: the verdicts
    (`judged.JUDGED`) of the judge of that name on a run's rows."""
    tables = {}
    for name, folder in folders.items():
        rows = read_run(folder)
        judged = grade(folder, rows) if grade else None
        scores = score_rows(rows, metrics=ranking_metrics(metrics), judged=judged, judge=judge)
        scores.to_files(folder / "scores.parquet")
        tables[name] = scores.questions
    return tables


def outcome_table(sweep: Sweep, folders: Mapping[str, Path], tables: Mapping[str, pa.Table]) -> pa.Table:
    """A table of `OUTCOME`, in the sweep's order of variants."""
    metrics = sweep.metrics or None
    against = {variant.name: variant.against for variant in sweep.variants if variant.against is not None}
    compared = compare_runs(tables, sweep.baseline, metrics, against=against).to_pylist()
    held: list[str] = metrics or list(dict.fromkeys(line["metric"] for line in compared))
    forms = any(variant.questions != "as_given" for variant in sweep.variants)
    lines: list[dict[str, Any]] = []
    for variant in sweep.variants:
        if variant.name == sweep.baseline:
            own = [_baseline_line(variant.name, metric, tables[variant.name]) for metric in held]
        else:
            own = [line for line in compared if line["run"] == variant.name]
        lines += [{**line, **_about(variant, forms), **cost(folders[variant.name])} for line in own]
    return pa.Table.from_pylist(lines, schema=OUTCOME)


def cost(folder: Path) -> dict[str, float]:
    """Means of a question over a run's traces: seconds, calls, tokens."""
    rows = read_run(folder)
    totals = {name: sum((step[name] or 0) for row in rows for step in row["trace"]) for name in COST}
    return {name: total / len(rows) for name, total in totals.items()}


def _about(variant: Variant, forms: bool) -> dict[str, str]:
    settings = dict(variant.settings)
    for name, keys in variant.index_settings.items():
        settings |= {f"index.{name}.{key}": value for key, value in keys.items()}
    if forms:
        settings["questions"] = variant.questions
    return {"system": Path(variant.system).stem, "settings": json.dumps(settings)}


def _baseline_line(name: str, metric: str, table: pa.Table) -> dict[str, Any]:
    values = _column(table, metric)
    interval, method = mean_interval(metric, values)
    low, high = interval or (None, None)
    return {
        "run": name,
        "baseline": name,
        "metric": metric,
        "n": len(values),
        "excluded": table.num_rows - len(values),
        "mean": sum(values) / len(values) if values else None,
        "low": low,
        "high": high,
        "method": method,
    }


def _column(table: pa.Table, metric: str) -> list[float]:
    if metric == "failed":
        return [float(error is not None) for error in table["error"].to_pylist()]
    if metric not in table.column_names:
        return []
    return [float(value) for value in table[metric].to_pylist() if value is not None]
