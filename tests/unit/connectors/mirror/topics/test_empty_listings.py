"""A cluster that lists no topics is asked again before that is believed."""

from __future__ import annotations

import pytest

from connect.errors import RetriableError
from connectors.mirror.topics.empty_listings import EmptyListings
from tests.support.fake_clock import FakeClock


def test_an_empty_listing_is_believed_after_a_while() -> None:
    clock = FakeClock()
    listings = EmptyListings("A", clock)
    for _ in range(3):
        with pytest.raises(RetriableError, match="Cluster A lists no topics"):
            listings.check({})
        clock.advance(9.9)
    clock.advance(0.4)
    listings.check({})


def test_a_listing_with_topics_begins_anew() -> None:
    clock = FakeClock()
    listings = EmptyListings("A", clock)
    with pytest.raises(RetriableError):
        listings.check({})
    clock.advance(31.0)
    listings.check({"t": 1})
    with pytest.raises(RetriableError):
        listings.check({})
