import json
from pathlib import Path

import numpy as np
import pytest

from pipeline.env import ChatRequest
from pipeline.errors import InputError
from pipeline.scoring.agreement import kappa, mean_difference, pearson
from pipeline.scoring.judge import Judge
from pipeline.scoring.judge_check import check_judge, read_labels
from tests.stubs import StubLLM, said


def test_pearsons_interval_is_the_one_worked_for_adobes_14_labels() -> None:
    # r = .89 of n = 14: tanh(atanh(.89) -+ 1.96 / sqrt 11) = .681 to .965.
    x = np.random.default_rng(0).normal(size=14)
    x = (x - x.mean()) / x.std()
    noise = np.random.default_rng(1).normal(size=14)
    noise -= noise.mean() + x * (noise @ x) / 14
    y = 0.89 * x + np.sqrt(1 - 0.89**2) * noise / noise.std()
    r, interval = pearson(x, y)
    assert r == pytest.approx(0.89)
    assert interval == pytest.approx((0.681, 0.965), abs=0.0006)


def test_kappa_by_hand() -> None:
    # 20 yes-yes, 5 yes-no, 10 no-yes, 15 no-no: observed .7, by chance .5 (25/50 x 30/50 + 25/50 x 20/50).
    first = [1] * 25 + [0] * 25
    second = [1] * 20 + [0] * 5 + [1] * 10 + [0] * 15
    value, interval = kappa(first, second, weighted=False)
    assert value == pytest.approx(0.4)
    assert interval is not None
    assert interval[0] < 0.4 < interval[1]


def test_weighted_kappa_by_hand() -> None:
    # Disagreement 1 of 3 pairs by 1; expected: the mean of (a - b)^2 over all 9 pairs.
    value, _ = kappa([0, 5, 10], [0, 5, 9], weighted=True)
    apart = [(a - b) ** 2 for a in (0, 5, 10) for b in (0, 5, 9)]
    assert value == pytest.approx(1 - (1 / 3) / (sum(apart) / 9))


def test_what_is_not_defined_is_none() -> None:
    assert pearson([1, 1, 1], [1, 2, 3]) == (None, None)
    assert pearson([1], [2]) == (None, None)
    assert kappa([3, 3], [3, 3], weighted=True) == (None, None)
    assert kappa([], [], weighted=False) == (None, None)
    assert mean_difference([], []) == (None, None)
    assert mean_difference([1, 2], [2, 4])[0] == 1.5
    with pytest.raises(ValueError, match="a pair for each"):
        pearson([1, 2], [1])


def write(folder: Path, *records: dict) -> Path:
    path = folder / "labels.jsonl"
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


def item(answer: str, label: object) -> dict:
    return {"question": "q", "reference": "r", "answer": answer, "label": label}


def test_labels_are_checked_line_by_line(tmp_path: Path) -> None:
    assert read_labels(write(tmp_path, item("a", 7)), "similarity")[0][1] == 7
    for record, message in [
        (item("a", 11), "line 1: the label is 11; similarity wants a number from 0 to 10"),
        (item("a", True), "the label is True"),
        (item("", 3), "'answer' is no text"),
        ({"question": "q", "label": 3}, "has no 'answer'"),
    ]:
        with pytest.raises(InputError, match=message):
            read_labels(write(tmp_path, record), "similarity")
    with pytest.raises(InputError, match="wants 1, 0 or -1"):
        read_labels(write(tmp_path, {"text": "t", "claim": "c", "label": 2}), "relation")
    with pytest.raises(InputError, match="holds no labels"):
        read_labels(write(tmp_path), "relation")
    with pytest.raises(InputError, match="does not exist"):
        read_labels(tmp_path / "none", "relation")


def test_a_judge_against_labels_itself_and_the_other_order(tmp_path: Path) -> None:
    """This one says the length of the answer; of the second text where it comes first, one less; never reads "odd"."""

    def reply(request: ChatRequest) -> str:
        text = said(request)
        answer = text.split("Answer to grade: ")[1].split("\n")[0]
        swapped = text.index("Answer to grade") < text.index("Reference answer")
        return "hm" if answer == "odd" else str(len(answer) - swapped)

    path = write(tmp_path, *[item("x" * n, n) for n in range(2, 9)], item("odd", 3))
    judge = StubLLM(reply)
    table, passes = check_judge(
        read_labels(path, "similarity"), "similarity", lambda n: Judge(judge, repeat=n), repeats=2
    )
    lines = {(line["comparison"], line["statistic"]): line for line in table.to_pylist()}
    labels = lines["with labels", "Pearson r"]
    assert (labels["value"], labels["n"], labels["excluded"]) == (pytest.approx(1), 7, 1)
    assert lines["with labels", "kappa"]["value"] == 1
    assert lines["with itself, repeat 2", "kappa"]["value"] == 1
    assert lines["with itself, order swapped", "mean difference"]["value"] == -1
    assert 0.5 < lines["with itself, order swapped", "kappa"]["value"] < 1
    assert len(passes) == 3
    seeds = {request.seed for batch in judge.batches for request in batch if "xx\n" in said(request)}
    assert len(seeds) > 2
