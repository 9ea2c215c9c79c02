"""What fits into a prompt stays by importance."""

from pipeline.exploration import trimmed
from tests.stubs import StubLLM


def test_the_prompt_budget_takes_the_least_important_first() -> None:
    items = [
        {"text": "one two three", "importance": importance, "score": score, "rank": rank}
        for rank, (importance, score) in enumerate([(0.1, 1.0), (0.5, 1.0), (None, 9.0), (0.0, 9.0), (0.1, 2.0)])
    ]
    left = [trimmed(items, StubLLM(), reserve=4, most=4 + 3 * size) for size in range(6)]
    places = [
        [(item["importance"], item["score"]) for item in items].index((x["importance"], x["score"]))
        for row in left
        for x in row
    ]
    assert places == [*[1], *[1, 4], *[0, 1, 4], *[0, 1, 2, 4], *[0, 1, 2, 3, 4]]
    assert [len(row) for row in left] == [0, 1, 2, 3, 4, 5]
    assert [x["rank"] for x in left[3]] == [0, 1, 2]
    assert len(trimmed(items, StubLLM(max_model_len=10), reserve=4, most=10**6)) == 2
