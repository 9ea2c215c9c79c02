"""The numbers behind the figures, worked by hand."""

import csv
import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pipeline.errors import InputError
from pipeline.report.bands import mean_band, ratio_band
from pipeline.report.comparison import HEADINGS, comparison_figures
from pipeline.report.cost_figures import cost_figures, seconds_figures
from pipeline.report.draw import canvas
from pipeline.report.evidence_figures import BARS, bin_edges, evidence_figures
from pipeline.report.facts import Facts, question_facts
from pipeline.report.figure import Figure
from pipeline.report.funnel_figure import funnel_figures
from pipeline.report.headline import headline_figure
from pipeline.report.snippet_figures import calibration_figures, threshold_figures
from pipeline.report.source import read_reported
from tests.pipeline.report.runs import passage, row, snippet, write_run


def facts(tmp_path: Path, *rows: dict[str, Any]) -> list[Facts]:
    return question_facts(read_reported([write_run(tmp_path / "run", list(rows))])[0])


def lines(figure: Figure) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(figure.csv())))


def test_facts_of_a_question(tmp_path: Path) -> None:
    other = passage("Another page.", 8, "peru")
    found = facts(tmp_path, row(passages=[passage("The tapir."), other, passage("Again.", 9, "peru")]))[0]
    assert (found.documents, found.kept) == (2, 1)
    assert found.prompt_characters == len(row()["final_prompt"])
    assert (found.tokens, found.seconds) == (120, 0.75)
    assert found.cosines == [(pytest.approx(0.6), True)]
    assert found.sentences == [("The national animal of Belize is the tapir.", True)]
    abstains = facts(tmp_path / "b", row(answer="I don't know. Nobody said."))[0]
    assert abstains.sentences == [("I don't know. Nobody said.", True)]


@pytest.mark.parametrize(
    ("change", "steps", "lost_after"),
    [
        ({}, (True, True, True, True), 4),
        ({"answer": "A toucan."}, (True, True, True, False), 3),
        ({"final_prompt": "Answer it."}, (True, True, False, True), 2),
        ({"snippets": [snippet("The tapir.", 0.1, kept=False)]}, (True, False, False, True), 1),
        ({"passages": []}, (False, True, True, True), 0),
        ({"answers": None}, None, None),
        ({"answers": []}, None, None),
        ({"answer": None, "passages": None, "snippets": None, "final_prompt": None}, (False,) * 4, 0),
    ],
)
def test_where_the_gold_answer_is_lost(
    tmp_path: Path, change: dict[str, Any], steps: tuple[bool, ...] | None, lost_after: int | None
) -> None:
    found = facts(tmp_path, row(**change))[0]
    assert found.gold_in == steps
    assert found.lost_after == lost_after


def test_the_funnel_counts_what_arrives_without_a_gap(tmp_path: Path) -> None:
    rows = [row(0), row(1, answer="A toucan."), row(2, final_prompt="Answer it."), row(3, answers=None)]
    figure = funnel_figures({"run": facts(tmp_path, *rows)})[0]
    assert [(line["questions"], line["at this step alone"]) for line in lines(figure)] == [
        ("3", "3"), ("3", "3"), ("2", "2"), ("1", "2"),
    ]  # fmt: skip
    assert "1 more answers hold it although the evidence did not" in figure.caption
    assert {line["n"] for line in lines(figure)} == {"3"}
    assert funnel_figures({"run": facts(tmp_path / "b", row(answers=None))}) == []


