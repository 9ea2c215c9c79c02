"""Column types of the question table, documented once. One row is one question; evidence is a nested list column.

Base columns, present from the question file on:
  id         string               kept verbatim from the file
  question   string
  answers    list<string>         gold answers; null where the file has none
  doc_ids    list<string>         gold documents; null where the file has none
  error      ERROR                null while all is well; set once, by the stage that failed; later stages skip the row
  trace      list<TRACE>          one entry per stage, in order
"""

from typing import Any

import pyarrow as pa

STRINGS = pa.list_(pa.string())

# A passage that a model wrote has no document: doc_id, url and start are null, pid is below 0, and neither metrics nor
# run files count it as retrieved.
PASSAGE = pa.struct(
    [
        ("pid", pa.int64()),  # position in the index, over all shards; -1, -2, ... within a question if generated
        ("doc_id", pa.string()),  # the document's id in the corpus; null if generated
        ("url", pa.string()),  # null where the corpus has none
        ("text", pa.string()),  # an exact substring of the document
        ("start", pa.int64()),  # its first character in the document
        ("score", pa.float32()),
        ("rank", pa.int32()),  # 0 is best, within one query's hits
        ("query", pa.string()),  # the query that found it first
    ]
)

# A passage that several searches found, with the parts of its document's score; `score` is the document's.
FUSED = pa.struct(
    [
        *PASSAGE.fields,
        ("cosine", pa.float32()),  # of the passage with the question; null where it is not known and counts as 0
        ("bm25_raw", pa.float32()),  # as BM25 gave it; null where BM25 did not find the passage
        ("bm25", pa.float32()),  # as it is added
        ("host", pa.float32()),  # of the document
    ]
)

# The least that evidence needs: what `cut`, `answer` and `write_queries` read, of passages, snippets and pairs alike.
ITEM = pa.struct([("text", pa.string())])

SNIPPET = pa.struct(
    [
        ("pid", pa.int64()),
        ("doc_id", pa.string()),
        ("url", pa.string()),
        ("text", pa.string()),
        ("start", pa.int64()),  # first character in the passage
        ("score", pa.float32()),  # cosine with what the filter compared to; null where nothing was compared
        ("kept", pa.bool_()),
        ("reason", pa.string()),  # why it was dropped; null where kept
    ]
)

# A retrieved passage and a generated one as one item of evidence.
PAIR = pa.struct(
    [
        ("text", pa.string()),  # both, as the stage's prompt puts them together
        ("pid", pa.int64()),  # of the retrieved passage; null where there is none
        ("doc_id", pa.string()),
        ("draft", pa.int64()),  # pid of the generated passage; null where there is none
        ("score", pa.float32()),  # the joint score that decided, mean log p; null where none was computed
    ]
)

TRACE = pa.struct(
    [
        ("stage", pa.string()),
        ("seconds", pa.float64()),  # of the batch, shared equally by its rows
        ("kept", pa.int32()),  # items the stage left for this row; null where it counts nothing
        ("calls", pa.int32()),  # model or index calls made for this row
        ("prompt_tokens", pa.int64()),
        ("generated_tokens", pa.int64()),
        ("queue_seconds", pa.float64()),  # of its calls, waiting for a model to begin; null where nobody measured it
        ("device_seconds", pa.float64()),  # GPU-seconds of its completions, CPU-seconds of an engine without GPUs
        ("notes", STRINGS),  # repairs and fallbacks, in words that can be counted
    ]
)

ERROR = pa.struct([("stage", pa.string()), ("kind", pa.string()), ("message", pa.string())])

BASE: dict[str, pa.DataType] = {
    "id": pa.string(),
    "question": pa.string(),
    "answers": STRINGS,
    "doc_ids": STRINGS,
    "error": ERROR,
    "trace": pa.list_(TRACE),
}


def type_name(kind: pa.DataType) -> str:
    """The word users see for a column type: `list<passage>`, `string`, ..."""
    named = {
        PASSAGE: "passage",
        FUSED: "fused passage",
        SNIPPET: "snippet",
        PAIR: "pair",
        ITEM: "passage or snippet",
        TRACE: "trace",
        ERROR: "error",
    }
    if pa.types.is_list(kind):
        return f"list<{type_name(kind.value_type)}>"
    if pa.types.is_union(kind):
        return " or ".join(type_name(option) for option in _options(kind))
    if kind not in named and pa.types.is_struct(kind):
        return "passage" if fits(kind, PASSAGE) else f"record ({', '.join(field.name for field in kind.fields)})"
    return named.get(kind, str(kind))


def one_of(*kinds: pa.DataType) -> pa.DataType:
    """What a stage says it reads where any of several types will do: an Arrow union, used as a wish, never as data."""
    return pa.sparse_union([pa.field(str(n), kind) for n, kind in enumerate(kinds)])


def _options(union: pa.DataType) -> list[pa.DataType]:
    return [union.field(n).type for n in range(union.num_fields)]


def fits(actual: pa.DataType, wanted: pa.DataType) -> bool:
    """Whether a column of type `actual` serves a stage that wants `wanted`: equal, or with more fields than wanted."""
    if pa.types.is_union(wanted):
        return any(fits(actual, option) for option in _options(wanted))
    if pa.types.is_list(wanted) and pa.types.is_list(actual):
        return fits(actual.value_type, wanted.value_type)
    if pa.types.is_struct(wanted) and pa.types.is_struct(actual):
        there = {field.name: field.type for field in actual.fields}
        return all(field.name in there and fits(there[field.name], field.type) for field in wanted.fields)
    return actual == wanted


def question_table(questions: pa.Table) -> pa.Table:
    """A fresh question table from a question file's `id, question, answers, doc_ids`: no error, empty trace."""
    rows = questions.num_rows
    columns: dict[str, Any] = {
        name: questions[name].cast(BASE[name]) for name in ("id", "question", "answers", "doc_ids")
    }
    columns["error"] = pa.nulls(rows, ERROR)
    columns["trace"] = pa.array([[] for _ in range(rows)], BASE["trace"])
    return pa.table(columns, schema=pa.schema(list(BASE.items())))
