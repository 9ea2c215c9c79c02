"""Several runs of the same questions against one of them, metric by metric: what a claim of "better" rests on."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from pipeline.errors import InputError
from pipeline.scoring.intervals import is_share, mean_interval
from pipeline.scoring.paired import compare, holm, resamples_for

if TYPE_CHECKING:
    from rich.table import Table

COMPARISON = pa.schema(
    [
        ("run", pa.string()),
        ("baseline", pa.string()),
        ("metric", pa.string()),
        ("n", pa.int64()),  # questions with a value in both runs
        ("excluded", pa.int64()),  # the other questions: one of the two has no value, or neither has
        ("baseline_mean", pa.float64()),  # over the n questions
        ("mean", pa.float64()),
        ("low", pa.float64()),  # of the mean: Wilson for shares, else bootstrap
        ("high", pa.float64()),
        ("difference", pa.float64()),  # mean - baseline_mean
        ("difference_low", pa.float64()),  # paired bootstrap
        ("difference_high", pa.float64()),
        ("effect_size", pa.float64()),  # difference / standard deviation of the questions' differences
        ("wins", pa.int64()),  # questions on which the run is higher
        ("ties", pa.int64()),
        ("losses", pa.int64()),
        ("p", pa.float64()),  # two-sided; null where n is 0
        ("p_holm", pa.float64()),  # over all lines of the table
        ("method", pa.string()),
    ]
)
SHARES = ("abstained", "blocked")  # columns of questions that are true or false, compared as 1 and 0


def compare_runs(
    tables: Mapping[str, pa.Table],
    baseline: str,
    metrics: Sequence[str] | None = None,
    common: bool = False,
    confidence: float = 0.95,
    resamples: int = 2000,
    seed: int = 0,
    against: Mapping[str, str] | None = None,
) -> pa.Table:
    """A table of `COMPARISON`: every other run x metric. `tables`: name -> `ScoreTable.questions`.

    `against`: runs that are compared with another one than the baseline; Holm is over all lines all the same.
    `metrics`: None for all that both runs have; one that a run lacks has a line with n = 0. Raises InputError where the
    runs do not have the same questions, unless `common` allows the questions they share.
    """
    values = {name: _values(table) for name, table in tables.items()}
    wanted: list[tuple[str, str, str, list[str]]] = []
    for name, table in tables.items():
        if name == baseline:
            continue
        base = (against or {}).get(name, baseline)
        ids = _shared_ids(base, tables[base], name, table, common)
        both = [metric for metric in values[name] if metric in values[base]]
        wanted += [(name, base, metric, ids) for metric in metrics or both]
    settings = (confidence, resamples, seed, resamples_for(len(wanted)))
    lines: list[dict[str, Any]] = []
    for name, base, metric, ids in wanted:
        theirs, ours = values[base].get(metric, {}), values[name].get(metric, {})
        lines.append({"run": name, "baseline": base, "metric": metric, **_line(metric, theirs, ours, ids, *settings)})
    tested = [line for line in lines if line["p"] is not None]
    for line, adjusted in zip(tested, holm([line["p"] for line in tested]), strict=True):
        line["p_holm"] = adjusted
        line["method"] += f"; Holm over {len(tested)} comparisons"
    return pa.Table.from_pylist(lines, schema=COMPARISON)


def same_questions(runs: Mapping[str, Sequence[Mapping[str, Any]]]) -> None:
    """InputError where an id stands for one question in one run's rows and for another one elsewhere."""
    asked: dict[str, tuple[str, str]] = {}
    for name, rows in runs.items():
        for row in rows:
            text = row.get("question")
            if text is None:
                continue
            other, there = asked.setdefault(row["id"], (name, text))
            if there.casefold().split() != text.casefold().split():
                raise InputError(
                    f"question {row['id']} of {name} is not that of {other}; compare runs of one question set."
                )


