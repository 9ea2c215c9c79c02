"""What a report is made of: the rows of a run, its manifest, its scores, and which columns play which part."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from pipeline.errors import InputError
from pipeline.questions import read_questions
from pipeline.scoring.compare import same_questions
from pipeline.scoring.run import Row, apply_gold, read_run
from pipeline.scoring.score import SCORED, digest, score_rows
from pipeline.scoring.table import QUESTION_FILE, ScoreTable
from pipeline.storage import read_json

_BOOKKEEPING = {"id", "error", "unanswerable", "abstained"}


@dataclass(frozen=True)
class Reported:
    """A run as the report sees it; `rows` and `scores.questions` are in one order.

    `evidence` is the column the answer was written from, `snippets` the one a snippet filter wrote, `threshold` that
    filter's least cosine: None where the system has none.
    """

    name: str
    rows: list[Row]
    manifest: dict[str, Any]
    scores: ScoreTable
    evidence: str | None
    snippets: str | None
    threshold: float | None

    @property
    def retrieved(self) -> str | None:
        """The column that retrieval metrics score."""
        return "passages" if self.rows and "passages" in self.rows[0] else None

    def metrics(self) -> list[str]:
        """The metrics that at least one question has a value of."""
        table = self.scores.questions
        names = [name for name in table.column_names if name not in _BOOKKEEPING]
        return [n for n in names if table[n].null_count < table.num_rows and table[n].type in ("double", "float")]

    def values(self, metric: str) -> list[float | None]:
        """A metric's value per question, None where it is not known; all None for a metric this run lacks."""
        table = self.scores.questions
        return table[metric].to_pylist() if metric in table.column_names else [None] * len(self.rows)


def read_reported(folders: Sequence[Path], gold: Path | None = None) -> list[Reported]:
    """The runs of a report, each with a name of its own. InputError where a folder is no run or comes twice."""
    folders = [Path(folder) for folder in folders]
    resolved = [folder.resolve() for folder in folders]
    if twice := next((folder for folder in folders if resolved.count(folder.resolve()) > 1), None):
        raise InputError(f"{twice} is given more than once; name each run of a report once")
    runs = [_read(folder, name, gold) for folder, name in zip(folders, _names(resolved), strict=True)]
    shared = set.intersection(*({row["id"] for row in run.rows} for run in runs))
    if not shared:
        raise InputError(
            f"{' and '.join(run.name for run in runs)} have no question in common; report runs of one question set"
        )
    same_questions({run.name: run.rows for run in runs})
    return runs


def _read(folder: Path, name: str, gold: Path | None) -> Reported:
    rows = read_run(folder)
    if gold is not None:
        rows = apply_gold(rows, read_questions(gold))
    manifest_file = folder / "manifest.json"
    manifest = read_json(manifest_file) if manifest_file.exists() else {}
    stages = _stages(manifest)
    filters = [settings for stage, settings in stages if stage == "filter_snippets"]
    evidence = [settings["evidence"] for _, settings in stages if settings.get("evidence")]
    columns = rows[0].keys() if rows else ()
    snippets = filters[-1].get("into", "snippets") if filters else "snippets"
    return Reported(
        name,
        rows,
        manifest,
        (_scored(folder, rows) if gold is None else None) or score_rows(rows),
        next((c for c in [*reversed(evidence), "snippets", "passages"] if c in columns), None),
        snippets if snippets in columns else None,
        filters[-1].get("min_cosine") if filters else None,
    )


def _scored(folder: Path, rows: Sequence[Row]) -> ScoreTable | None:
    """What `tartan score` left in the folder, which may know more than the rows do (other gold, a judge); None where
    it is not there or is of other rows: of other questions, or of answers that were given before."""
    summary, questions = folder / "scores.parquet", folder / QUESTION_FILE
    if not (summary.exists() and questions.exists()):
        return None
    table = ScoreTable(pq.read_table(summary), pq.read_table(questions))
    return table if (table.questions.schema.metadata or {}).get(SCORED) == digest(rows).encode() else None


def _stages(manifest: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    stages = ((manifest.get("identity") or {}).get("system") or {}).get("stages") or []
    return [(name, settings or {}) for stage in stages for name, settings in stage.items()]


def _names(folders: Sequence[Path]) -> list[str]:
    """The shortest ends of the paths, of one length, that tell the folders apart."""
    for depth in range(1, max(len(folder.parts) for folder in folders)):
        names = ["/".join(folder.parts[-depth:]) for folder in folders]
        if len(set(names)) == len(names):
            return names
    return [str(folder) for folder in folders]
