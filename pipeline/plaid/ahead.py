"""Work of several kinds at once: an iterator that runs in a thread of its own, a bounded number of items ahead."""

from collections.abc import Generator
from contextlib import closing
from queue import Full, Queue
from threading import Event, Thread
from typing import TypeVar

T = TypeVar("T")
_END = object()
_LOOK_UP = 0.1  # seconds after which a producer that waits for room asks whether anyone still wants its items


def ahead(items: Generator[T, None, None], room: int = 1) -> Generator[T, None, None]:
    """The same items in the same order, made by a thread while the caller works on earlier ones.

    At most `room` finished items wait, besides the one that is being made. What `items` raises is raised here, after
    the items before it. Closed or left early, it waits for the item that is being made, then `items` is closed.
    """
    queue: Queue[tuple[object, BaseException | None]] = Queue(room)
    unwanted = Event()

    def put(item: object, problem: BaseException | None = None) -> bool:
        while not unwanted.is_set():
            try:
                queue.put((item, problem), timeout=_LOOK_UP)
            except Full:
                continue
            return True
        return False

    def make() -> None:
        try:
            with closing(items):
                for item in items:
                    if not put(item):
                        return
        except BaseException as problem:  # noqa: BLE001 - of whatever kind, it belongs to the caller's thread
            put(_END, problem)
        else:
            put(_END)

    maker = Thread(target=make, name="ahead", daemon=True)
    maker.start()
    try:
        while True:
            item, problem = queue.get()
            if problem is not None:
                raise problem
            if item is _END:
                return
            yield item  # type: ignore[misc]  # T, for only `items` and _END are put
    finally:
        unwanted.set()
        maker.join()
