"""Work in a thread: its end, its failure, the deadline, signals."""

import os
import signal
import threading
import time

import pytest

from jobs.stopping import Terminated, Work, stoppable


def test_steps_until_there_is_none() -> None:
    left = [3, 2, 1]
    looks: list[int] = []
    go = threading.Event()
    work = Work(lambda: go.wait(20) and bool(left and left.pop()))
    assert work.wait(None, lambda: (looks.append(1), go.set())[1])
    work.join()
    assert left == []
    assert looks


def test_what_a_step_raises_is_raised() -> None:
    def step() -> bool:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        Work(step).wait(None, lambda: None)


def test_the_deadline_leaves_the_step_under_way_and_begins_no_other() -> None:
    begun: list[float] = []
    go = threading.Event()

    def step() -> bool:
        begun.append(time.monotonic())
        return go.wait(20)

    work = Work(step)
    started = time.monotonic()
    assert not work.wait(started + 0.2, lambda: None)
    assert 0.2 <= time.monotonic() - started < 15
    go.set()
    work.join()
    assert len(begun) == 1


@pytest.mark.parametrize(("number", "kind"), [(signal.SIGINT, KeyboardInterrupt), (signal.SIGTERM, Terminated)])
def test_signals_are_raised_while_it_waits(number: signal.Signals, kind: type[BaseException]) -> None:
    before = signal.getsignal(number)
    go = threading.Event()
    work = Work(lambda: not go.wait(20))
    threading.Timer(0.3, os.kill, (os.getpid(), number)).start()
    with pytest.raises(kind), stoppable():
        work.wait(None, lambda: None)
    go.set()
    work.join()
    assert signal.getsignal(number) == before


def test_other_threads_have_no_signals() -> None:
    passed: list[bool] = []

    def inside() -> None:
        with stoppable():
            passed.append(True)

    thread = threading.Thread(target=inside)
    thread.start()
    thread.join(5)
    assert passed == [True]
