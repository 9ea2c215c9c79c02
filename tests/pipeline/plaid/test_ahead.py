"""An iterator run ahead of its reader: same items, bounded, nothing left behind."""

import threading
import time
from collections.abc import Generator

import pytest

from pipeline.plaid.ahead import ahead


def numbers(count: int, made: list[int], fails_at: int | None = None) -> Generator[int, None, None]:
    try:
        for number in range(count):
            if number == fails_at:
                raise ZeroDivisionError("number 3")
            made.append(number)
            yield number
    finally:
        made.append(-1)


def waiting() -> int:
    return sum(thread.name == "ahead" for thread in threading.enumerate())


@pytest.mark.parametrize("room", [1, 2, 50])
def test_the_same_items_in_the_same_order(room: int) -> None:
    made: list[int] = []
    assert list(ahead(ahead(numbers(20, made), room))) == list(range(20))
    assert made == [*range(20), -1]
    assert waiting() == 0


def test_it_is_ahead_but_not_by_more_than_it_may() -> None:
    made: list[int] = []
    items = ahead(numbers(20, made), 2)
    assert next(items) == 0
    deadline = time.monotonic() + 5
    while len(made) < 4 and time.monotonic() < deadline:
        time.sleep(0.01)
    time.sleep(0.05)
    assert made == [0, 1, 2, 3]  # one taken, two that wait, one in the maker's hands
    items.close()


def test_an_error_comes_after_the_items_before_it() -> None:
    made: list[int] = []
    items = ahead(numbers(9, made, fails_at=3))
    assert [next(items), next(items), next(items)] == [0, 1, 2]
    with pytest.raises(ZeroDivisionError, match="number 3"):
        next(items)
    assert waiting() == 0


def test_left_early_it_stops_and_closes_its_source() -> None:
    made: list[int] = []
    items = ahead(ahead(numbers(1000, made)))
    assert [next(items), next(items)] == [0, 1]
    items.close()
    assert made[-1] == -1
    assert len(made) < 12
    assert waiting() == 0
