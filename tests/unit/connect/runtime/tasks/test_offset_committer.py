"""Commits happen in steps between a task's turns, never two at a time, and nothing gets lost."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future

import pytest

from connect.clock import Deadline
from connect.errors import AuthenticationFailed, BrokerUnavailable, ConnectError
from connect.plugin import StoredOffset
from connect.runtime.tasks.offset_committer import OffsetCommitter
from connect.storage.offset_writer import OffsetWriter
from tests.support.fake_clock import FakeClock
from tests.support.workers.memory_offset_store import MemoryOffsetStore

INTERVAL_S, TIMEOUT_S = 60.0, 5.0


class Bench(MemoryOffsetStore):
    """A committer with its store and its task's side, all driven by the test."""

    def __init__(self) -> None:
        super().__init__()
        self.clock = FakeClock()
        self.gathered: list[Future[list[StoredOffset]]] = []
        self.stores: list[Future[None]] = []
        self.written: dict[bytes, bytes | None] = {}
        self.committed = 0
        self.wakes = 0
        self.committer = OffsetCommitter(
            "c-0",
            OffsetWriter(self, "c"),
            self.gather,
            self.note_committed,
            self.note_wake,
            interval_s=INTERVAL_S,
            timeout_s=TIMEOUT_S,
            clock=self.clock,
        )

    def gather(self) -> Future[list[StoredOffset]]:
        self.gathered.append(Future())
        return self.gathered[-1]

    def set(self, values: Mapping[bytes, bytes | None]) -> Future[None]:
        self.stores.append(Future())
        self.written.update(values)
        return self.stores[-1]

    def note_committed(self) -> None:
        self.committed += 1

    def note_wake(self) -> None:
        self.wakes += 1

    def due(self) -> None:
        self.clock.advance(INTERVAL_S)
        self.committer.turn()

    def gather_done(self, *offsets: int) -> None:
        self.gathered[-1].set_result([({"p": 0}, {"offset": offset}) for offset in offsets])
        self.committer.turn()

    def store_done(self, error: Exception | None = None) -> None:
        if error is None:
            self.stores[-1].set_result(None)
        else:
            self.stores[-1].set_exception(error)
        self.committer.turn()


@pytest.fixture
def bench() -> Bench:
    return Bench()


def test_nothing_happens_before_the_interval_has_passed(bench: Bench) -> None:
    bench.clock.advance(INTERVAL_S - 1)
    bench.committer.turn()
    assert bench.gathered == []
    assert bench.committer.next_turn_s() == 1.0


def test_a_commit_gathers_then_stores_then_tells_the_task(bench: Bench) -> None:
    bench.due()
    assert (len(bench.gathered), len(bench.stores), bench.committed) == (1, 0, 0)
    bench.gather_done(42)
    assert (len(bench.stores), bench.committed) == (1, 0)
    assert bench.written == {b'["c",{"p":0}]': b'{"offset":42}'}
    bench.store_done()
    assert bench.committed == 1


def test_a_finished_step_wakes_the_task(bench: Bench) -> None:
    bench.due()
    bench.gather_done(1)
    bench.store_done()
    assert bench.wakes == 2


def test_a_commit_without_offsets_still_tells_the_task(bench: Bench) -> None:
    bench.due()
    bench.gather_done()
    assert (bench.stores, bench.committed) == ([], 1)


def test_no_second_commit_begins_while_one_is_under_way(bench: Bench) -> None:
    bench.due()
    bench.due()
    assert len(bench.gathered) == 1


def test_the_next_commit_is_due_one_interval_after_the_last_began(bench: Bench) -> None:
    bench.due()
    bench.clock.advance(2.0)
    bench.gather_done()
    assert bench.committer.next_turn_s() == INTERVAL_S - 2.0


def test_offsets_that_could_not_be_stored_come_again_with_the_next_commit(bench: Bench) -> None:
    bench.due()
    bench.gather_done(7)
    bench.store_done(BrokerUnavailable("away"))
    assert bench.committed == 0
    assert bench.committer.trouble == "The task's source offsets could not be stored: away"
    bench.written.clear()
    bench.due()
    bench.gather_done()
    assert bench.written == {b'["c",{"p":0}]': b'{"offset":7}'}
    bench.store_done()
    assert bench.committer.trouble is None


def test_a_fatal_failure_reaches_the_task(bench: Bench) -> None:
    bench.due()
    bench.gathered[-1].set_exception(ConnectError("the sync topic is gone"))
    with pytest.raises(ConnectError, match="sync topic is gone"):
        bench.committer.turn()


def test_a_refused_login_is_a_trouble_and_the_offsets_come_again(bench: Bench) -> None:
    bench.due()
    bench.gather_done(42)
    bench.store_done(AuthenticationFailed("SASL PLAIN was refused"))
    assert "SASL PLAIN was refused" in (bench.committer.trouble or "")
    bench.due()
    bench.gather_done()
    bench.store_done()
    assert (bench.committer.trouble, bench.committed) == (None, 1)


def test_a_slow_commit_is_said_once_and_goes_on(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    bench.due()
    for _ in range(3):
        bench.clock.advance(TIMEOUT_S + 1)
        bench.committer.turn()
    assert caplog.text.count("takes longer than offset.flush.timeout.ms") == 1
    bench.gather_done()
    assert bench.committed == 1


def test_a_requested_commit_does_not_wait_for_the_interval(bench: Bench) -> None:
    stored = bench.committer.request()
    assert bench.committer.next_turn_s() == 0.0
    bench.committer.turn()
    bench.gather_done(1)
    assert not stored.done()
    bench.store_done()
    assert stored.result(0) is None


def test_a_request_during_a_commit_gets_one_of_its_own(bench: Bench) -> None:
    bench.due()
    stored = bench.committer.request()
    bench.gather_done(1)
    bench.store_done()
    assert not stored.done()
    bench.committer.turn()
    bench.gather_done()
    assert stored.done()


def test_the_final_commit_waits_for_the_one_under_way_and_gathers_again(bench: Bench) -> None:
    bench.due()
    steps: Iterator[Callable[[], None]] = iter(
        [
            lambda: bench.gathered[0].set_result([({"p": 0}, {"offset": 1})]),
            lambda: bench.stores[0].set_result(None),
            lambda: bench.gathered[1].set_result([({"p": 0}, {"offset": 2})]),
            lambda: bench.stores[1].set_result(None),
        ]
    )
    assert bench.committer.finish(Deadline(5, bench.clock), lambda _: next(steps)())
    assert bench.written == {b'["c",{"p":0}]': b'{"offset":2}'}
    assert bench.committed == 2


def test_the_final_commit_ends_at_its_deadline(bench: Bench) -> None:
    assert not bench.committer.finish(Deadline(5, bench.clock), bench.clock.advance)
    assert bench.clock.monotonic() == pytest.approx(5, abs=0.1)


def test_the_final_commit_says_when_storing_failed(bench: Bench) -> None:
    def fail(_: float) -> None:
        if not bench.gathered[0].done():
            bench.gathered[0].set_result([({"p": 0}, {"offset": 1})])
        else:
            bench.stores[0].set_exception(BrokerUnavailable("away"))

    assert not bench.committer.finish(Deadline(5, bench.clock), fail)


def test_who_waits_for_a_commit_hears_of_the_end(bench: Bench) -> None:
    stored = bench.committer.request()
    bench.committer.abandon(ConnectError("ended"))
    with pytest.raises(ConnectError, match="ended"):
        stored.result(0)
