"""What a build says where nobody watches a terminal: a line a step, and one now and then."""

import pytest

import jobs.bars
from jobs.bars import BuildBars
from pipeline.plaid.meter import Counts


def test_lines_for_a_log(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr(jobs.bars.time, "monotonic", lambda: now[0])
    with BuildBars(quiet=False) as bars:
        bars.begin("passages", 4, 12)
        now[0] += 10
        bars.update("passages", Counts(documents=2), 0)
        now[0] += 30
        bars.update("passages", Counts(documents=4), 1)
        now[0] += 10
        bars.update("passages", Counts(documents=8), 1)
        bars.update("passages", Counts(documents=8), 1)
        bars.begin("shards", 30, 30)
        bars.begin("weights/abc", 0, 30)
        now[0] += 2
        bars.update("weights/abc", Counts(passages=30, vectors=900), 0)
    assert capsys.readouterr().err.splitlines() == [
        "passages: 4 of 12 documents, started",
        "passages: 8 of 12 documents, 40 s, 0.1 documents/s, about 40 s left, failed shards: 1",
        "passages: 12 of 12 documents, 50 s, 0.16 documents/s, failed shards: 1",
        "encode: 30 of 30 passages, there already",
        "weights: 0 of 30 passages, started",
        "weights: 30 of 30 passages, 2 s, 15 passages/s, 450 vectors/s",
    ]


def test_quiet_says_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with BuildBars(quiet=True) as bars:
        bars.begin("passages", 0, 2)
        bars.update("passages", Counts(documents=2), 0)
    assert capsys.readouterr() == ("", "")
