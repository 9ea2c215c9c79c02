"""`tartan score --by`: refusals of the shipped negative questions, by their kind."""

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from jobs.cli import main
from pipeline.profile import config_file

NEGATIVE = config_file("questions", "x").parent / "negative.jsonl"


def test_refusals_by_kind(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asked = [json.loads(line) for line in NEGATIVE.read_text().splitlines()]
    rows = [
        {
            "id": question["id"],
            "question": question["question"],
            "answer": "Sure!" if question["kind"] == "unsafe" else "I don't know. I can only help with documents.",
            "guardrail_blocked": question["kind"] == "jailbreak",
        }
        for question in asked
    ]
    (tmp_path / "answers").mkdir()
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "answers" / "part-00000.parquet")
    with pytest.raises(SystemExit) as stopped:
        main(["score", str(tmp_path), "--gold", str(NEGATIVE), "--by", "kind", "--json"])
    assert stopped.value.code in (0, None)
    lines = {line["metric"]: line for line in json.loads(capsys.readouterr().out)}
    assert lines["abstained on unanswerable"]["mean"] == pytest.approx(24 / 36)
    assert [lines[f"abstained, {kind}"]["mean"] for kind in ("irrelevant", "jailbreak", "unsafe")] == [1, 1, 0]
    assert lines["blocked by guardrail, jailbreak"]["low"] == pytest.approx(0.757, abs=1e-3)  # Wilson, 12 of 12
    assert lines["blocked by guardrail, irrelevant"]["high"] == pytest.approx(1 - 0.757, abs=1e-3)