def test_a_threshold_keeps_what_has_that_cosine(tmp_path: Path) -> None:
    one = [snippet("The tapir.", 0.6), snippet("No.", 0.35), snippet("No.", 0.2, kept=False)]
    found = facts(tmp_path, row(0, snippets=one), row(1, snippets=[snippet("No.", 0.4)], answers=None))
    kept, questions = threshold_figures({"run": found}, {"run": 0.35})
    by = {line["threshold"]: float(line["mean"]) for line in lines(kept)}
    assert (by["0"], by["0.2"], by["0.35"], by["0.4"], by["0.45"], by["0.65"]) == (2, 2, 1.5, 1, 0.5, 0)
    share = {(line["what"], line["threshold"]): float(line["share"]) for line in lines(questions)}
    assert share["any snippet left", "0.4"] == 1
    assert share["any snippet left", "0.45"] == 0.5
    assert share["one with the gold answer", "0.6"] == 1  # of the one question whose gold is known
    assert share["one with the gold answer", "0.65"] == 0


def test_calibration_is_by_bins_of_cosine(tmp_path: Path) -> None:
    snippets = [snippet("The tapir.", 0.65), snippet("No.", 0.61), snippet("No.", 0.05), snippet("No.", None)]
    figure = calibration_figures({"run": facts(tmp_path, row(snippets=snippets))})[0]
    assert [(line["from"], line["snippets"], line["share"]) for line in lines(figure)] == [
        ("0", "1", "0"), ("0.6", "2", "0.5"),
    ]  # fmt: skip
    assert calibration_figures({"run": facts(tmp_path / "b", row(answers=None))}) == []


def test_bins_are_whole_numbers_of_a_round_width() -> None:
    assert bin_edges(0).tolist() == [0, 1]
    assert bin_edges(9).tolist() == list(range(11))
    for most in (1, 23, 24, 27, 199, 5432, 10**6):
        edges = bin_edges(most)
        assert edges[-2] <= most < edges[-1]
        assert len(edges) - 1 <= BARS + 1


def test_histograms_count_every_question(tmp_path: Path) -> None:
    found = facts(tmp_path, row(0), row(1), row(2, passages=[], snippets=[], final_prompt=""))
    documents, kept, prompt = evidence_figures({"run": found})
    assert [line["run"] for line in lines(documents)] == ["1", "2"]
    assert [line["run"] for line in lines(kept)] == ["1", "2"]
    assert sum(int(line["run"]) for line in lines(prompt)) == 3
    assert "median 1, n 3" in documents.caption


def test_seconds_and_costs(tmp_path: Path) -> None:
    found = facts(tmp_path, row(0), row(1))
    figure = seconds_figures({"run": found})[0]
    assert [(line["stage"], line["seconds"], line["tokens per question"]) for line in lines(figure)] == [
        ("1 search", "0.5", "0"), ("2 answer", "1", "120"),
    ]  # fmt: skip
    one = cost_figures({"a": found}, "F1", {"a": [1.0, 0.0]})[0]
    assert [(line["group"], line["F1"]) for line in lines(one)] == [("fifth 1", "1"), ("fifth 2", "0")]
    two = cost_figures({"a": found, "b": found}, "F1", {"a": [1.0, 0.0], "b": [1.0, None]})[0]
    assert [(line["group"], line["F1"], line["n"]) for line in lines(two)] == [("a", "0.5", "2"), ("b", "1", "1")]


def test_wins_losses_and_ties(tmp_path: Path) -> None:
    bad = "A toucan."
    first = write_run(tmp_path / "a", [row(0), row(1, answer=bad), row(2, answer=bad), row(3), row(9)])
    second = write_run(tmp_path / "b", [row(0), row(1), row(2), row(3, answer=bad), row(8)])
    runs = read_reported([first, second])
    wins, questions = comparison_figures(runs)
    line = next(line for line in lines(wins) if line["metric"] == "containment")
    assert (line["run"], line["baseline"]) == ("b", "a")
    assert (line["wins"], line["ties"], line["losses"], line["n"]) == ("2", "1", "1", "4")
    assert float(line["difference"]) == 0.25
    assert float(line["difference_low"]) < 0.25 < float(line["difference_high"])
    assert float(line["p"]) == 1  # 2 wins, 1 loss
    assert "exact McNemar; Holm over" in line["method"]
    assert wins.table[0] == HEADINGS
    metric, difference, interval, *others = next(row for row in wins.table if row[0] == "containment")
    assert (metric, difference, others) == ("containment", "+0.250", ["+0.26", "4", "1.0000", "1.0000"])
    assert interval.endswith(" to +1.000")
    assert {"abstained", "failed"} <= {row[0] for row in wins.table}
    assert "failed" not in wins.svg  # fewer of them is better: no contest to win
    assert [line["id"] for line in lines(questions)] == ["q-0", "q-1", "q-2", "q-3"]
    assert lines(questions)[1]["containment, b"] == "1"
    assert comparison_figures(runs[:1]) == []


