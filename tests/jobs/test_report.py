"""`tartan report` from the command line."""

from pathlib import Path

import pytest

from jobs.cli import main
from tests.pipeline.report.runs import row, write_run


def tartan(*arguments: object) -> int:
    with pytest.raises(SystemExit) as stopped:
        main(["report", *map(str, arguments)])
    return int(stopped.value.code or 0)


def test_one_run_and_two(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    one, other = (write_run(tmp_path / name, [row(0), row(1)]) for name in ("one", "other"))
    assert tartan(one) == 0
    assert "2 questions" in capsys.readouterr().out
    assert (one / "report.html").stat().st_size > 10_000
    sweep = tmp_path / "sweep.csv"
    sweep.write_text(
        'run,settings,metric,mean,low,high,n\na,"{""k"": 1}",F1,.2,.1,.3,9\nb,"{""k"": 2}",F1,.4,.3,.5,9\n'
    )
    options = ["--out", tmp_path / "both.html", "--csv", tmp_path / "csv", "--sweep", sweep]
    assert tartan(one, other, *options) == 0
    assert "F1 by k" in (tmp_path / "both.html").read_text()
    assert {"wins.csv", "sweep-1.csv"} <= {path.name for path in (tmp_path / "csv").iterdir()}


def test_what_is_wrong_is_a_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    one, other = (write_run(tmp_path / name, [row(0)]) for name in ("one", "other"))
    table = tmp_path / "table.csv"
    table.write_text("run,metric\na,F1\n")
    wrong = [
        ([one, other], "say where the report goes, --out FILE.html"),
        ([table], "is a file: say where the report goes"),
        ([tmp_path / "none"], "is not a run"),
        ([one, "--out", tmp_path], "is a folder; name a file"),
        ([one, "--csv", table], "is a file; name a folder"),
        ([one, "--sweep", tmp_path / "no.csv"], "cannot be read as Parquet or CSV"),
        ([one, "--sweep", table], "has no column 'settings'; it has run, metric"),
    ]
    for arguments, sentence in wrong:
        assert tartan(*arguments) == 2
        assert sentence in capsys.readouterr().err
    assert not (one / "report.html").exists()
