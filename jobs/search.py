"""`tartan search`: look at an index's hits, in this process."""

import json
import sys
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from jobs.options import JsonOption, ProfileOption, SetOption
from pipeline.env import Method


def search(
    index: Annotated[str, typer.Argument(help="Folder or s3:// address of a finished index.")],
    queries: Annotated[list[str], typer.Argument(help="One or more queries.")],
    k: Annotated[int, typer.Option("-k", min=1, help="Hits per query.")] = 10,
    method: Annotated[Method, typer.Option(help="Late interaction, BM25 (no model) or cosine.")] = "plaid",
    ncells: Annotated[int | None, typer.Option(min=1, help="Centroids probed per query vector.")] = None,
    centroid_score_threshold: Annotated[float | None, typer.Option(help="Prune centroids below this score.")] = None,
    ndocs: Annotated[int | None, typer.Option(min=4, help="Candidates of the approximate stage.")] = None,
    exhaustive: Annotated[bool, typer.Option(help="Score every passage exactly; no pruning.")] = False,
    profile: ProfileOption = "embedded",
    sets: SetOption = [],  # noqa: B006 - typer reads the default, nobody changes it
    as_json: JsonOption = False,
) -> int:
    """Show the best passages for each query.

    Examples:

        tartan search demo/index "longest river in Africa"

        tartan search idx "who exports bananas" -k 3 --exhaustive --json

        tartan search idx "banana exports" --method bm25
    """
    from pipeline.compose import load_profile
    from pipeline.env import SearchRequest
    from pipeline.errors import InputError
    from pipeline.local import LocalEnv
    from pipeline.plaid.index import check_index
    from pipeline.profile import DENSE_RETRIEVER, RETRIEVER
    from pipeline.settings import split_sets

    if blank := [query for query in queries if not query.strip()]:
        raise InputError(f"query {blank[0]!r} is empty; give some words")
    rest, ours = split_sets(sets)
    if rest:
        raise InputError(
            f"--set {rest[0]}: `tartan search` has profile keys only, for example models.NAME.dtype=float32"
        )
    models = load_profile(profile, ours)
    given = {"ncells": ncells, "centroid_score_threshold": centroid_score_threshold, "ndocs": ndocs}
    settings: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    if exhaustive:
        settings["exhaustive"] = True
    if method != "plaid" and settings:
        raise InputError(f"--{next(iter(settings)).replace('_', '-')} is an option of --method plaid")
    retrievers = models.retrievers([method])
    check_index(index, retrievers.get(RETRIEVER), [method], retrievers.get(DENSE_RETRIEVER))
    for spec in retrievers.values():
        print(f"loading {spec.source} ...", file=sys.stderr)
    env = LocalEnv(models, {"index": index}, {"index": [method]})
    found = env.searcher("index").search(SearchRequest(queries, k, settings, method))
    if as_json:
        print(json.dumps([{"query": q, "hits": h} for q, h in zip(queries, found, strict=True)], ensure_ascii=False))
        return 0
    console = Console()
    for query, hits in zip(queries, found, strict=True):
        table = Table(title=query, title_justify="left", show_lines=False, expand=True)
        for column, style in (("#", "dim"), ("score", "cyan"), ("document", "green"), ("passage", "")):
            table.add_column(column, style=style, no_wrap=column != "passage", overflow="ellipsis")
        for hit in hits:
            text = " ".join(hit["text"].split())
            table.add_row(
                str(hit["rank"] + 1), f"{hit['score']:.3f}", hit["doc_id"], text[:240] + "…" * (len(text) > 240)
            )
        console.print(table if hits else f"{query}\n  no passage was found", markup=False)
    return 0


if __name__ == "__main__":
    from jobs.cli import run_alone

    run_alone("search")