def test_a_planted_difference_is_found_and_none_is_not(tmp_path: Path) -> None:
    bad = {"answer": "A toucan."}
    first = write_run(tmp_path / "a", [row(n, **(bad if n % 2 else {})) for n in range(40)])
    same = write_run(tmp_path / "b", [row(n, **({} if n % 2 else bad)) for n in range(40)])
    better = write_run(tmp_path / "c", [row(n) for n in range(40)])
    found = {figure.name: lines(figure) for figure in comparison_figures(read_reported([first, same, better]))[:2]}
    p = {name: {line["metric"]: float(line["p_holm"]) for line in own} for name, own in found.items()}
    assert p["wins-1"]["containment"] == 1
    assert p["wins-2"]["containment"] < 0.001


def test_one_id_for_two_questions_is_refused(tmp_path: Path) -> None:
    first = write_run(tmp_path / "a", [row(0)])
    other = write_run(tmp_path / "b", [row(0, question="What else?")])
    with pytest.raises(InputError, match="question q-0 of b is not that of a"):
        read_reported([first, other])


def test_the_headline_is_the_score_table(tmp_path: Path) -> None:
    run = read_reported([write_run(tmp_path / "run", [row(0), row(1, answer="No."), row(2, answers=None)])])
    line = next(line for line in lines(headline_figure(run)) if line["metric"] == "containment")
    assert (line["mean"], line["n"], line["missing gold"]) == ("0.5", "2", "1")


def test_a_band_holds_the_mean_and_narrows_with_n() -> None:
    values = np.random.default_rng(1).normal(3, 1, (400, 2))
    value, low, high = mean_band(values)
    assert value == pytest.approx(values.mean(0))
    standard = values.std(0) / 20
    assert (high - low) == pytest.approx(2 * 1.96 * standard, rel=0.15)
    small = mean_band(values[:25])
    assert (small[2] - small[1] > high - low).all()


def test_a_band_resamples_questions_not_what_they_hold() -> None:
    tops, bottoms = [[10.0], [0.0]], [[10.0], [10.0]]  # two questions, in which all or nothing holds
    value, low, high = ratio_band(tops, bottoms)
    assert (value[0], low[0], high[0]) == (0.5, 0, 1)
    assert np.isnan(ratio_band([[0.0]], [[0.0]])[0][0])


def test_drawings_take_their_colours_from_the_page_and_hold_no_markup_of_ours() -> None:
    with canvas("name") as drawn:
        drawn.points(0, [0], ([0.5], [0.4], [0.6]), "<script>alert(1)</script> $x^2$ \u4e2d")
        drawn.labels("<b>x</b>", "y & z", legend=True)
    assert "<script" not in drawn.svg
    assert "&lt;script&gt;alert(1)&lt;/script&gt; $x^2$ \u4e2d" in drawn.svg
    assert "var(--series-0)" in drawn.svg
    assert "#0101" not in drawn.svg
    assert "http" not in drawn.svg.replace("http://www.w3.org/1999/xlink", "").replace("http://www.w3.org/2000/svg", "")
    with canvas("name") as again:
        again.points(0, [0], ([0.5], [0.4], [0.6]), "<script>alert(1)</script> $x^2$ \u4e2d")
        again.labels("<b>x</b>", "y & z", legend=True)
    assert again.svg == drawn.svg
