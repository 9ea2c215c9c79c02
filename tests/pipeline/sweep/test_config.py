"""Sweep files: what they mean and how they are refused."""

from pathlib import Path

import pytest

from pipeline.compose import load_profile, load_system
from pipeline.errors import InputError
from pipeline.profile import config_file
from pipeline.settings import split_sets
from pipeline.sweep.config import Sweep, read_sweep
from pipeline.sweep.outcome import ranking_metrics

SHIPPED = sorted(config_file("sweeps", "x").parent.glob("*.yaml"))


def read(folder: Path, text: str) -> Sweep:
    (folder / "s.yaml").write_text(text)
    return read_sweep(folder / "s.yaml")


def test_a_grid_is_every_combination(tmp_path: Path) -> None:
    sweep = read(
        tmp_path, "system: rag\nset: {answer.max_words: 9}\nvary: {search.k: [1, 2], answer.top_p: [0.5, 1.0]}\n"
        "baseline: {search.k: 2, answer.top_p: 1.0}"
    )  # fmt: skip
    assert [variant.name for variant in sweep.variants] == [
        "k=1,top_p=0.5",
        "k=1,top_p=1.0",
        "k=2,top_p=0.5",
        "k=2,top_p=1.0",
    ]
    assert sweep.baseline == "k=2,top_p=1.0"
    assert sweep.variants[0].settings == {"answer.max_words": 9, "search.k": 1, "answer.top_p": 0.5}
    assert sweep.variants[0].options() == ["answer.max_words=9", "search.k=1", "answer.top_p=0.5"]


def test_keys_of_no_system(tmp_path: Path) -> None:
    sweep = read(
        tmp_path, "system: rag\nvary: {questions: [as_given, typos], index.plaid.split.size: [100, 200]}\n"
        "baseline: {questions: as_given, index.plaid.split.size: 200}"
    )  # fmt: skip
    last = sweep.variants[-1]
    assert (last.questions, last.index_settings, last.settings) == ("typos", {"plaid": {"split.size": 200}}, {})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("system: rag\nbaseline: a", "'vary' or 'variants'"),
        ("vary: {search.k: [1]}\nbaseline: {search.k: 1}", "names no system"),
        ("system: rag\nvary: {search.k: []}\nbaseline: {search.k: 1}", "'search.k' lists no value"),
        (
            "system: rag\nvary: {search.k: [1, 2]}\nbaseline: {search.k: 3}",
            "baseline 'k=3' is none of the variants: k=1, k=2",
        ),
        ("system: rag\nvary: {search.k: [1, 2]}\nbaseline: {answer.n: 3}", "a value for each key of vary: search.k"),
        ("system: rag\nvariants: [{name: a}, {name: a}]\nbaseline: a", "two variants are called 'a'"),
        ("system: rag\nvariants: [{name: ..}]\nbaseline: a", "no letter or digit"),
        ("system: rag\nvary: {questions: [upside_down]}\nbaseline: a", "no form of questions"),
        ("system: rag\nvary: {index.plaid: [1]}\nbaseline: a", "wants index.NAME.KEY"),
        ("system: rag\nvarie: {}\nbaseline: a", "unknown key 'varie'.*Did you mean 'vary'"),
        ("system: rag", "key 'baseline' is missing"),
        (
            "system: rag\nvariants: [{name: a}, {name: b, against: c}]\nbaseline: a",
            "variant 'b' is against 'c', which is none of the others: a",
        ),
        ("system: rag\nvariants: [{name: a}, {name: b, against: b}]\nbaseline: a", "none of the others: a"),
        ("system: rag\nvariants: [{name: a, against: b}, {name: b}]\nbaseline: a", "compared with nothing"),
    ],
)
def test_bad_files_get_a_sentence(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        read(tmp_path, text)


def test_there_are_shipped_sweeps() -> None:
    assert len(SHIPPED) >= 12


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_shipped_sweeps_are_right_to_the_last_variant(path: Path) -> None:
    sweep = read_sweep(path.stem)
    assert len(sweep.variants) > 1
    assert ranking_metrics(sweep.metrics)
    for variant in sweep.variants:
        ours, for_profile = split_sets(variant.options())
        load_system(variant.system, load_profile("embedded", for_profile), ours)


def test_votes_are_compared_at_equal_numbers() -> None:
    against = {variant.name: variant.against for variant in read_sweep("votes").variants}
    for votes in (1, 3, 5, 10):
        assert against[f"elite-{votes}"] == against[f"closed-book-{votes}"] == f"rag-{votes}"
        assert against[f"rag-{votes}"] is None


def test_unknown_metrics_are_refused() -> None:
    assert "nDCG@7" in ranking_metrics(["nDCG@7", "F1", "abstained"])
    with pytest.raises(InputError, match="'F2x' is no measure"):
        ranking_metrics(["F2x"])
