"""Which answers to fetches a source node takes for answers about a partition's log."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import cast

import pytest

from connect.clients.wire.channel import Channel
from connectors.mirror.copy.brokers.source import FetchResponses, SourceNode
from connectors.mirror.copy.throttle import Throttle
from tests.unit.connectors.mirror.copy.asked_cluster import SteppedLoop


class Node(SteppedLoop):
    def __init__(self) -> None:
        super().__init__()
        nobody = cast("FetchResponses", None)
        self.node = SourceNode(1, self.context, Throttle(self.context), nobody)

    def ask(self) -> None:
        """As when a fetch is sent."""
        self.node._session.next_request()


@pytest.fixture
def made() -> Iterator[Node]:
    node = Node()
    yield node
    node.loop.close()


def test_an_answer_from_before_an_election_is_not_of_this_log(made: Node) -> None:
    """The log was cut off at the position, so that nothing moved: what the old leader answered is
    not in the log any more, and what took its place would never be fetched."""
    partition = made.partition(0, 17)
    partition.source_epoch = 3
    made.node.want(partition)
    made.ask()
    assert made.node.answers(partition)
    partition.source_epoch = 4
    made.node.want(partition)
    assert not made.node.answers(partition)
    made.ask()
    assert made.node.answers(partition)


def test_an_answer_to_a_partition_that_left_is_not_for_the_one_that_came_back(made: Node) -> None:
    """The topic may have been created again in between."""
    left, back = made.partition(0, 0), made.partition(0, 0)
    made.node.want(left)
    made.ask()
    assert made.node.answers(left)
    made.node.want(back)
    assert not made.node.answers(back)
    made.ask()
    assert made.node.answers(back)


def test_a_late_answer_is_counted_while_it_is_awaited(made: Node) -> None:
    """A large one over a slow link takes minutes. The broker may wait for half a second."""
    here, elsewhere = made.partition(0, 0), made.partition(1, 0)
    here.source_node, elsewhere.source_node = 1, 2
    for partition in (here, elsewhere):
        made.context.partitions[partition.source] = partition
    made.node._reserved = 1  # as when a fetch is sent
    made.node._due_at = made.loop.now() + 0.5

    def late_after(seconds: float) -> float:
        made.clock.advance(seconds)
        made.node.look_for_bytes()
        return round(here.metrics.totals.late_s, 3)

    assert late_after(1.4) == 0.0
    assert late_after(1.1) == 2.0
    assert late_after(10.0) == 12.0
    assert elsewhere.metrics.totals.late_s == 0.0


def test_only_bytes_of_a_response_that_is_still_awaited_are_seen_to_arrive(made: Node) -> None:
    """Those of other partitions' responses do not explain why one waits."""
    channel = SimpleNamespace(bytes_in=0)
    made.node.channel = cast("Channel", channel)
    never = made.node.arriving_at

    def second(*, next_response: bool) -> float:
        made.clock.advance(1.0)
        channel.bytes_in += 100
        if next_response:
            made.node.waits_since = made.loop.now()
        made.node.look_for_bytes()
        return made.node.arriving_at

    for _ in range(5):
        assert second(next_response=True) == never
    assert second(next_response=False) == made.loop.now()


def test_records_that_take_long_to_convert_are_fetched_in_smaller_responses(made: Node) -> None:
    node = made.node
    other = node.other = SourceNode(1, made.context, node._throttle, node._responses, backlog=True)
    node._note_conversion(1_000_000, 2.0)
    assert node.most_bytes == other.most_bytes == 125_000
    node._note_conversion(100, 0.001)  # Tells little.
    assert node.most_bytes == 125_000
    node._note_conversion(100_000, 30.0)
    assert node.most_bytes == 16 * 1024
    node._note_conversion(16 * 1024, 0.001)  # Of another topic, as bytes.
    assert node.most_bytes == 16 * 1024 * 250
