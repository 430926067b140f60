"""When metadata is refreshed: soon when asked for, never in a tight loop, never too late."""

from __future__ import annotations

import pytest

from connect.clients.cluster.metadata_refresh import RefreshSchedule
from connect.clients.config.settings import WireSettings
from tests.support.fake_clock import FakeClock

SETTINGS = WireSettings(
    bootstrap=(), retry_backoff_ms=100, retry_backoff_max_ms=1000, metadata_max_age_ms=300_000
)
A, B, BOTH, NONE = frozenset("a"), frozenset("b"), frozenset("ab"), frozenset[str]()


class Refreshes:
    """A schedule with its clock, and the first refresh done."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.schedule = RefreshSchedule(SETTINGS, self.clock)
        self.serve(changed=True)
        self.clock.advance(2)

    def serve(
        self, partitions: int = 1, changed: bool = False, unsettled: frozenset[str] = NONE
    ) -> frozenset[str]:
        self.clock.advance(max(0.0, self.schedule.due_in()))
        asked = self.schedule.take(BOTH)
        self.schedule.succeeded(asked, partitions, changed, unsettled)
        return asked


@pytest.fixture
def refreshes() -> Refreshes:
    return Refreshes()


def test_the_first_refresh_is_due_at_once() -> None:
    schedule = RefreshSchedule(SETTINGS, FakeClock())
    assert schedule.due_in() <= 0


def test_nothing_happens_until_the_metadata_is_too_old(refreshes: Refreshes) -> None:
    assert refreshes.schedule.due_in() == pytest.approx(298)
    assert refreshes.serve() == BOTH
    assert refreshes.schedule.due_in() == pytest.approx(300)


def test_requests_are_gathered_into_one_refresh_of_their_topics(refreshes: Refreshes) -> None:
    refreshes.schedule.request(A)
    refreshes.schedule.request({"b", "unwatched"})
    assert refreshes.schedule.due_in() <= 0
    assert refreshes.serve() == BOTH
    refreshes.schedule.request(A)
    assert refreshes.serve() == A


def test_requests_that_bring_nothing_new_are_served_ever_less_often(refreshes: Refreshes) -> None:
    pauses = []
    for _ in range(8):
        refreshes.schedule.request(A)
        pauses.append(refreshes.schedule.due_in())
        refreshes.serve()
    assert pauses[0] <= 0
    assert 0.08 <= pauses[1] <= 0.12
    assert 0.8 <= pauses[-1] <= 1.0
    refreshes.schedule.request(A)
    refreshes.serve(changed=True)
    refreshes.schedule.request(A)
    assert 0.08 <= refreshes.schedule.due_in() <= 0.12


def test_a_large_answer_is_followed_by_a_longer_pause(refreshes: Refreshes) -> None:
    refreshes.schedule.request(A)
    refreshes.serve(partitions=100_000)
    refreshes.schedule.request(A)
    assert refreshes.schedule.due_in() == pytest.approx(6.0)


def test_unsettled_topics_are_asked_for_without_a_request(refreshes: Refreshes) -> None:
    refreshes.schedule.request(BOTH)
    refreshes.serve(changed=True, unsettled=B)
    assert 0.08 <= refreshes.schedule.due_in() <= 0.12
    pauses = []
    for _ in range(10):
        assert refreshes.serve(unsettled=B) == B
        pauses.append(refreshes.schedule.due_in())
    # A moment of the clock taken from another one is not exact.
    assert 4 <= pauses[-1] <= 5.001
    refreshes.serve(changed=True)
    assert refreshes.schedule.due_in() > 200


def test_a_failed_refresh_is_requested_again_after_a_pause(refreshes: Refreshes) -> None:
    refreshes.schedule.request(A)
    asked = refreshes.schedule.take(BOTH)
    refreshes.schedule.failed(asked)
    assert 0.08 <= refreshes.schedule.due_in() <= 0.12
    assert refreshes.serve() == A


def test_a_failed_refresh_of_everything_stays_due() -> None:
    refreshes = Refreshes()
    refreshes.clock.advance(refreshes.schedule.due_in())
    asked = refreshes.schedule.take(BOTH)
    refreshes.schedule.failed(asked)
    assert refreshes.serve() == BOTH
    assert refreshes.schedule.due_in() == pytest.approx(300)
