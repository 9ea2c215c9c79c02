"""`tartan score`: a run's metrics with intervals; several runs compared, question by question."""

import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from jobs.options import (
    ClaimsOption,
    JsonOption,
    JudgeOption,
    ProfileOption,
    ScalingOption,
    SetOption,
    out_option,
)

if TYPE_CHECKING:
    import pyarrow as pa

    from pipeline.env import LLM
    from pipeline.scoring.claims import Scaling
    from pipeline.scoring.table import ScoreTable


def score(
    runs: Annotated[
        list[Path],
        typer.Argument(help="Folders of `tartan answer --out`, LiveRAG answers (.jsonl) or TREC runs (.trec)."),
    ],
    gold: Annotated[Path | None, typer.Option("--gold", help="Question file whose answers and doc_ids to use.")] = None,
    by: Annotated[
        str | None, typer.Option("--by", metavar="KEY", help="Refusals by kind of question: a key of --gold's lines.")
    ] = None,
    qrels: Annotated[Path | None, typer.Option(help="TREC qrels: graded documents in the place of doc_ids.")] = None,
    metrics: Annotated[
        list[str], typer.Option("--metric", help="Retrieval measure of ir-measures, such as nDCG@3; may be repeated.")
    ] = [],  # noqa: B006 - typer reads the defaults, nobody changes them
    judge: JudgeOption = None,
    claims: ClaimsOption = None,
    scaling: ScalingOption = "signed",
    out: Annotated[
        Path | None,
        out_option("Write the comparison here, Parquet, and CSV beside it."),
    ] = None,
    common: Annotated[bool, typer.Option("--common", help="Compare on the questions that the runs share.")] = False,
    profile: ProfileOption = "embedded",
    sets: SetOption = [],  # noqa: B006
    as_json: JsonOption = False,
) -> int:
    """Score a run against its gold: retrieval and answers, with n and 95% intervals.

    Writes RUN/scores.parquet (the table) and RUN/question-scores.parquet (every question), both as .csv too,
    RUN/qrels.txt, and RUN/costs.parquet: calls, tokens and seconds of every question in every stage. With several runs,
    shows them side by side and compares each to the first: paired bootstrap, McNemar or randomization test, Holm; --out
    keeps that table.

    Examples:

        tartan score demo/runs/hltcoe

        tartan score demo/runs/rag demo/runs/hltcoe --out compared.parquet

        tartan score run --gold questions.jsonl --json

        tartan score run --judge judge --profile paper

        tartan score run --gold configs/questions/negative.jsonl --by kind
    """
    from pipeline.errors import InputError
    from pipeline.scoring.compare import compare_runs, comparison_table, same_questions
    from pipeline.scoring.run import read_run
    from pipeline.scoring.side_by_side import side_by_side
    from pipeline.scoring.table import write_table

    names = [str(run) for run in runs]
    if out is not None and len(runs) == 1:
        raise InputError(f"--out {out} is for a comparison of several runs; a run's own scores go into its folder")
    if len(set(names)) < len(names):
        raise InputError(f"{max(names, key=names.count)} is given twice; compare different runs.")
    if len(runs) > 1:
        same_questions({str(run): read_run(run) for run in runs})
    with judge_of(judge, profile, sets, claims, scaling) as graded_by:
        tables = {str(run): score_run(run, gold, by, qrels, metrics, graded_by) for run in runs}
    if len(runs) == 1:
        _show(tables[names[0]], runs[0], as_json)
        return 0
    table = compare_runs(
        tables={name: table.questions for name, table in tables.items()}, baseline=names[0], common=common
    )
    if out is not None:
        write_table(table, out)
    if as_json:
        print(json.dumps(table.to_pylist(), indent=2))
    else:
        Console().print(side_by_side(tables))
        Console().print(comparison_table(table))
    return 0


