from rich.console import Console

from pipeline.scoring.score import score_rows
from pipeline.scoring.side_by_side import side_by_side
from tests.pipeline.scoring.test_score import row


def test_a_column_a_run_and_each_metric_once() -> None:
    tables = {
        "right": score_rows([row("1", "Paris", ["Paris"], None)]),
        "wrong": score_rows([row("1", "Rome", ["Paris"], None)]),
    }
    console = Console(width=100, record=True)
    console.print(side_by_side(tables, {"seconds a question": {"right": "1.5"}}))
    lines = [line.split("│") for line in console.export_text().splitlines() if line.startswith("│")]
    shown = {cells[1].strip(): [cell.strip() for cell in cells[2:4]] for cells in lines}
    assert len(shown) == len(lines)
    assert shown["EM"] == ["1.000", "0.000"]
    assert shown["abstained"] == ["0.000", "0.000"]
    assert shown["seconds a question"] == ["1.5", "-"]
