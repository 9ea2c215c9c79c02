from pathlib import Path

import pyarrow.parquet as pq
from rich.console import Console

from pipeline.cost import COST, question_costs, spent, stage_costs, summed
from pipeline.env import Completion
from pipeline.scoring.costs import show_costs, write_costs

ROWS = [
    {
        "id": "a",
        "trace": [
            {"stage": "search", "seconds": 0.5, "calls": 1},
            {"stage": "search", "seconds": 0.25, "calls": 3},
            {
                "stage": "answer",
                "seconds": 2.0,
                "calls": 2,
                "prompt_tokens": 100,
                "generated_tokens": 7,
                "queue_seconds": 0.5,
                "device_seconds": 3.0,
            },
        ],
    },
    {"id": "b", "trace": [{"stage": "search", "seconds": 0.5, "calls": None}]},  # it failed there
    {"id": "c"},  # gold alone
]


def test_sums_by_stage_in_the_systems_order() -> None:
    costs = question_costs(ROWS)
    assert [(cost["id"], cost["stage"]) for cost in costs] == [
        ("a", "1 search"),
        ("a", "2 search"),
        ("a", "3 answer"),
        ("b", "1 search"),
    ]
    one, two, three, total = stage_costs(costs)
    assert one == {
        "stage": "1 search",
        "questions": 2,
        "calls": 1,
        "prompt_tokens": None,
        "generated_tokens": None,
        "seconds": 1.0,
        "queue_seconds": None,
        "device_seconds": None,
    }
    assert (two["questions"], two["calls"], three["queue_seconds"], three["device_seconds"]) == (1, 3, 0.5, 3.0)
    assert (total["stage"], total["questions"], total["calls"], total["prompt_tokens"]) == ("all", 2, 6, 100)
    assert total["seconds"] == 3.25


def test_the_tenth_stage_comes_after_the_second() -> None:
    row = {"id": "a", "trace": [{"stage": "s", "seconds": 1.0}] * 11}
    assert [line["stage"] for line in stage_costs(question_costs([row]))][8:] == ["9 s", "10 s", "11 s", "all"]


def test_what_calls_add_to_a_trace() -> None:
    timed = Completion("a", "p", "stop", 10, 2, queue_s=0.5, device_s=4.0)
    untimed = Completion("b", "p", "stop", 20, 3, queue_s=0.25)  # an endpoint's
    assert spent([timed, untimed]) == {
        "calls": 2,
        "prompt_tokens": 30,
        "generated_tokens": 5,
        "queue_seconds": 0.75,
        "device_seconds": 4.0,
    }
    assert spent([untimed])["device_seconds"] is None
    assert summed([spent([timed]), spent([untimed])]) == spent([timed, untimed])
    nothing = {"calls": 0, "prompt_tokens": 0, "generated_tokens": 0, "queue_seconds": None, "device_seconds": None}
    assert spent([]) == nothing


def test_the_file_and_the_table(tmp_path: Path) -> None:
    write_costs(ROWS, tmp_path)
    assert pq.read_table(tmp_path / "costs.parquet").schema == COST
    console = Console(width=100, record=True, file=(tmp_path / "out").open("w"))
    console.print(show_costs(tmp_path))
    text = console.export_text()
    assert "3 answer" in text
    assert "3.0" in text  # calls a question: 6 of 2
    write_costs([], tmp_path)
    assert show_costs(tmp_path).row_count == 1