def score_run(
    run: Path,
    gold: Path | None = None,
    by: str | None = None,
    qrels: Path | None = None,
    metrics: Sequence[str] = (),
    judge: "JudgeModel | None" = None,
) -> "ScoreTable":
    """Scores a run's rows and writes the tables into its folder."""
    from pipeline.errors import InputError
    from pipeline.questions import read_kinds, read_questions
    from pipeline.scoring.costs import write_costs
    from pipeline.scoring.retrieval import METRICS, check_metrics
    from pipeline.scoring.run import apply_gold, read_run, scores_folder, with_missing
    from pipeline.scoring.score import score_rows
    from pipeline.scoring.trec import read_qrels, write_qrels

    if by is not None and gold is None:
        raise InputError(f"--by {by}: give the question file too, --gold FILE; a run does not keep its other keys")
    rows = read_run(run)
    if run.is_dir():
        write_costs(rows, run)
    if gold is not None:
        rows = apply_gold(rows, read_questions(gold))
    graded = read_qrels(qrels) if qrels is not None else None
    if graded is not None and not set(graded) & {row["id"] for row in rows}:
        raise InputError(f"{qrels}: none of its {len(graded)} questions is in the run {run}; give the run's qrels")
    if graded is not None:
        rows = with_missing(rows, graded)
    table = score_rows(
        rows,
        kinds=read_kinds(gold, by) if gold and by else None,
        metrics=check_metrics(metrics) if metrics else METRICS,
        qrels=graded,
        judged=judge.grade(scores_folder(run), rows) if judge else None,
        judge=judge.method if judge else "",
    )
    folder = scores_folder(run)
    table.to_files(folder / "scores.parquet")
    if graded is None and any(row.get("doc_ids") for row in rows):
        write_qrels({row["id"]: row.get("doc_ids") for row in rows}, folder / "qrels.txt")
    return table


class JudgeModel:
    """A role of a profile that grades; its model is loaded when a verdict is missing."""

    def __init__(
        self, env: Any, role: str, spec: dict[str, Any], claims: Path | None = None, scaling: "Scaling" = "signed"
    ) -> None:
        """`claims`: of the gold answers, read from a file; else the judge finds them."""
        from pipeline.scoring.claims import ALPHA
        from pipeline.scoring.judgements import read_references

        self._env, self._role, self._spec, self._scaling = env, role, spec, scaling
        self._references = read_references(claims) if claims else None
        self.name = f"{spec['source']}{'@' + spec['revision'] if spec.get('revision') else ''}"
        self.method = f"{self.name} (correctness: scaling {scaling}, alpha {ALPHA})"

    def llm(self) -> "LLM":
        return self._env.llm(self._role)

    def grade(self, run: Path, rows: list[dict[str, Any]]) -> "pa.Table":
        """The verdicts on a run, kept in its folder."""
        from pipeline.scoring.judge import Judge
        from pipeline.scoring.judgements import judged_run

        say = lambda text: print(f"{run}: {text}", file=sys.stderr)  # noqa: E731
        make = lambda: Judge(self.llm())  # noqa: E731
        return judged_run(run, rows, self._spec, make, references=self._references, say=say, scaling=self._scaling)


@contextmanager
def judge_of(
    role: str | None, profile_name: str, sets: Sequence[str], claims: Path | None = None, scaling: str = "signed"
) -> "Iterator[JudgeModel | None]":
    """The judge of that role, in this process; None without a role."""
    checked = _scaling(scaling)
    if role is None:
        if claims is not None:
            from pipeline.errors import InputError

            raise InputError(f"--claims {claims}: name who compares the answers with them, --judge ROLE")
        yield None
        return
    from jobs.answer import model_identity
    from pipeline.compose import load_profile
    from pipeline.errors import InputError
    from pipeline.local import LocalEnv

    profile = load_profile(profile_name, sets)
    if role not in profile.roles or "llm" not in profile.model(role).kinds:
        able = [name for name in profile.roles if "llm" in profile.model(name).kinds]
        raise InputError(f"--judge {role}: no role of profile {profile.name} that generates; there: {', '.join(able)}")
    spec = model_identity(profile.model(role))
    env = LocalEnv(profile, {})
    try:
        yield JudgeModel(env, role, spec, claims, checked)
    finally:
        env.close()


def _scaling(name: str) -> "Scaling":
    from pipeline.errors import InputError
    from pipeline.scoring.claims import SCALINGS

    for known in SCALINGS:
        if name == known:
            return known
    raise InputError(f"--scaling {name}: wants one of {', '.join(SCALINGS)}")


def _show(table: "ScoreTable", run: Path, as_json: bool) -> None:
    if as_json:
        print(json.dumps(table.summary.to_pylist(), indent=2))
    else:
        from pipeline.scoring.costs import show_costs

        Console().print(table.to_rich())
        if run.is_dir():  # a file of others knows no costs
            Console().print(show_costs(run))


if __name__ == "__main__":
    from jobs.cli import run_alone

    run_alone("score")
