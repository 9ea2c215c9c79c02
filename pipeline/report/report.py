"""A report, from runs to the HTML file and the CSV files of its figures."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from pipeline.report.browser import question_details, question_index
from pipeline.report.comparison import comparison_figures
from pipeline.report.cost_figures import cost_figures, seconds_figures
from pipeline.report.evidence_figures import evidence_figures
from pipeline.report.facts import question_facts
from pipeline.report.figure import Figure
from pipeline.report.funnel_figure import funnel_figures
from pipeline.report.headline import definitions, headline_figure, methods
from pipeline.report.page import render, visible
from pipeline.report.snippet_figures import calibration_figures, threshold_figures
from pipeline.report.source import Reported
from pipeline.report.support import RULE
from pipeline.report.sweep_figures import sweep_figures
from pipeline.report.sweep_tables import SweepTables
from pipeline.report.texts import Texts, packed
from pipeline.report.tuned_figure import tuned_figures
from pipeline.scoring.score import JUDGED_METRICS, WORDS
from pipeline.storage import write_file

MEGABYTES = 60.0  # of the file, at most: texts that few will miss are left out beyond it
# What the score against cost is of: the first there is.
PREFERRED = (JUDGED_METRICS["correctness"], "containment", "F1", "nDCG@10")
NO_SWEEP = SweepTables([], [])
Section = tuple[str, str, list[Figure]]


def write_report(
    runs: Sequence[Reported],
    out: Path,
    sweep: SweepTables = NO_SWEEP,
    csv_folder: Path | None = None,
    megabytes: float = MEGABYTES,
) -> dict[str, Any]:
    """Writes the report, and its figures' CSV files into `csv_folder`.

    Returns questions, figures, bytes, and left_out: how many texts did not fit.

    The file stays under `megabytes` by leaving out passages that gave the answer no evidence, then evidence; the page
    says how many. Scores, questions, answers and figures are never left out.
    """
    facts = [question_facts(run) for run in runs]
    by_name = {run.name: of for run, of in zip(runs, facts, strict=True)}
    overview = [headline_figure(runs), *funnel_figures(by_name)]
    sections = _sections(runs, by_name, sweep)
    texts = Texts()
    index = question_index(runs, facts)
    fixed = [("index", packed(index))]
    details = question_details(runs, facts, index["ids"], texts)
    fixed += [(f"details-{n}", packed(chunk)) for n, chunk in enumerate(details)]
    figures = [*overview, *(figure for *_, of in sections for figure in of)]
    # A figure is in the file as a drawing and as CSV, percent-encoded; the page itself is some 50 kB.
    room = megabytes * 1e6 - 60_000 - sum(len(data) for _, data in fixed)
    room -= sum(len(figure.svg) + 3 * len(figure.csv()) for figure in figures)
    blocks, left_out = _blocks(texts, room)
    html = render(_context(runs, left_out, megabytes, sweep.warning), overview, sections, [*fixed, *blocks])
    data = html.encode("utf-8", "replace")
    write_file(out, data)
    if csv_folder is not None:
        csv_folder.mkdir(parents=True, exist_ok=True)
        for figure in figures:
            write_file(csv_folder / f"{figure.name}.csv", figure.csv().encode("utf-8", "replace"))
    return {"questions": len(index["ids"]), "figures": len(figures), "bytes": len(data), "left_out": left_out}


def _sections(runs: Sequence[Reported], facts: dict[str, Any], sweep: SweepTables) -> list[Section]:
    metric = next((m for m in PREFERRED if all(m in run.metrics() for run in runs)), None)
    cost = cost_figures(facts, metric, {run.name: run.values(metric) for run in runs}) if metric else []
    thresholds = {run.name: run.threshold for run in runs}
    return [
        ("comparison", "Comparison", comparison_figures(runs)),
        ("evidence", "Evidence", evidence_figures(facts)),
        ("filter", "The snippet filter", [*threshold_figures(facts, thresholds), *calibration_figures(facts)]),
        ("sweep", "Sweep", [*tuned_figures(sweep.tuned), *sweep_figures(sweep.outcome)]),
        ("cost", "Cost", [*cost, *seconds_figures(facts)]),
    ]


def _blocks(texts: Texts, room: float) -> tuple[list[tuple[str, str]], int]:
    """The blocks that fit into `room` bytes and the map from texts to blocks; how many texts did not fit."""
    place: dict[int, tuple[int, int]] = {}
    found, left_out = [], 0
    for block, (numbers, held) in enumerate(texts.blocks()):
        place |= {number: (block, n) for n, number in enumerate(numbers)}
        data = packed(held)
        if len(data) > room:
            left_out += len(held)
            continue
        room -= len(data)
        found.append((f"texts-{block}", data))
    return [("blocks", packed([place[number] for number in sorted(place)])), *found], left_out


def _context(runs: Sequence[Reported], left_out: int, megabytes: float, warning: str | None) -> dict[str, Any]:
    notices = [warning] if warning else []
    notices += [
        f"{run.name}: {failed:,} of {len(run.rows):,} questions failed; they score 0 and are marked below."
        for run in runs
        if (failed := sum(row.get("error") is not None for row in run.rows))
    ]
    if left_out:
        notices.append(f"{left_out:,} texts are left out to keep this file under {megabytes:g} MB; the runs have them.")
    commits = dict.fromkeys(c for run in runs if (c := run.manifest.get("git_commit")))
    return {
        "title": visible("Tartan report: " + " against ".join(run.name for run in runs)),
        "runs": [{"name": visible(run.name), "facts": list(_facts(run))} for run in runs],
        "notices": [visible(notice) for notice in notices],
        "headline": _headline(runs),
        "methods": methods(runs),
        "definitions": definitions(runs),
        "rule": RULE,
        "footer": "Made by tartan report; this file asks for nothing from a network."
        + "".join(f" Code: {c}." for c in commits),
    }


def _facts(run: Reported) -> Iterator[str]:
    manifest = run.manifest
    yield f"{len(run.rows):,} questions"
    for key in ("system", "profile", "started"):
        if manifest.get(key):
            yield visible(f"{key} {manifest[key]}")
    if isinstance(manifest.get("finished"), dict) and manifest["finished"].get("seconds") is not None:
        yield f"{manifest['finished']['seconds']:,.0f} s"
    for role, model in ((manifest.get("identity") or {}).get("models") or {}).items():
        yield visible(f"{role}: {model.get('source')}")


def _headline(runs: Sequence[Reported]) -> list[tuple[str, list[dict[str, Any]]]]:
    """Groups of lines; a line has a cell a run, None where the run lacks the metric."""
    tables = [{(line["group"], line["metric"]): line for line in run.scores.summary.to_pylist()} for run in runs]
    groups: dict[str, list[dict[str, Any]]] = {}
    for group, metric in dict.fromkeys(key for table in tables for key in table):
        cells = [_cell(table.get((group, metric))) for table in tables]
        groups.setdefault(group, []).append({"metric": visible(metric), "cells": cells})
    return list(groups.items())


def _cell(line: dict[str, Any] | None) -> dict[str, Any] | None:
    if line is None:
        return None
    digits = 1 if line["metric"] == WORDS else 3
    interval = "" if line["low"] is None else f"{line['low']:.{digits}f} to {line['high']:.{digits}f}"
    mean = "–" if line["mean"] is None else f"{line['mean']:.{digits}f}"
    excluded = line["missing_gold"] + (line.get("excluded") or 0)
    n = f"{line['n']:,}" + (f" ({excluded:,})" if excluded else "")
    return {"mean": mean, "interval": interval, "n": n, "abstained": f"{line['abstained']:,}"}
