"""Which partitions are fetched from a source broker."""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

import pytest

from connectors.mirror.copy.brokers.routing import BrokerResponses, BrokerRouting
from connectors.mirror.copy.brokers.source import SourceNode
from connectors.mirror.copy.memory import FetchBuffer
from connectors.mirror.copy.partition.states import CopyEvent
from connectors.mirror.copy.throttle import Throttle
from tests.support.copier.outgoing import outgoing
from tests.unit.connectors.mirror.copy.asked_cluster import SteppedLoop

BROKER = 1


class Routed(SteppedLoop):
    """A partition whose leaders are known on both sides."""

    def __init__(self) -> None:
        super().__init__()
        nobody = cast("BrokerResponses", None)
        self.routing = BrokerRouting(self.context, nobody, Throttle(self.context), None)
        self.copied = self.partition(0)
        self.copied.begin_at(0)
        self.copied.source_node = self.copied.target_node = BROKER
        self.context.partitions[self.copied.source] = self.copied

    def enqueue(self) -> None:
        """Queue a batch of one small record."""
        data = bytearray(100)
        at = self.copied.resume
        buffer = FetchBuffer(self.context.budget, data)
        self.copied.enqueue(outgoing(data, at, 1, buffer), at)

    def node(self) -> SourceNode:
        self.routing.refresh_interest(self.copied)
        return self.routing.sources[BROKER, False]


@pytest.fixture
def made() -> Iterator[Routed]:
    routed = Routed()
    yield routed
    routed.loop.close()


def test_a_partition_is_left_out_of_fetches_while_enough_of_its_batches_wait(made: Routed) -> None:
    assert made.node().needed()
    for _ in range(4):
        made.enqueue()
    node = made.node()
    assert not node.needed()
    assert node.held == 1
    made.copied.take_next()
    node = made.node()
    assert node.needed()
    assert node.held == 0


def test_one_that_may_not_be_fetched_is_not_held(made: Routed) -> None:
    """A fetch waits at the broker only briefly while partitions are held."""
    assert made.node().needed()
    for _ in range(4):
        made.enqueue()
    made.copied.life.on(CopyEvent.REFUSED, made.copied.name)
    node = made.node()
    assert not node.needed()
    assert node.held == 0
