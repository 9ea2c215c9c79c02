from rich.console import Console

from pipeline.scoring.score import score_rows
from pipeline.scoring.side_by_side import side_by_side
from tests.pipeline.scoring.test_score import row


def test_a_column_a_run_and_each_metric_once() -> None:
    tables = {
        "right": score_rows([row("1", "Paris", ["Paris"], None)]),
        "wrong": score_rows([row("1", "Rome", ["Paris"], None)]),
    }
    table = side_by_side(tables, {"seconds a question": {"right": "1.5"}})
    metrics, *runs = (list(column.cells) for column in table.columns)
    assert [column.header for column in table.columns] == ["metric", "right", "wrong", "n"]
    assert len(set(metrics)) == len(metrics)
    shown = {name: cells for name, *cells in zip(metrics, *runs, strict=True)}
    assert shown["EM"] == ["1.000", "0.000", "1"]
    assert shown["abstained"] == ["0.000", "0.000", "1"]
    assert shown["seconds a question"] == ["1.5", "-", ""]
    console = Console(width=80, record=True)
    console.print(side_by_side({f"system-{n}": tables["right"] for n in range(8)}))
    assert "containment" in console.export_text()
