"""What calls for a look at a partition's logs is looked at, whatever else is being asked then."""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

import pytest

from connect.clients.cluster_link import ClusterLink
from connect.clients.offset_listing import LATEST
from connect.clients.settings import FetchSettings
from connect.errors import BrokerUnavailable
from connectors.mirror.copy.log_checks import LogChecks
from connectors.mirror.copy.partition import CopyState, PartitionCopy
from connectors.mirror.copy.start_positions import StartPositions
from tests.unit.connectors.mirror.copy.asked_cluster import AskedCluster, SteppedLoop


class Checking(SteppedLoop):
    def __init__(self) -> None:
        super().__init__()
        self.target = AskedCluster()
        self.checked: list[PartitionCopy] = []
        source = cast("ClusterLink", AskedCluster())
        starts = StartPositions(source, self.loop, FetchSettings(), self.checked.append)
        self.checks = LogChecks(
            source, cast("ClusterLink", self.target), self.loop, starts, self.checked.append
        )

    def copied_before(self, number: int, end: int) -> PartitionCopy:
        """A partition that earlier runs copied up to this offset, as a start finds it."""
        made = self.partition(number, end)
        made.state = CopyState.ACTIVE
        made.target_end = end
        self.target.leads(made.target)
        return made


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
    assert checking.target.asked == [({partition.target}, LATEST)]
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
    assert checking.target.asked == [({first.target}, LATEST)]
    checking.target.answers[0].set_result({first.target: 100})
    checking.turn()
    assert checking.target.asked[1:] == [({second.target}, LATEST)]
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
    assert checking.target.asked == [({first.target}, LATEST)]
    checking.turn(1.0)
    assert checking.target.asked[1:] == [({first.target, second.target}, LATEST)]
    assert first.held_back
