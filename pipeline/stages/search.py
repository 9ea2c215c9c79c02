"""search: passages of an index for one or several query columns, by late interaction, BM25 or one vector each."""

from typing import Annotated, Any, ClassVar

import pyarrow as pa
from pydantic import BeforeValidator, Field, PrivateAttr, model_validator

from pipeline.env import Env, Method, Searcher, SearchRequest
from pipeline.schema import PASSAGE, STRINGS, one_of
from pipeline.stage import Stage

Columns = Annotated[
    list[str], BeforeValidator(lambda value: [value] if isinstance(value, str) else value), Field(min_length=1)
]


Found = dict[tuple[str, int], list[dict[str, Any]]]  # hits of (query, depth)
SETTINGS: dict[str, Method] = {  # of a search -> the method that has it
    "ncells": "plaid", "centroid_score_threshold": "plaid", "ndocs": "plaid", "exhaustive": "plaid",
    "nprobe": "dense", "ef_search": "dense",
}  # fmt: skip


class Search(Stage):
    """Each query's top k, one query after the other in the order of the columns; a passage stays where it came first.

    All queries of a batch go to the index in one call (for each depth). Blank queries are skipped and noted. Where
    fewer queries were written than `planned`, the first one takes the missing ones' k passages too, so that a query
    writer that fails costs variety, not evidence.
    """

    name: ClassVar[str] = "search"
    index: str
    k: int = Field(gt=0, description="passages a query")
    queries: Columns = Field(description="columns that hold a query (string) or several (list<string>)")
    into: str
    planned: int | None = Field(None, gt=0, description="queries a row should have; null: as many as there are")
    method: Method = Field("plaid", description="plaid: late interaction; bm25: words, no model; dense: cosine")
    ncells: int | None = Field(None, gt=0, description="centroids probed a query token; null: the preset for k")
    centroid_score_threshold: float | None = None
    ndocs: int | None = Field(None, gt=0, description="candidates scored with centroids only")
    exhaustive: bool | None = Field(None, description="score every passage")
    nprobe: int | None = Field(None, gt=0, description="dense, an ivf index: cells looked at in a shard; null: 16")
    ef_search: int | None = Field(None, gt=0, description="dense, an hnsw index: candidates kept; null: 64")
    _searcher: Searcher = PrivateAttr()

    @model_validator(mode="after")
    def _settings_fit_the_method(self) -> "Search":
        for name, method in SETTINGS.items():
            if getattr(self, name) is not None and method != self.method:
                raise ValueError(f"{name} is a setting of method {method}, and the method here is {self.method}")
        return self

    def reads(self) -> dict[str, pa.DataType]:
        return {column: one_of(pa.string(), STRINGS) for column in self.queries}

    def writes(self) -> dict[str, pa.DataType]:
        return {self.into: pa.list_(PASSAGE)}

    def indexes(self) -> list[str]:
        return [self.index]

    def methods(self) -> dict[str, set[Method]]:
        return {self.index: {self.method}}

    def setup(self, env: Env) -> None:
        self._searcher = env.searcher(self.index)

    def process(self, batch: pa.Table) -> dict[str, list]:
        given = written(batch.select(self.queries))
        settings = self.model_dump(include=set(SETTINGS), exclude_none=True)
        asked = [self._depths(queries) for queries in given]
        found: Found = {}
        for depth in sorted({depth for queries in asked for depth in queries.values()}):
            unique = list(dict.fromkeys(query for queries in asked for query, k in queries.items() if k == depth))
            hits = self._searcher.search(SearchRequest(unique, depth, settings, self.method))
            found |= {(query, depth): ranked for query, ranked in zip(unique, hits, strict=True)}
        passages = [merged(queries, found) for queries in asked]
        trace = [
            {"kept": len(items), "calls": len(queries), "notes": self._notes(queries, all_)}
            for items, queries, all_ in zip(passages, asked, given, strict=True)
        ]
        return {self.into: passages, "trace": trace}

    def _depths(self, queries: list[str]) -> dict[str, int]:
        """The different queries that are not blank, with the number of passages to ask for."""
        depths = dict.fromkeys((query for query in queries if query.strip()), self.k)
        if depths and self.planned is not None:
            depths[next(iter(depths))] += self.k * max(0, self.planned - len(depths))
        return depths

    def _notes(self, depths: dict[str, int], queries: list[str]) -> list[str]:
        blank = ["query: blank, skipped"] * sum(not query.strip() for query in queries)
        deeper = (
            [f"query: {self.planned - len(depths)} missing, the first one searched deeper"]
            if (depths and self.planned is not None and self.planned > len(depths))
            else []
        )
        return [*blank, *deeper]


def written(batch: pa.Table) -> list[list[str]]:
    """Per row the queries of its columns, in their order; a null string is a blank query, a null list holds none."""
    queries: list[list[str]] = [[] for _ in range(batch.num_rows)]
    for column in batch.columns:
        several = pa.types.is_list(column.type)
        for row, value in zip(queries, column.to_pylist(), strict=True):
            row += [query or "" for query in ((value or []) if several else [value])]
    return queries


def merged(queries: dict[str, int], found: Found) -> list[dict[str, Any]]:
    """Passages in query order, then rank order; of those with one pid the first, with its rank and query, stays."""
    first: dict[int, dict[str, Any]] = {}
    for query, depth in queries.items():
        for rank, hit in enumerate(found[query, depth]):
            first.setdefault(hit["pid"], {**hit, "rank": rank, "query": query})
    return list(first.values())
