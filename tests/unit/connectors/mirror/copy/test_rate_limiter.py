"""Not more bytes come in a second than were allowed."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from connectors.mirror.copy.rate_limiter import RateLimiter
from tests.support.fake_clock import FakeClock


@given(
    rate=st.floats(10, 1e6),
    chunks=st.lists(st.tuples(st.floats(0, 1), st.floats(0, 2)), min_size=5, max_size=60),
)
def test_on_the_whole_the_rate_is_kept(rate: float, chunks: list[tuple[float, float]]) -> None:
    """`chunks`: shares of a second's bytes that one answer brings, and idle seconds before it."""
    clock = FakeClock()
    pace = RateLimiter(rate, clock)
    total = 0
    largest = 0
    for share, idle in chunks:
        clock.advance(idle)
        arrived = int(share * rate)
        largest = max(largest, arrived)
        total += arrived
        pace.spend(arrived)
        clock.advance(pace.left_s())
    # What comes with one answer, and what was not used just before, may come at once.
    assert total <= rate * (clock.monotonic() + 0.5) + largest + 1


def test_it_waits_for_what_came_at_once() -> None:
    clock = FakeClock()
    clock.advance(10.0)
    pace = RateLimiter(100.0, clock)
    clock.advance(10.0)
    assert pace.left_s() == 0.0
    pace.spend(250)
    assert abs(pace.left_s() - 2.0) < 1e-6
    clock.advance(2.0)
    assert pace.left_s() == 0.0
