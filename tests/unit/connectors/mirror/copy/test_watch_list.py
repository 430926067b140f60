"""Of very many partitions only those that are not at rest are looked at each second."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from types import SimpleNamespace
from typing import cast

import pytest

from connect.clients.wire.selector_loop import SelectorLoop
from connectors.mirror.copy.partition.partition import PartitionCopy
from connectors.mirror.copy.stall_detector import Commits
from connectors.mirror.copy.watch_list import FEW, SWEEP_S, WatchList, at_rest
from connectors.mirror.metrics import PartitionMetrics
from tests.support.fake_clock import FakeClock
from tests.unit.connectors.mirror.copy.contexts import context


class Flow:
    def __init__(self, partitions: int) -> None:
        self.clock = FakeClock()
        self.loop = SelectorLoop(self.clock)
        self.context = context(self.loop, self.clock, None, None)
        self.began: dict[PartitionCopy, int] = {}
        """The partitions of an open transaction, and their positions before it."""
        commits = SimpleNamespace(begun=self.began.get)
        self.watch = WatchList(self.context, cast("Commits", commits))
        self.every = [self._add(number) for number in range(partitions)]

    def _add(self, number: int) -> PartitionCopy:
        key = ("t", number)
        metrics = PartitionMetrics("s", "t", "copy", number, clock=self.clock)
        partition = PartitionCopy(key, ("copy", number), metrics)
        partition.begin_at(100)
        partition.high_watermark = 100
        partition.source_node, partition.target_node = number % 2, 7
        self.context.partitions[key] = partition
        self.context.touched[partition] = None
        return partition

    def second(self, *silent: int) -> set[PartitionCopy]:
        """What is looked at in this second."""
        self.clock.advance(1)
        taken = set(self.watch.take(silent))
        self.watch.settle()
        return taken

    def rest(self) -> None:
        """Until a whole sweep has found nothing."""
        for _ in range(SWEEP_S):
            self.second()


MANY = 2 * FEW

MakeFlow = Callable[[int], Flow]


@pytest.fixture
def make() -> Iterator[MakeFlow]:
    """Makes flows of so many partitions."""
    with ExitStack() as stack:

        def made(partitions: int) -> Flow:
            flow = Flow(partitions)
            stack.callback(flow.loop.close)
            return flow

        yield made


def test_few_partitions_are_all_looked_at(make: MakeFlow) -> None:
    flow = make(FEW)
    for _ in range(3):
        assert flow.second() == set(flow.every)


def test_new_partitions_are_looked_at_and_then_left_alone(make: MakeFlow) -> None:
    flow = make(MANY)
    assert flow.second() == set(flow.every)
    assert len(flow.second()) <= MANY / SWEEP_S + 1


def test_a_sweep_looks_at_every_partition(make: MakeFlow) -> None:
    flow = make(MANY)
    flow.second()
    seen: set[PartitionCopy] = set()
    for _ in range(SWEEP_S):
        seen |= flow.second()
    assert seen == set(flow.every)


def test_a_touched_partition_is_looked_at_until_it_is_at_rest(make: MakeFlow) -> None:
    flow = make(MANY)
    flow.rest()
    busy = flow.every[3]
    busy.high_watermark = 105
    flow.context.touched[busy] = None
    for _ in range(5):
        assert busy in flow.second()
    assert busy in set(flow.watch)
    busy.acked_position = 105
    assert busy in flow.second(), "its last look finds it well"
    assert busy not in set(flow.watch)


def test_one_in_an_open_transaction_is_looked_at_until_that_ends(make: MakeFlow) -> None:
    """If it is aborted again and again, nothing is copied, though all that waits was sent."""
    flow = make(MANY)
    flow.rest()
    sent = flow.every[3]
    flow.began[sent] = 95
    flow.context.touched[sent] = None
    for _ in range(5):
        assert sent in flow.second()
    del flow.began[sent]
    assert sent in flow.second(), "its last look finds it well"
    assert sent not in set(flow.watch)


def test_what_was_at_rest_counts_as_well_until_now(make: MakeFlow) -> None:
    """Otherwise it would look stalled for all the time that nobody looked."""
    flow = make(MANY)
    flow.rest()
    busy = flow.every[3]
    busy.high_watermark, busy.searching = 105, True
    flow.context.touched[busy] = None
    flow.second()
    now = flow.context.loop.now()
    assert busy.held_since == now
    assert busy.progress == ((100, 0), now)


def test_all_partitions_of_a_silent_broker_are_looked_at(make: MakeFlow) -> None:
    flow = make(MANY)
    flow.rest()
    of_silent = {each for each in flow.every if each.source_node == 1}
    assert of_silent <= flow.second(1)


def test_one_that_left_is_not_looked_at(make: MakeFlow) -> None:
    flow = make(MANY)
    left = flow.every[3]
    left.high_watermark = 105
    flow.second()
    del flow.context.partitions[left.source]
    assert left not in flow.second()


def test_what_waits_or_is_ill_is_not_at_rest(make: MakeFlow) -> None:
    def changed(**state: object) -> PartitionCopy:
        partition = make(1).every[0]
        for name, value in state.items():
            setattr(partition, name, value)
        return partition

    assert at_rest(changed())
    for state in (
        {"high_watermark": 101},
        {"high_watermark": -1},
        {"source_error": "refused"},
        {"target_error": "refused"},
        {"stall": "nothing was copied"},
        {"standing": "a loss"},
        {"undecided": 3},
        {"leaving": True},
        {"learning": True},
        {"limited_by": "mirror.rate.bytes"},
        {"source_node": -1},
        {"target_node": -1},
    ):
        assert not at_rest(changed(**state)), state
