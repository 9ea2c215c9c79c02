from pathlib import Path
from typing import Any

import ir_measures
import pytest

from pipeline.errors import InputError
from pipeline.scoring.retrieval import METRICS, retrieval_scores
from pipeline.scoring.trec import read_qrels, read_trec, trec_problems, write_qrels, write_trec


def row(id: str, *passages: tuple[str, float | None]) -> dict[str, Any]:
    return {"id": id, "passages": [{"doc_id": document, "score": score} for document, score in passages]}


def test_own_scores_where_they_fall(tmp_path: Path) -> None:
    rows = [row("1", ("x", 2.5), ("x", 2.0), ("y", 1.0)), row("2"), {"id": "3", "passages": None}]
    write_trec(rows, tmp_path / "run.trec")
    assert (tmp_path / "run.trec").read_text() == "1 Q0 x 1 2.5 tartan\n1 Q0 y 2 1.0 tartan\n"


@pytest.mark.parametrize("second", [2.5, 3.0, None, float("nan")])
def test_one_over_rank_for_the_whole_file_where_they_do_not(tmp_path: Path, second: float | None) -> None:
    write_trec([row("1", ("x", 2.5), ("y", second)), row("2", ("z", 9.0))], tmp_path / "run.trec", tag="my run")
    expected = ["1 Q0 x 1 1.0 my%20run", "1 Q0 y 2 0.5 my%20run", "2 Q0 z 1 1.0 my%20run"]
    assert (tmp_path / "run.trec").read_text().splitlines() == expected


def test_white_space_and_percent_in_ids_are_encoded(tmp_path: Path) -> None:
    write_trec([row("q 1", ("a\tb%\u2028é/#", 1.0))], tmp_path / "run.trec")
    assert (tmp_path / "run.trec").read_text() == "q%201 Q0 a%09b%25%E2%80%A8é/# 1 1.0 tartan\n"


def test_evaluators_see_the_ranking_that_we_score(tmp_path: Path) -> None:
    rows = [row("1", ("b", 1.0), ("a", 1.0), ("c", 5.0)), row("2", ("a", 1.0), ("b", 2.0))]
    gold = {"1": ["a"], "2": ["a", "c"]}
    write_trec(rows, tmp_path / "run.trec")
    qrels = [ir_measures.Qrel(id, document, 1) for id, found in gold.items() for document in found]
    run = list(ir_measures.read_trec_run(str(tmp_path / "run.trec")))
    measures = [ir_measures.parse_measure(name) for name in METRICS]
    ours = retrieval_scores({"1": ["b", "a", "c"], "2": ["a", "b"]}, gold)
    for value in ir_measures.iter_calc(measures, qrels, run):
        assert ours[value.query_id][str(value.measure)] == pytest.approx(value.value)


def test_a_run_and_its_qrels_come_back_as_they_went(tmp_path: Path) -> None:
    rows = [
        {"id": "a b", "passages": [{"doc_id": "<urn:1>", "score": 3.0}, {"doc_id": "100% x", "score": 2.5}]},
        {"id": "7", "passages": []},
    ]
    write_trec(rows, tmp_path / "run.trec")
    assert read_trec(tmp_path / "run.trec") == {"a b": [("<urn:1>", 3.0), ("100% x", 2.5)]}
    write_qrels({"a b": ["<urn:1>", "<urn:1>"], "7": {"x": 2, "y": 0}, "8": None}, tmp_path / "qrels.txt")
    assert read_qrels(tmp_path / "qrels.txt") == {"a b": {"<urn:1>": 1}, "7": {"x": 2, "y": 0}}
    assert trec_problems(tmp_path / "run.trec", "run") == trec_problems(tmp_path / "qrels.txt", "qrels") == []


def test_equal_scores_are_sorted_as_trec_eval_does(tmp_path: Path) -> None:
    (tmp_path / "r").write_text("q Q0 a 1 2.0 t\nq Q0 b 2 2.0 t\nq Q0 c 3 9 t\n")
    assert [document for document, _ in read_trec(tmp_path / "r")["q"]] == ["c", "b", "a"]


def test_problems_name_the_line_and_the_rule(tmp_path: Path) -> None:
    path = tmp_path / "r"
    path.write_text("q Q0 a 1 2.0 t\n\nq Q0 a 2 1.0 t\nq Q0 b x nan t\nq a\n")
    assert trec_problems(path, "run") == [
        "line 3: document a of question q is already in line 1",
        "line 4: the rank 'x' is no integer from 0",
        "line 4: the score 'nan' is no finite number",
        "line 5: has 2 fields; a line of a run file is `qid Q0 docid rank score tag`",
    ]
    path.write_text("q 0 a good\n")
    assert trec_problems(path, "qrels") == ["line 1: the grade 'good' is no integer"]
    with pytest.raises(InputError, match="line 1: the grade"):
        read_qrels(path)
    path.write_text("\n")
    assert trec_problems(path, "run") == ["line 1: the file holds nothing"]
    with pytest.raises(InputError, match="does not exist"):
        read_trec(tmp_path / "absent")
