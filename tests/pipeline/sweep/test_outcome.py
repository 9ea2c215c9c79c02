"""From runs to the outcome table: a planted effect is found at Holm's level, a null one is not; costs are means."""

import json
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipeline.scoring.table import write_table
from pipeline.sweep.config import Sweep
from pipeline.sweep.execute import run_variants
from pipeline.sweep.outcome import OUTCOME, cost, outcome_table, score_variants
from tests.pipeline.sweep.sweeps import StubEngine, variants_of, write


def run(folder: Path, right: list[bool], seconds: float = 1.0) -> Path:
    rows: list[dict[str, Any]] = [
        {
            "id": f"q{n}",
            "question": "?",
            "answers": ["yes"],
            "doc_ids": None,
            "error": None,
            "answer": "yes" if good else "no",
            "trace": [
                {"stage": "a", "seconds": seconds, "calls": 2, "prompt_tokens": 10, "generated_tokens": None},
                {"stage": "b", "seconds": 0.5, "calls": None, "prompt_tokens": 5, "generated_tokens": 3},
            ],
        }
        for n, good in enumerate(right)
    ]
    (folder / "answers").mkdir(parents=True)
    pq.write_table(pa.Table.from_pylist(rows), folder / "answers" / "part-00000.parquet")
    return folder


@pytest.fixture
def planted(tmp_path: Path) -> tuple[Sweep, dict[str, Path]]:
    names = ["base", "null-1", "null-2", "better"]
    listed = ", ".join(f"{{name: {name}, set: {{answer.max_tokens: {n + 1}}}}}" for n, name in enumerate(names))
    sweep = write(tmp_path, f"system: SYSTEM\nvariants: [{listed}]\nbaseline: base\nmetrics: [EM, containment]")
    source = random.Random(1)
    hard = [source.random() for _ in range(100)]
    chances = {"base": 0.0, "null-1": 0.0, "null-2": 0.0, "better": 0.3}
    return sweep, {
        name: run(tmp_path / name, [h + gain + source.gauss(0, 0.1) > 0.6 for h in hard])
        for name, gain in chances.items()
    }


def test_the_planted_effect_is_found_and_the_null_ones_are_not(planted: tuple[Sweep, dict[str, Path]]) -> None:
    sweep, folders = planted
    table = outcome_table(sweep, folders, score_variants(folders, sweep.metrics))
    assert table.schema.equals(OUTCOME)
    lines = {(line["run"], line["metric"]): line for line in table.to_pylist()}
    assert list(lines) == [(name, metric) for name in folders for metric in ("EM", "containment")]
    assert {name for (name, _), line in lines.items() if (line["p_holm"] or 1) < 0.05} == {"better"}
    better = lines["better", "EM"]
    assert better["difference_low"] < better["difference"] < better["difference_high"]
    assert 0.2 < better["difference"] < 0.4
    assert better["effect_size"] > 0.4
    assert "exact McNemar; Holm over 6 comparisons" in better["method"]
    assert json.loads(better["settings"]) == {"answer.max_tokens": 4}
    base = lines["base", "EM"]
    assert (base["difference"], base["p_holm"], base["n"]) == (None, None, 100)
    assert base["low"] < base["mean"] < base["high"]


def test_a_variant_may_name_what_it_is_compared_with(tmp_path: Path, planted: tuple[Sweep, dict[str, Path]]) -> None:
    sweep, folders = planted
    variants = [one.model_copy(update={"against": "better"}) if one.name == "null-2" else one for one in sweep.variants]
    other = sweep.model_copy(update={"variants": variants})
    scores = score_variants(folders, sweep.metrics)
    lines = {(line["run"], line["metric"]): line for line in outcome_table(other, folders, scores).to_pylist()}
    line = lines["null-2", "EM"]
    assert (line["baseline"], line["p_holm"] < 0.05) == ("better", True)
    assert -0.5 < line["difference"] < -0.2
    assert line["baseline_mean"] == lines["better", "EM"]["mean"]
    assert lines["null-1", "EM"]["baseline"] == "base"
    assert "Holm over 6 comparisons" in line["method"]


def test_n_and_excluded_are_all_questions(tmp_path: Path, planted: tuple[Sweep, dict[str, Path]]) -> None:
    sweep, folders = planted
    scores = score_variants(folders, sweep.metrics)
    place = scores["better"].column_names.index("EM")
    for name, unknown in (("base", 3), ("better", 5)):
        values = [None] * unknown + scores[name]["EM"].to_pylist()[unknown:]
        scores[name] = scores[name].set_column(place, "EM", pa.array(values, pa.float64()))
    lines = {line["run"]: line for line in outcome_table(sweep, folders, scores).to_pylist() if line["metric"] == "EM"}
    assert [(lines[name]["n"], lines[name]["excluded"]) for name in folders] == [(97, 3), (97, 3), (97, 3), (95, 5)]


def test_costs_are_means_of_a_question(planted: tuple[Sweep, dict[str, Path]]) -> None:
    assert cost(planted[1]["base"]) == {"seconds": 1.5, "calls": 2, "prompt_tokens": 15, "generated_tokens": 3}


def test_a_variant_pays_for_the_stages_it_shared(tmp_path: Path) -> None:
    sweep = write(tmp_path, "system: SYSTEM\nvary: {answer.max_words: [50, 100]}\nbaseline: {answer.max_words: 50}")
    folders = run_variants(variants_of(sweep), tmp_path / "out", StubEngine(), part_size=8)
    table = outcome_table(sweep, folders, score_variants(folders, sweep.metrics))
    # search, queries, search of two, four texts embedded for the filter, answer
    assert {line["calls"] for line in table.to_pylist()} == {1 + 1 + 2 + 4 + 1}
    write_table(table, tmp_path / "outcome.parquet")
    assert (tmp_path / "outcome.csv").read_text().startswith('"run","baseline","metric"')
    assert (folders["max_words=50"] / "scores.parquet").exists()
