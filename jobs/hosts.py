"""`tartan hosts`: how many documents of an index each host has, as a table for host scores."""

import csv
import io
from collections import Counter
from pathlib import Path
from typing import Annotated

import typer

from jobs.options import out_option

HostCounts = tuple[Counter[str], int]  # documents by host; documents whose URL is missing or malformed


def hosts(
    index: Annotated[str, typer.Argument(help="Folder or s3:// address of a finished index.")],
    out: Annotated[Path, out_option("CSV to write: host,documents.")],
) -> int:
    """Count an index's documents by host, for `fuse.host` of kind log_frequency. No model is loaded.

    Examples:

        tartan hosts idx --out hosts.csv

        tartan answer adobe ... --set fuse.host.kind=log_frequency --set fuse.host.file=$PWD/hosts.csv
    """
    from pipeline.storage import write_file

    counts, without = count_hosts(index)
    text = io.StringIO(newline="")
    table = csv.writer(text, lineterminator="\n")
    table.writerow(["host", "documents"])
    table.writerows((host, counts[host]) for host in sorted(counts, key=lambda host: (-counts[host], host)))
    write_file(out, text.getvalue().encode())
    print(f"{out}: {len(counts)} hosts of {counts.total()} documents; {without} documents have no readable URL.")
    return 0


def count_hosts(index: str | Path) -> HostCounts:
    """Documents that have a passage, by host."""
    from pipeline.hosts import host_of
    from pipeline.plaid.manifest import read_manifest
    from pipeline.plaid.passages import open_passages

    manifest = read_manifest(index)
    found: Counter[str | None] = Counter()
    for shard in manifest.shard_names():
        found.update(host_of(url) if url else None for url in open_passages(manifest.home, shard).urls())
    without = found.pop(None, 0)
    return Counter({host: count for host, count in found.items() if host}), without


if __name__ == "__main__":
    from jobs.cli import run_alone

    run_alone("hosts")
