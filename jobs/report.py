"""`tartan report`: one run explored, or several compared, in one HTML file."""

from pathlib import Path
from typing import Annotated

import typer

from jobs.options import out_option


def report(
    runs: Annotated[
        list[Path], typer.Argument(help="Folders that `tartan answer --out` wrote; the first is compared to.")
    ],
    out: Annotated[Path | None, out_option("The HTML file; for one run: RUN/report.html.")] = None,
    gold: Annotated[Path | None, typer.Option("--gold", help="Question file whose answers and doc_ids to use.")] = None,
    sweep: Annotated[Path | None, typer.Option("--sweep", help="Folder of a sweep, or its outcome table.")] = None,
    csv_folder: Annotated[Path | None, typer.Option("--csv", help="Also write every figure's numbers here.")] = None,
    megabytes: Annotated[float, typer.Option("--max-mb", min=1, help="The file's size, at most.")] = 60.0,
) -> int:
    """Write a report that opens anywhere, without a network: scores, figures, and every question to look into.

    Examples:

        tartan report demo/runs/hltcoe

        tartan report demo/runs/rag demo/runs/hltcoe --out compared.html --csv figures
    """
    from pipeline.errors import InputError
    from pipeline.report.report import NO_SWEEP, write_report
    from pipeline.report.source import read_reported
    from pipeline.report.sweep_tables import read_sweep_tables

    if out is None:
        if len(runs) > 1:
            raise InputError(f"{len(runs)} runs have no folder in common: say where the report goes, --out FILE.html")
        if runs[0].is_file():
            raise InputError(f"{runs[0]} is a file: say where the report goes, --out FILE.html")
        out = runs[0] / "report.html"
    if out.is_dir():
        raise InputError(f"--out {out} is a folder; name a file, --out {out / 'report.html'}")
    if csv_folder is not None and csv_folder.exists() and not csv_folder.is_dir():
        raise InputError(f"--csv {csv_folder} is a file; name a folder")
    tables = read_sweep_tables(sweep) if sweep is not None else NO_SWEEP
    written = write_report(read_reported(runs, gold), out, tables, csv_folder, megabytes)
    print(
        f"{out}: {written['questions']:,} questions, {written['figures']} figures, {written['bytes'] / 1e6:.1f} MB"
        + (f"; {written['left_out']:,} texts left out (--max-mb {megabytes:g})" if written["left_out"] else "")
    )
    return 0


if __name__ == "__main__":
    from jobs.cli import run_alone

    run_alone("report")
