"""A judge's verdicts on a run, kept in its folder: `RUN/judged/KEY/part-*.parquet`, each committed once.

KEY stands for everything a verdict depends on: the rows, the model, the prompts, the grading. Asked again, what is
there is read; another judge or another grading has a folder of its own.
"""

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from pipeline.errors import InputError
from pipeline.scoring.claims import Scaling
from pipeline.scoring.judge import Claim, Judge, judge_prompts
from pipeline.scoring.judged import JUDGED, Grading, Row, judge_rows, scaled
from pipeline.storage import create_file

COUNTS = b"counts"  # key of Parquet metadata
PART_ROWS = 16  # what a kill can cost
SEEN = ("id", "question", "answers", "answer", "error", "snippets", "pairs", "passages")


def judged_run(
    folder: Path,
    rows: Sequence[Row],
    model: Mapping[str, Any],
    make_judge: Callable[[], Judge],
    grading: Grading = Grading(),
    references: Mapping[str, list[Claim]] | None = None,
    say: Callable[[str], None] = lambda text: None,
    scaling: Scaling = "signed",
) -> pa.Table:
    """A table of `JUDGED` for the rows of the run in `folder`. `model`: what identifies the judge's model. The judge is
    made only if a verdict is missing; `scaling` is arithmetic on what is kept. A part's Parquet metadata (`COUNTS`) say
    what it cost: calls, those asked for once more, and replies that stayed unreadable."""
    about = {
        "model": dict(model),
        "prompts": {name: prompt.sha256 for name, prompt in judge_prompts().items()},
        "grading": asdict(grading),
        "references": sorted((references or {}).items()),
        "rows": [{key: row.get(key) for key in SEEN} for row in rows],
    }
    key = hashlib.sha256(json.dumps(about, sort_keys=True, default=str).encode()).hexdigest()[:16]
    place, judge, parts = folder / "judged" / key, None, []
    for number, start in enumerate(range(0, len(rows), PART_ROWS)):
        path = place / f"part-{number:05}.parquet"
        if not path.exists():
            judge = judge or make_judge()
            before = judge.counts()
            buffer = pa.BufferOutputStream()
            verdicts = judge_rows(rows[start : start + PART_ROWS], judge, grading, references)
            counts = {name: count - before[name] for name, count in judge.counts().items()}
            pq.write_table(verdicts.replace_schema_metadata({COUNTS: json.dumps(counts)}), buffer)
            create_file(path, buffer.getvalue().to_pybytes())
            asked = ", ".join(f"{count:,} {name}" for name, count in counts.items())
            say(f"judged {min(start + PART_ROWS, len(rows))} of {len(rows)} answers ({asked})")
        parts.append(pq.read_table(path, schema=JUDGED))
    return scaled(pa.concat_tables(parts), scaling) if parts else JUDGED.empty_table()


def read_references(path: Path) -> dict[str, list[Claim]]:
    """Claims of gold answers: JSONL of `{"id": ..., "claims": {"direct": [...], "useful": [...], "useless": [...]}}`.

    Raises InputError, naming file and line.
    """
    if not path.is_file():
        raise InputError(f"The file of claims {path} does not exist or is no file.")
    found: dict[str, list[Claim]] = {}
    for number, line in enumerate(path.read_text(encoding="utf-8").split("\n"), start=1):
        if not line.strip():
            continue
        try:
            record = json.loads(line)
            listed = [
                Claim(kind, text) for kind in ("direct", "useful", "useless") for text in record["claims"].get(kind, [])
            ]
            found[str(record["id"])] = listed
        except (ValueError, KeyError, TypeError, AttributeError):
            raise InputError(
                f'{path}, line {number}: wants {{"id": 1, "claims": {{"direct": ["..."], "useful": []}}}}.'
            ) from None
        if not all(isinstance(claim.text, str) and claim.text.strip() for claim in listed):
            raise InputError(f"{path}, line {number}: a claim is not a string, or blank.")
    return found