def comparison_table(table: pa.Table) -> "Table":
    """For a terminal: n, excluded, and the methods in the caption."""
    from rich import box
    from rich.table import Table

    rows = table.to_pylist()
    methods = "; ".join(dict.fromkeys(row["method"] for row in rows))
    caption = f"n: questions compared, in brackets the others: a run has no value for them. {methods}."
    several = len({row["baseline"] for row in rows}) > 1
    title = f"against {rows[0]['baseline']}" if rows and not several else None
    shown = Table(title=title, caption=caption, caption_justify="left", box=box.SIMPLE_HEAD, padding=0)
    shown.add_column("metric", overflow="fold", min_width=12)
    for heading in ("mean", "diff", "95% interval", "effect", "n", "p (Holm)"):
        shown.add_column(heading, justify="right", no_wrap=True)
    for before, row in zip([None, *rows], rows, strict=False):
        if before is None or before["run"] != row["run"]:
            shown.add_section()
            other = f" against {row['baseline']}" if several and row["baseline"] != row["run"] else ""
            shown.add_row(row["run"] + other, style="bold")
        shown.add_row(f"  {row['metric']}", *_cells(row))
    return shown


def _cells(row: Mapping[str, Any]) -> list[str]:
    def number(value: float | None, form: str = ".3f") -> str:
        return "" if value is None else format(value, form)

    low, high = row["difference_low"], row["difference_high"]
    return [
        number(row["mean"]),
        number(row["difference"], "+.3f"),
        "" if low is None else f"{low:+.3f} to {high:+.3f}",
        number(row["effect_size"], "+.2f"),
        f"{row['n']}" + (f" ({row['excluded']})" if row["excluded"] else ""),
        number(row["p_holm"], ".4f"),
    ]


def _values(table: pa.Table) -> dict[str, dict[str, float | None]]:
    """metric -> question id -> value."""
    ids = table["id"].to_pylist()
    found: dict[str, dict[str, float | None]] = {}
    for field in sorted(table.schema, key=lambda field: field.name in SHARES):  # these last
        if pa.types.is_floating(field.type) or field.name in SHARES:
            column = [None if value is None else float(value) for value in table[field.name].to_pylist()]
            if any(value is not None for value in column):
                found[field.name] = dict(zip(ids, column, strict=True))
    found["failed"] = {id: float(error is not None) for id, error in zip(ids, table["error"].to_pylist(), strict=True)}
    return found


def _shared_ids(baseline: str, first: pa.Table, name: str, second: pa.Table, common: bool) -> list[str]:
    one, other = first["id"].to_pylist(), set(second["id"].to_pylist())
    shared = [id for id in one if id in other]
    if not shared or (not common and not len(shared) == len(one) == len(other)):
        raise InputError(
            f"{baseline} has {len(one)} questions and {name} {len(other)}, {len(shared)} of them in common"
            + ("; allow comparing on these with --common." if shared else "; nothing can be compared.")
        )
    return shared


def _line(
    metric: str,
    first: Mapping[str, float | None],
    second: Mapping[str, float | None],
    ids: Sequence[str],
    confidence: float,
    resamples: int,
    seed: int,
    flips: int,
) -> dict[str, Any]:
    pairs = [(first.get(id), second.get(id)) for id in ids]
    known = [(a, b) for a, b in pairs if a is not None and b is not None]
    line: dict[str, Any] = {
        "n": len(known),
        "excluded": len(pairs) - len(known),
        "wins": 0,
        "ties": 0,
        "losses": 0,
        "p": None,
        "method": "nothing to compare",
    }
    if not known:
        return line
    ours, theirs = [b for _, b in known], [a for a, _ in known]
    found = compare(theirs, ours, is_share(metric), confidence, resamples, seed, flips)
    low, high = mean_interval(metric, ours, confidence, resamples, seed)[0] or (None, None)
    return line | {
        "baseline_mean": sum(theirs) / len(theirs),
        "mean": sum(ours) / len(ours),
        "low": low,
        "high": high,
        "difference": found.mean,
        "difference_low": found.low,
        "difference_high": found.high,
        "effect_size": found.effect,
        "wins": found.wins,
        "ties": found.ties,
        "losses": found.losses,
        "p": found.p,
        "method": f"{confidence:.0%} paired bootstrap ({resamples} resamples, seed {seed}); p by {found.test}",
    }
