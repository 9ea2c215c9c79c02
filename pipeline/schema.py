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

PASSAGE = pa.struct(
    [
        ("pid", pa.int64()),  # position in the index, over all shards
        ("doc_id", pa.string()),  # the document's id in the corpus
        ("url", pa.string()),  # null where the corpus has none
        ("text", pa.string()),  # an exact substring of the document
        ("start", pa.int64()),  # its first character in the document
        ("score", pa.float32()),
        ("rank", pa.int32()),  # 0 is best, within one query's hits
        ("query", pa.string()),  # the query that found it first
    ]
)

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

TRACE = pa.struct(
    [
        ("stage", pa.string()),
        ("seconds", pa.float64()),  # of the batch, shared equally by its rows
        ("kept", pa.int32()),  # items the stage left for this row; null where it counts nothing
        ("calls", pa.int32()),  # model or index calls made for this row
        ("prompt_tokens", pa.int64()),
        ("generated_tokens", pa.int64()),
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
    named = {PASSAGE: "passage", SNIPPET: "snippet", TRACE: "trace", ERROR: "error"}
    if pa.types.is_list(kind):
        return f"list<{type_name(kind.value_type)}>"
    return named.get(kind, str(kind))


def question_table(questions: pa.Table) -> pa.Table:
    """A fresh question table from a question file's `id, question, answers, doc_ids`: no error, empty trace."""
    rows = questions.num_rows
    columns: dict[str, Any] = {
        name: questions[name].cast(BASE[name]) for name in ("id", "question", "answers", "doc_ids")
    }
    columns["error"] = pa.nulls(rows, ERROR)
    columns["trace"] = pa.array([[] for _ in range(rows)], BASE["trace"])
    return pa.table(columns, schema=pa.schema(list(BASE.items())))
