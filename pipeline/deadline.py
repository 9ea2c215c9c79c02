"""When time is up: rows for the questions whose turn did not come."""

from collections.abc import Sequence
from typing import Literal

import pyarrow as pa

from pipeline.execute import declared
from pipeline.parts import DEADLINE
from pipeline.schema import BASE
from pipeline.stage import Stage

Policy = Literal["abstain", "fail"]
DEFAULT_TEXT = "I don't know."


def unanswered(questions: pa.Table, stages: Sequence[Stage], policy: Policy, limit: str) -> pa.Table:
    """The questions of a part with the columns that these stages declare, none of which they wrote.

    `abstain`: the answer is the system's own words for "I don't know" (`abstain_text` of its last stage that has one),
    with `finish_reason: deadline`. `fail`: the row's error is that `limit` ("110m") has passed; so it is where a system
    writes no answers. Both say "deadline" in the trace, and both are done again when the command is run again.
    """
    schema, rows = declared(stages), questions.num_rows
    columns = {name: pa.nulls(rows, schema.field(name).type) for name in schema.names}
    columns |= {name: questions[name] for name in ("id", "question", "answers", "doc_ids")}
    columns["trace"] = pa.array([[{"stage": DEADLINE, "notes": ["deadline: not answered"]}]] * rows, BASE["trace"])
    if policy == "abstain" and "answer" in schema.names:
        texts = [text for stage in stages if isinstance(text := getattr(stage, "abstain_text", None), str)]
        said = {"answer": texts[-1] if texts else DEFAULT_TEXT, "final_prompt": "", "finish_reason": DEADLINE}
        columns |= {name: pa.array([text] * rows, pa.string()) for name, text in said.items() if name in schema.names}
    else:
        error = {"stage": DEADLINE, "kind": "deadline", "message": f"not answered within {limit}"}
        columns["error"] = pa.array([error] * rows, BASE["error"])
    return pa.table([columns[name] for name in schema.names], schema=schema)
