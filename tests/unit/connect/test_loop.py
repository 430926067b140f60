"""The background loop and the retry, driven by hand."""

from __future__ import annotations

import logging
import threading

import pytest

from connect.clock import Deadline
from connect.errors import BrokerUnavailable, ConfigError, ConnectError
from connect.loop import BackgroundLoop, Backoff, OnError, backoff_s, retry
from tests.support.fake_clock import FakeClock


class Step:
    """A step that plays back outcomes, and takes `seconds` of the clock each time."""

    def __init__(self, clock: FakeClock, *outcomes: Exception | None, seconds: float = 0.0) -> None:
        self._clock = clock
        self._outcomes = list(outcomes)
        self._seconds = seconds
        self.runs = 0

    def __call__(self) -> None:
        self.runs += 1
        self._clock.advance(self._seconds)
        outcome = self._outcomes.pop(0) if self._outcomes else None
        if outcome is not None:
            raise outcome


def down() -> BrokerUnavailable:
    return BrokerUnavailable("broker 1 is away")


def without_jitter(initial: float, cap: float) -> Backoff:
    return Backoff(initial, cap, lambda low, high: 1.0)


def test_backoff_doubles_up_to_its_cap_and_starts_over_after_a_reset() -> None:
    backoff = without_jitter(0.25, 60.0)
    assert [backoff.next() for _ in range(10)] == [0.25, 0.5, 1, 2, 4, 8, 16, 32, 60, 60]
    backoff.reset()
    assert backoff.next() == 0.25


def test_backoff_stays_at_its_cap_forever() -> None:
    backoff = without_jitter(0.1, 30.0)
    assert [backoff.next() for _ in range(5000)][-1] == 30.0


@pytest.mark.parametrize(
    ("earlier", "low", "high"), [(0, 0.04, 0.06), (1, 0.08, 0.12), (99, 0.8, 1.0)]
)
def test_backoff_is_spread_but_never_above_its_cap(earlier: int, low: float, high: float) -> None:
    waits = [backoff_s(0.05, 1.0, earlier) for _ in range(200)]
    assert low <= min(waits) < max(waits) <= high


def test_loop_waits_for_what_is_left_of_the_interval() -> None:
    clock = FakeClock()
    loop = BackgroundLoop("l", Step(clock, seconds=3.0), interval_s=10.0, clock=clock)
    assert loop.turn() == 7.0


def test_loop_runs_again_at_once_when_a_step_takes_longer_than_the_interval() -> None:
    clock = FakeClock()
    loop = BackgroundLoop("l", Step(clock, seconds=30.0), interval_s=10.0, clock=clock)
    assert loop.turn() == 0.0


def test_a_loop_that_skips_waits_for_the_next_tick_and_counts_those_that_passed() -> None:
    clock, skipped = FakeClock(), list[int]()
    step = Step(clock, seconds=34.0)
    loop = BackgroundLoop("l", step, interval_s=10.0, clock=clock, on_skipped=skipped.append)
    assert loop.turn() == 6.0
    assert skipped == [3]


def test_a_step_may_ask_to_be_run_sooner_once() -> None:
    clock = FakeClock()
    loop: BackgroundLoop

    def first() -> None:
        if clock.monotonic() == 0.0:
            loop.hurry(3.0)

    loop = BackgroundLoop("l", first, interval_s=10.0, clock=clock)
    assert loop.turn() == 3.0
    clock.advance(3.0)
    assert loop.turn() == 10.0
    loop = BackgroundLoop("l", lambda: loop.hurry(30.0), interval_s=10.0, clock=clock)
    assert loop.turn() == 10.0


def test_loop_backs_off_on_retriable_errors_and_recovers() -> None:
    clock = FakeClock()
    step = Step(clock, down(), down(), None, down())
    loop = BackgroundLoop(
        "l", step, interval_s=10.0, backoff=without_jitter(1.0, 60.0), clock=clock
    )
    assert [loop.turn() for _ in range(4)] == [1.0, 2.0, 10.0, 1.0]


