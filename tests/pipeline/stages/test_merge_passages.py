"""merge_passages: interleaving and reciprocal rank fusion by hand."""

from typing import Any

import pyarrow as pa
import pytest
from pydantic import ValidationError

from pipeline.schema import PASSAGE
from pipeline.stages.merge_passages import MergePassages
from tests.stubs import hit, questions

Pids = list[int]


def run(*rows: tuple[Pids | None, Pids | None], **settings: Any) -> list[list[dict[str, Any]]]:
    kind = pa.list_(PASSAGE)
    columns = {
        name: ([None if row[n] is None else [hit(pid, score=9.0 - n) for pid in row[n] or []] for row in rows], kind)
        for n, name in enumerate(("a", "b"))
    }
    table = questions(*("?" for _ in rows), **columns)
    return MergePassages.model_validate({"from": ["a", "b"], "into": "c", **settings})(table)["c"].to_pylist()


def pids(passages: list[dict[str, Any]]) -> Pids:
    return [passage["pid"] for passage in passages]


def test_interleave_takes_turns_and_keeps_the_first_of_equals() -> None:
    (merged,) = run(([1, 2, 3], [3, 4, 1, 5]))
    assert pids(merged) == [1, 3, 2, 4, 5]
    assert [passage["rank"] for passage in merged] == [0, 1, 2, 3, 4]
    assert [passage["score"] for passage in merged] == [9.0, 8.0, 9.0, 8.0, 8.0]


def test_rrf_by_hand() -> None:
    (merged,) = run(([1, 2, 3], [3, 4]), how="rrf")
    assert pids(merged) == [3, 1, 2, 4]  # 2 and 4, both second, stay as interleaved
    wanted = [1 / 63 + 1 / 61, 1 / 61, 1 / 62, 1 / 62]
    assert [passage["score"] for passage in merged] == pytest.approx(wanted, rel=1e-6)


def test_k_cuts_and_rows_are_merged_apart() -> None:
    rows = [([1, 2], [3]), ([], None), (None, [5, 6])]
    assert [pids(merged) for merged in run(*rows, k=2)] == [[1, 3], [], [5, 6]]
    assert run(rows[0], k=2) == run(*rows, k=2)[:1]


def test_one_list_is_nothing_to_merge() -> None:
    with pytest.raises(ValidationError, match="at least 2 items"):
        MergePassages.model_validate({"from": ["a"], "into": "c"})
