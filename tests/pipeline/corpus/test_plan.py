import json
from dataclasses import asdict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.corpus.document import CorpusFile
from pipeline.corpus.plan import ShardPlan, Slice, plan_shards
from pipeline.errors import InputError


def corpus(*groups: list[int]) -> list[CorpusFile]:
    return [CorpusFile(f"/docs/{number}.parquet", 1, sum(rows), rows, "") for number, rows in enumerate(groups)]


def rows(plans: list[ShardPlan]) -> list[tuple[str, int, int]]:
    pieces = [piece for plan in plans for piece in plan.slices]
    return [(piece.path, piece.row_group, row) for piece in pieces for row in range(piece.start, piece.stop)]


def test_shards_cut_row_groups_and_span_files() -> None:
    plans = plan_shards(corpus([3, 4], [], [0, 2]), 4)
    one, two = "/docs/0.parquet", "/docs/2.parquet"
    assert plans == [
        ShardPlan("00000", [Slice(one, 0, 0, 3), Slice(one, 1, 0, 1)]),
        ShardPlan("00001", [Slice(one, 1, 1, 4), Slice(two, 1, 0, 1)]),
        ShardPlan("00002", [Slice(two, 1, 1, 2)]),
    ]


@given(st.lists(st.lists(st.integers(0, 20), max_size=4), max_size=5), st.integers(1, 25))
def test_every_row_once_in_corpus_order_in_full_shards(groups: list[list[int]], size: int) -> None:
    files = corpus(*groups)
    plans = plan_shards(files, size)
    expected = [(f.path, group, row) for f in files for group, n in enumerate(f.row_groups) for row in range(n)]
    assert rows(plans) == expected
    assert all(plan.documents == size for plan in plans[:-1])
    assert all(0 < plan.documents <= size for plan in plans[-1:])
    assert [ShardPlan.from_dict(json.loads(json.dumps(asdict(plan)))) for plan in plans] == plans


def test_appended_files_leave_full_shards_alone() -> None:
    before, after = plan_shards(corpus([10], [5]), 4), plan_shards(corpus([10], [5], [9]), 4)
    assert after[:3] == before[:3]


def test_a_shard_needs_a_document() -> None:
    with pytest.raises(InputError, match=r"shards\.documents is 0"):
        plan_shards(corpus([3]), 0)
