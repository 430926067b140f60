"""Which answers to fetches a source node takes for answers about a partition's log."""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

import pytest

from connect.clients.cluster.cluster_link import ClusterLink
from connect.clients.config.settings import FetchSettings, WireSettings
from connectors.mirror.copy.brokers.source import SourceNode
from connectors.mirror.copy.memory import MemoryBudget
from connectors.mirror.copy.throttle import Throttle
from tests.unit.connectors.mirror.copy.asked_cluster import AskedCluster, SteppedLoop


class Node(SteppedLoop):
    def __init__(self) -> None:
        super().__init__()
        budget = MemoryBudget(1 << 20)
        self.node = SourceNode(
            1,
            cast("ClusterLink", AskedCluster()),
            WireSettings(bootstrap=(("b", 1),), client_id="test"),
            self.loop,
            budget,
            FetchSettings(),
            Throttle(self.loop, budget, lambda _: None, self.clock),
            lambda *_: None,
            lambda *_: None,
        )

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
