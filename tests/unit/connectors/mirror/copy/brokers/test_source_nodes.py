"""Which of a broker's two sessions fetches a partition."""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

import pytest

from connect.clients.config.settings import FetchSettings
from connect.protocol.messages import TopicPartition
from connectors.mirror.config.rates import FlowLimits, RateLimit
from connectors.mirror.copy.brokers.source import FetchResponses, SourceNode
from connectors.mirror.copy.brokers.source_nodes import SourceNodes
from connectors.mirror.copy.partition.partition import PartitionCopy
from connectors.mirror.copy.throttle import Throttle
from tests.unit.connectors.mirror.copy.asked_cluster import SteppedLoop

BROKER = 1
MIB = 1 << 20


class Sessions(SteppedLoop):
    """The sessions with one broker. Requests are taken from them instead of sent."""

    def __init__(self) -> None:
        super().__init__(fetch=FetchSettings(max_partition_fetch_bytes=4 * MIB))
        nobody = cast("FetchResponses", None)
        self.throttle = Throttle(self.context)
        self.nodes = SourceNodes(self.context, self.throttle, nobody)

    def fetched(self, number: int, *, far_behind: bool = False) -> PartitionCopy:
        made = self.partition(number, 0)
        made.source_node = BROKER
        made.far_behind = far_behind
        self.context.partitions[made.source] = made
        self.show(made)
        return made

    def show(self, partition: PartitionCopy, *, fetch: bool = True, held: bool = False) -> None:
        self.nodes.show(partition, fetch=fetch, held=held)

    def node(self, *, backlog: bool) -> SourceNode:
        return self.nodes.by_key[BROKER, backlog]

    def request(self, *, backlog: bool) -> dict[TopicPartition, int]:
        """The partitions of the next request, with their sizes. The broker keeps no session."""
        node = self.node(backlog=backlog)
        node._session.reset()
        request = node._session.next_request()
        node._take_joined()
        return {key: each.max_bytes for key, each in request.partitions.items()}


@pytest.fixture
def made() -> Iterator[Sessions]:
    sessions = Sessions()
    yield sessions
    sessions.loop.close()


def test_all_share_one_session_until_one_is_far_behind(made: Sessions) -> None:
    made.fetched(0)
    made.fetched(1)
    assert list(made.nodes.by_key) == [(BROKER, False)]
    made.fetched(2, far_behind=True)
    assert set(made.request(backlog=True)) == {("topic", 2)}
    assert set(made.request(backlog=False)) == {("topic", 0), ("topic", 1)}


def test_only_one_that_is_far_behind_may_fill_a_response(made: Sessions) -> None:
    made.fetched(0)
    made.fetched(1, far_behind=True)
    assert made.request(backlog=False) == {("topic", 0): 256 * 1024}
    assert made.request(backlog=True) == {("topic", 1): 4 * MIB}


def test_it_stays_in_a_session_until_the_other_one_asks_for_it(made: Sessions) -> None:
    """A fetch of the other one may wait at the broker for half a second."""
    moving = made.fetched(0)
    made.fetched(1, far_behind=True)
    made.request(backlog=False)
    moving.far_behind = True
    made.show(moving)
    moving.acked_position = 7
    made.show(moving)
    assert made.node(backlog=False)._session.wants(moving.source)
    made.request(backlog=False)
    assert made.node(backlog=False)._session.requested_offset(moving.source) == 7
    assert moving.source in made.request(backlog=True)
    assert not made.node(backlog=False).needed()


def test_one_that_comes_back_at_once_has_never_left(made: Sessions) -> None:
    moving = made.fetched(0)
    for far_behind in (True, False):
        moving.far_behind = far_behind
        made.show(moving)
    assert moving.source in made.request(backlog=False)
    assert not made.node(backlog=True).needed()


def test_one_that_is_not_fetched_any_more_is_in_no_session(made: Sessions) -> None:
    moving = made.fetched(0)
    moving.far_behind = True
    made.show(moving)
    made.nodes.leave(moving)
    assert not made.node(backlog=False).needed()
    assert not made.node(backlog=True).needed()


def test_a_held_partition_is_counted_where_it_is_fetched_next(made: Sessions) -> None:
    moving = made.fetched(0)
    made.show(moving, fetch=False, held=True)
    assert made.node(backlog=False).held == 1
    moving.far_behind = True
    made.show(moving, fetch=False, held=True)
    assert made.node(backlog=False).held == 0
    assert made.node(backlog=True).held == 1
    made.show(moving)
    assert made.node(backlog=True).held == 0


def test_under_a_limit_all_share_one_session_and_whole_batches(made: Sessions) -> None:
    """A limit's share of a fetch is a multiple of what a partition requests."""
    behind = made.fetched(0, far_behind=True)
    assert behind.in_backlog
    limits = FlowLimits(whole=RateLimit(bytes=100_000_000))
    made.throttle.limit(limits, 1.0, [behind], {"topic": 1})
    made.show(behind)
    assert not behind.in_backlog
    assert made.request(backlog=False)[behind.source] > 256 * 1024
