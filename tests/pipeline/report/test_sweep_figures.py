"""Curves and tables of a sweep, and of what was tuned on it."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from pipeline.report.report import write_report
from pipeline.report.source import read_reported
from pipeline.report.sweep_figures import sweep_figures
from pipeline.report.sweep_tables import read_sweep_tables
from pipeline.report.tuned_figure import tuned_figures
from pipeline.scoring.compare import COMPARISON
from pipeline.sweep.tune import WARNING, tune
from tests.pipeline.report.runs import row, write_run
from tests.pipeline.report.test_figures import lines


def outcome(settings: dict[str, Any], metric: str, mean: float, run: str = "v", **more: Any) -> dict[str, Any]:
    return {"run": run, "settings": settings, "metric": metric, "mean": mean, "low": None, "high": None, "n": 9, **more}


def test_a_sweep_has_a_figure_a_metric() -> None:
    varied = [
        outcome({"filter.min_cosine": value, "k": 5}, metric, mean)
        for metric in ("F1", "EM")
        for value, mean in ((None, 0.2), (0.5, 0.4), (0.2, 0.3))
    ]
    figures = sweep_figures(varied)
    assert [figure.title for figure in figures] == ["F1 by filter.min_cosine", "EM by filter.min_cosine"]
    assert [(line["value"], line["mean"]) for line in lines(figures[0])] == [
        ("0.2", "0.3"),
        ("0.5", "0.4"),
        ("", "0.2"),
    ]
    words = [outcome({"order": value}, "F1", 0.5) for value in "ba"]
    assert [line["value"] for line in lines(sweep_figures(words)[0])] == ["b", "a"]


def test_a_second_key_and_other_systems_part_the_curves() -> None:
    grid = [outcome({"a": a, "f.b": b}, "F1", 0.5, f"{a} {b}") for b in (0, 0.1) for a in (3, 1, 2)]
    figure = sweep_figures(grid)[0]
    assert figure.title == "F1 by a"
    assert [(line["series"], line["value"]) for line in lines(figure)] == [
        ("b 0", "1"), ("b 0", "2"), ("b 0", "3"), ("b 0.1", "1"), ("b 0.1", "2"), ("b 0.1", "3"),
    ]  # fmt: skip
    assert "b 0.1" in figure.svg
    systems = [outcome({"n": n}, "F1", 0.5, f"{s} {n}", system=s) for s in ("rag", "elite") for n in (1, 10)]
    assert {line["series"] for line in lines(sweep_figures(systems)[0])} == {"rag", "elite"}


def test_a_sweep_over_several_keys_is_by_variant() -> None:
    other = [outcome({}, "F1", 0.5, "none"), outcome({"b": 2}, "F1", 0.6, "some")]
    twice = [outcome({"b": 2}, "F1", 0.5, "one"), outcome({"b": 2}, "F1", 0.6, "other")]
    for variants, names in ((other, ["none", "some"]), (twice, ["one", "other"])):
        figure = sweep_figures(variants)[0]
        assert figure.title == "F1 by variant"
        assert [line["value"] for line in lines(figure)] == names
        assert names[1] in figure.svg


def test_tuning_shows_its_gap_and_the_mistake() -> None:
    scores = {"a": {"q0": 0.0, "q1": 1.0}, "b": {"q0": 1.0, "q1": 0.0}}
    figure = tuned_figures(tune(scores, "a", "F1", folds=2).to_pylist())[0]
    assert figure.title == "Tuned for F1"
    assert [(row[0], row[2], row[3], row[5]) for row in figure.table[1:]][-1] == ("all", "1.000", "0.000", "+1.000")
    mistaken = tuned_figures(tune(scores, "a", "F1", how="tuned").to_pylist())[0]
    assert WARNING in mistaken.title
    assert WARNING in mistaken.csv()
    assert tuned_figures([]) == []


def test_the_page_shows_the_outcome_and_warns_of_the_mistake(tmp_path: Path) -> None:
    known = {"n": 40, "excluded": 2, "mean": 0.5, "low": 0.4, "high": 0.6, "method": "95% paired bootstrap"}
    base = dict.fromkeys(COMPARISON.names) | {"run": "k=1", "baseline": "k=1", "metric": "F1", "settings": '{"k": 1}'}
    more = {"difference": 0.1, "difference_low": 0.01, "difference_high": 0.2, "effect_size": 0.5, "p": 0.001}
    other = {**base, "run": "k=2", "settings": '{"k": 2}', **more, "p_holm": 0.004}
    pq.write_table(pa.Table.from_pylist([{**base, **known}, {**other, **known}]), tmp_path / "outcome.parquet")
    run = read_reported([write_run(tmp_path / "run", [row(0)])])
    write_report(run, tmp_path / "r.html", read_sweep_tables(tmp_path))
    html = (tmp_path / "r.html").read_text()
    assert "Variants against k=1" in html
    assert "Different from k=1 (p by Holm below 0.05): k=2." in html
    assert "+0.010 to +0.200" in html
    assert "40 (2)" in html
    assert WARNING not in html
    scores = {name: {f"q{n}": n / 9 for n in range(9)} for name in ("k=1", "k=2")}
    pq.write_table(tune(scores, "k=1", "F1", how="tuned"), tmp_path / "tuned.parquet")
    write_report(run, tmp_path / "r.html", read_sweep_tables(tmp_path), tmp_path / "csv")
    html = (tmp_path / "r.html").read_text()
    assert f'<p class="notice">F1: {WARNING}</p>' in html
    assert WARNING in (tmp_path / "csv" / "tuned.csv").read_text()
    assert read_sweep_tables(tmp_path / "outcome.parquet").tuned == read_sweep_tables(tmp_path).tuned != []
    against = {**other, **known, "run": "k=3", "baseline": "k=2", "settings": '{"k": 3}'}
    three = pa.Table.from_pylist([{**base, **known}, {**other, **known}, against])
    pq.write_table(three, tmp_path / "outcome.parquet")
    write_report(run, tmp_path / "r.html", read_sweep_tables(tmp_path))
    html = (tmp_path / "r.html").read_text()
    assert "k=2 against k=1" in html
    assert "k=3 against k=2" in html