def test_loop_tells_what_keeps_failing_until_it_works_again() -> None:
    clock = FakeClock()
    step = Step(clock, down(), None, down(), down(), None)
    told: list[str | None] = []
    loop = BackgroundLoop("l", step, interval_s=10.0, clock=clock, on_trouble=told.append)
    for _ in range(5):
        loop.turn()
    assert told == [None, "l: broker 1 is away", None]


def test_loop_ends_on_a_fatal_error_and_says_so() -> None:
    clock = FakeClock()
    ended: list[Exception] = []
    error = ConfigError("no such topic")
    loop = BackgroundLoop(
        "l", Step(clock, error), interval_s=10.0, on_end=ended.append, clock=clock
    )
    assert loop.turn() is None
    assert ended == [error]


def test_loop_goes_on_after_a_fatal_error_when_its_owner_says_so() -> None:
    clock = FakeClock()
    loop = BackgroundLoop(
        "l",
        Step(clock, ValueError("odd")),
        interval_s=10.0,
        backoff=without_jitter(1.0, 60.0),
        classify=lambda error: OnError.RETRY,
        clock=clock,
    )
    assert loop.turn() == 1.0


def test_loop_logs_the_first_failure_in_a_row_and_the_recovery(
    caplog: pytest.LogCaptureFixture,
) -> None:
    clock = FakeClock()
    loop = BackgroundLoop("refresh", Step(clock, down(), down()), interval_s=1.0, clock=clock)
    with caplog.at_level(logging.INFO, "connect.loop"):
        for _ in range(3):
            loop.turn()
    assert [record.levelname for record in caplog.records] == ["WARNING", "INFO"]
    assert "broker 1 is away" in caplog.text
    assert "refresh works again after 2 failures" in caplog.text


def test_loop_thread_steps_at_once_when_woken_and_ends_when_stopped() -> None:
    stepped = threading.Semaphore(0)
    loop = BackgroundLoop("l", stepped.release, interval_s=3600.0)
    loop.start()
    assert stepped.acquire(timeout=10)
    loop.wake()
    assert stepped.acquire(timeout=10)
    assert loop.stop(10.0)


def test_loop_reports_a_step_that_does_not_end() -> None:
    entered, leave = threading.Event(), threading.Event()

    def stuck() -> None:
        entered.set()
        leave.wait(30)

    loop = BackgroundLoop("l", stuck, interval_s=1.0)
    loop.start()
    assert entered.wait(10)
    assert not loop.stop(0.01)
    leave.set()
    assert loop.stop(10.0)


def test_retry_returns_the_first_success() -> None:
    clock = FakeClock()
    failures = [down(), down()]

    def step() -> str:
        if failures:
            raise failures.pop()
        return "here"

    waits: list[float] = []

    def pause(seconds: float) -> None:
        waits.append(seconds)
        clock.advance(seconds)

    assert retry(step, Deadline(10, clock), without_jitter(0.5, 4.0), pause) == "here"
    assert waits == [0.5, 1.0]


def test_retry_gives_up_at_the_deadline_with_the_last_error() -> None:
    clock = FakeClock()
    step = Step(clock, *(down() for _ in range(100)), seconds=1.0)
    with pytest.raises(BrokerUnavailable):
        retry(step, Deadline(5, clock), Backoff(1.0, 1.0), clock.advance)
    assert clock.monotonic() <= 6.0
    assert step.runs > 1


def test_retry_does_not_try_a_fatal_error_again() -> None:
    clock = FakeClock()
    step = Step(clock, ConnectError("broken"))
    with pytest.raises(ConnectError, match="broken"):
        retry(step, Deadline(5, clock), Backoff(1.0, 1.0), clock.advance)
    assert step.runs == 1


def test_retry_ends_when_stop_is_asked_for() -> None:
    clock = FakeClock()
    step = Step(clock, down(), down())
    with pytest.raises(BrokerUnavailable):
        retry(step, Deadline(5, clock), Backoff(1.0, 1.0), lambda _: True)
    assert step.runs == 1
