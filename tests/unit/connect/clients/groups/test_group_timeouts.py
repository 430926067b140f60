"""When a worker acts as if it had lost its place in the group: before others may have it."""

from __future__ import annotations

import pytest

from connect.clients.groups.member_coordinator import lost_at
from connect.clients.groups.member_network import GroupTimeouts, dead_after_ms

TIMEOUTS = GroupTimeouts(session_ms=10_000, rebalance_ms=60_000, heartbeat_ms=3_000)


@pytest.mark.parametrize(
    ("dead_at", "expected"),
    [(101.0, 104.0), (106.9, 109.9), (109.0, 110.0), (109.9999, 110.0), (112.0, 112.0)],
    ids=["at once", "in time", "late", "as the session ends", "after the session"],
)
def test_a_coordinator_that_is_lost_is_waited_for_until_the_session_ends(
    dead_at: float, expected: float
) -> None:
    assert lost_at(dead_at, 100.0, TIMEOUTS) == pytest.approx(expected)


def test_a_join_that_nobody_answers_fails_before_the_session_ends() -> None:
    """It is sent up to a heartbeat interval after the last heartbeat."""
    assert TIMEOUTS.heartbeat_ms + dead_after_ms(TIMEOUTS) <= TIMEOUTS.session_ms
    assert dead_after_ms(GroupTimeouts(5_000, 60_000, 4_000)) == 4_000
