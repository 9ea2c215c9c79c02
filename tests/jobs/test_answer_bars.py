"""What an answering job says to a log."""

import pyarrow as pa
import pytest

import jobs.answer_bars
from jobs.answer_bars import AnswerBars
from pipeline.env import Engines
from pipeline.schema import BASE

ERROR = {"stage": "answer", "kind": "generation", "message": "no"}


def rows(good: int, bad: int, tokens: int) -> pa.Table:
    trace = [{"stage": "search"}, {"stage": "answer", "prompt_tokens": tokens, "generated_tokens": 1}]
    held = [{"id": "x", "error": ERROR if n < bad else None, "trace": trace} for n in range(good + bad)]
    return pa.Table.from_pylist(held, schema=pa.schema(list(BASE.items())))


def test_lines_for_a_log(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    now, up, finished = [100.0], [2], [7]
    monkeypatch.setattr(jobs.answer_bars.time, "monotonic", lambda: now[0])
    with AnswerBars(quiet=False) as bars:
        bars.begin(total=20, todo=12, engines=lambda: Engines(up[0], 2, finished[0]))
        now[0] += 10
        bars.show()
        now[0] += 20
        finished[0] += 3
        bars.show()
        up[0] = 1
        bars.add(rows(2, 1, tokens=99))
        bars.show()
        now[0] += 30
        bars.show()
        bars.add(rows(9, 0, tokens=199))
        bars.end()
    assert capsys.readouterr().err.splitlines() == [
        "answer: 8 of 20 questions, started",
        "answer: 8 of 20 questions, 30 s, 3 requests, engines 2 of 2",
        "answer: 10 of 20 questions, failed: 1, 60 s, 3 requests, 3 questions/min, 5 tokens/s, engines 1 of 2, "
        "about 180 s left",
        "answer: 19 of 20 questions, failed: 1, 60 s, 3 requests, 12 questions/min, 35 tokens/s, engines 1 of 2",
    ]


def test_quiet_says_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with AnswerBars(quiet=True) as bars:
        bars.begin(1, 1)
        bars.add(rows(1, 0, 1))
        bars.show()
        bars.end()
    assert capsys.readouterr() == ("", "")
