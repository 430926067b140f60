"""What calls for a look at a partition's logs is looked at, whatever else is being asked then."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import Future
from types import MappingProxyType
from typing import cast

import pytest

from connect.clients.cluster_link import ClusterLink
from connect.clients.cluster_snapshot import ClusterSnapshot
from connect.clients.selector_loop import SelectorLoop
from connect.clients.settings import FetchSettings
from connect.clock import FakeClock
from connect.errors import BrokerUnavailable, ConnectError
from connect.protocol.messages import TopicPartition
from connectors.mirror.copy.log_checks import LogChecks
from connectors.mirror.copy.partition import CopyState, PartitionCopy
from connectors.mirror.copy.start_positions import StartPositions
from connectors.mirror.metrics import PartitionMetrics

Ends = Mapping[TopicPartition, "int | ConnectError"]


class Cluster:
    """A cluster whose answers a test gives."""

    def __init__(self) -> None:
        self.asked: list[set[TopicPartition]] = []
        self.answers: list[Future[Ends]] = []
        self.snapshot = ClusterSnapshot(version=1)

    def leads(self, *keys: TopicPartition) -> None:
        leaders = MappingProxyType({**self.snapshot.leaders, **dict.fromkeys(keys, (1, 0))})
        self.snapshot = ClusterSnapshot(version=self.snapshot.version + 1, leaders=leaders)

    def list_offsets(
        self, partitions: Iterable[TopicPartition], timestamp: int, isolation: int, limit: float
    ) -> Future[Ends]:
        self.asked.append(set(partitions))
        self.answers.append(Future())
        return self.answers[-1]


class Checking:
    def __init__(self) -> None:
        self.clock = FakeClock()
        self.loop = SelectorLoop(self.clock)
        self.target = Cluster()
        self.checked: list[PartitionCopy] = []
        source = cast("ClusterLink", Cluster())
        starts = StartPositions(source, self.loop, FetchSettings(), self.checked.append)
        self.checks = LogChecks(
            source, cast("ClusterLink", self.target), self.loop, starts, self.checked.append
        )

    def copied_before(self, number: int, end: int) -> PartitionCopy:
        """A partition that earlier runs copied up to this offset, as a start finds it."""
        metrics = PartitionMetrics("s", "t", "copy", number, clock=self.clock)
        made = PartitionCopy(("topic", number), ("copy", number), metrics, CopyState.ACTIVE)
        made.position = made.acked_position = made.target_end = end
        self.target.leads(made.target)
        return made

    def turn(self, seconds: float = 0.0) -> None:
        self.clock.advance(seconds)
        for _ in range(3):
            self.loop.turn(0.0)


@pytest.fixture
def checking() -> Iterator[Checking]:
    made = Checking()
    yield made
    made.loop.close()


def test_a_partition_is_neither_fetched_nor_sent_until_the_target_answered(
    checking: Checking,
) -> None:
    partition = checking.copied_before(0, end=100)
    checking.checks.follow(partition)
    checking.turn()
    assert checking.target.asked == [{partition.target}]
    assert (partition.held_back, partition.target_checking) == (True, True)
    checking.target.answers[0].set_result({partition.target: 100})
    checking.turn()
    assert (partition.held_back, partition.target_checking) == (False, False)
    assert checking.checked == [partition]


def test_what_comes_while_others_are_asked_about_is_asked_next(checking: Checking) -> None:
    first, second = (checking.copied_before(number, end=100) for number in range(2))
    checking.checks.follow(first)
    checking.turn()
    checking.checks.follow(second)
    checking.turn()
    assert checking.target.asked == [{first.target}]
    checking.target.answers[0].set_result({first.target: 100})
    checking.turn()
    assert checking.target.asked[1:] == [{second.target}]
    checking.target.answers[1].set_result({second.target: 100})
    checking.turn()
    assert checking.checked == [first, second]
    assert not second.held_back


def test_a_question_that_failed_is_asked_again_together_with_what_came(
    checking: Checking,
) -> None:
    first, second = (checking.copied_before(number, end=100) for number in range(2))
    checking.checks.follow(first)
    checking.turn()
    checking.checks.follow(second)
    checking.target.answers[0].set_exception(BrokerUnavailable("gone"))
    checking.turn()
    assert checking.target.asked == [{first.target}]
    checking.turn(1.0)
    assert checking.target.asked[1:] == [{first.target, second.target}]
    assert first.held_back
