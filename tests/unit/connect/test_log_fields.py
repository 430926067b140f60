"""On whose behalf threads work: from creator to helper, and nobody else."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Mapping
from pathlib import Path

from connect.clock import Deadline
from connect.log_fields import (
    OwnedPool,
    OwnedThread,
    add_log_fields,
    log_fields,
    with_log_fields,
    without_log_fields,
)
from connect.loop import BackgroundLoop

TIMEOUT_S = 10.0


class Noting:
    """Notes the fields of the thread that calls it."""

    def __init__(self, then: Callable[[], object] = lambda: None) -> None:
        self.fields: Mapping[str, str | int] = {}
        self._then = then

    def __call__(self) -> None:
        self.fields = log_fields()
        self._then()


def ran(thread: threading.Thread) -> None:
    thread.start()
    thread.join(TIMEOUT_S)
    assert not thread.is_alive()


def test_a_thread_works_for_whom_its_creator_works_when_it_is_created() -> None:
    note = Noting()
    with with_log_fields(connector="c", task=3):
        thread = OwnedThread(note, "helper")
    assert log_fields() == {}
    ran(thread)

    assert note.fields == {"connector": "c", "task": 3}


def test_what_a_thread_adds_goes_to_the_threads_that_it_creates_and_not_back() -> None:
    note = Noting()

    def work() -> None:
        add_log_fields(flow="a->b")
        ran(OwnedThread(note, "helper"))

    with with_log_fields(connector="c"):
        ran(OwnedThread(work, "task"))
        assert log_fields() == {"connector": "c"}

    assert note.fields == {"connector": "c", "flow": "a->b"}


def test_background_loops_are_owned_too() -> None:
    done = threading.Event()
    note = Noting(done.set)
    with with_log_fields(flow="a->b"):
        loop = BackgroundLoop("refresh", note, interval_s=1_000.0)
    loop.start()
    assert done.wait(TIMEOUT_S)
    assert loop.stop(Deadline(TIMEOUT_S).remaining())

    assert note.fields == {"flow": "a->b"}


def test_a_pool_works_for_whom_each_call_was_submitted_and_keeps_nothing_of_it() -> None:
    def work(number: int) -> tuple[int, Mapping[str, str | int]]:
        found = log_fields()
        add_log_fields(flow="left behind")
        return number, found

    # One thread, so that each call follows the others on it.
    with with_log_fields(connector="its creator's"):
        pool = OwnedPool(1)
    with pool:
        with with_log_fields(connector="c", task=1):
            first = pool.submit(work, 1)
        with with_log_fields(connector="c", task=2):
            mapped = list(pool.map(work, [2, 3], timeout=TIMEOUT_S))
        last = pool.submit(work, number=4)
        assert first.result(TIMEOUT_S) == (1, {"connector": "c", "task": 1})
        assert mapped == [(2, {"connector": "c", "task": 2}), (3, {"connector": "c", "task": 2})]
        assert last.result(TIMEOUT_S) == (4, {})


def test_the_product_has_no_other_thread_pools() -> None:
    root = Path(__file__).parents[3]
    files = [
        path for name in ("connect", "connectors", "api") for path in (root / name).rglob("*.py")
    ]
    plain = [
        str(path.relative_to(root))
        for path in files
        if re.search(r"\bThreadPoolExecutor\(", path.read_text())
    ]
    # The class itself, in `class OwnedPool(ThreadPoolExecutor)`, is no call.
    assert plain == []


def test_what_the_process_shares_has_no_fields() -> None:
    note, plain = Noting(), Noting()
    with with_log_fields(flow="a->b"):
        with without_log_fields():
            shared = OwnedThread(note, "shared")
        ran(shared)
        ran(threading.Thread(target=plain, name="history"))
        assert log_fields() == {"flow": "a->b"}

    assert (note.fields, plain.fields) == ({}, {})
