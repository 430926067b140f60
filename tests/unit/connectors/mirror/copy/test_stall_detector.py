"""A partition that does not move is seen, also where no error says so; one that is well is not."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import Future
from types import MappingProxyType, SimpleNamespace
from typing import cast

import pytest

from connect.clients.cluster.list_offsets import EARLIEST
from connect.clients.cluster.metadata import ClusterSnapshot
from connect.clients.wire.selector_loop import SelectorLoop
from connect.protocol.messages import TopicPartition
from connectors.mirror.copy.brokers.source import SourceNode
from connectors.mirror.copy.brokers.target import TargetNode
from connectors.mirror.copy.partition.partition import Outgoing, PartitionCopy
from connectors.mirror.copy.stall_detector import Commits, StallDetector
from connectors.mirror.copy.throttle import Throttle
from connectors.mirror.metrics import PartitionMetrics
from tests.support.fake_clock import FakeClock
from tests.unit.connectors.mirror.copy.contexts import context

KEY = ("t", 0)


class Source:
    """Answers where a log begins and ends."""

    def __init__(self) -> None:
        self.snapshot = ClusterSnapshot(version=1, leaders=MappingProxyType({KEY: (1, 0)}))
        self.asked, self.end = 0, 500

    def list_offsets(
        self, partitions: Iterable[TopicPartition], kind: int, isolation: int, limit: float
    ) -> Future[Mapping[TopicPartition, int]]:
        self.asked += 1
        answer: Future[Mapping[TopicPartition, int]] = Future()
        answer.set_result({KEY: 40 if kind == EARLIEST else self.end})
        return answer


class Watched:
    def __init__(self) -> None:
        self.clock = FakeClock()
        self.loop = SelectorLoop(self.clock)
        self.source = Source()
        self.context = context(self.loop, self.clock, self.source, None)
        self.throttle = SimpleNamespace(holds=False)
        self.watch = StallDetector(self.context, cast("Throttle", self.throttle))
        self.transactions = SimpleNamespace(
            length_s=0.1, aborted_because=None, begun=lambda _: None
        )
        never = float("-inf")
        self.node = SimpleNamespace(
            silent_since=None,
            waits_since=None,
            arriving_at=never,
            throttled_at=never,
            role="source broker",
            node_id=1,
        )
        self.target = SimpleNamespace(throttled_at=never, role="target broker", node_id=7)
        metrics = PartitionMetrics("s", "t", "copy", 0, clock=self.clock)
        self.partition = PartitionCopy(KEY, ("copy", 0), metrics)
        self.partition.begin_at(100)
        self.partition.high_watermark = 100
        self.partition.source_node, self.partition.target_node = 1, 7
        self.context.partitions[KEY] = self.partition

    def exactly_once(self) -> SimpleNamespace:
        """From now on batches are written in transactions, which the test ends."""
        self.watch = StallDetector(
            self.context, cast("Throttle", self.throttle), cast("Commits", self.transactions)
        )
        return self.transactions

    def pass_by(self, seconds: int, *, paused: bool = False) -> str | None:
        nodes = cast("Mapping[tuple[int, bool], SourceNode]", {(1, False): self.node})
        targets = cast("Mapping[int, TargetNode]", {7: self.target})
        self.context.fetching = not paused
        for _ in range(seconds):
            self.clock.advance(1.0)
            self.watch.look(self.context.partitions.values(), nodes, targets)
            self.loop.turn(0.0)
        return self.partition.error


@pytest.fixture
def watched() -> Iterator[Watched]:
    made = Watched()
    yield made
    made.loop.close()


def test_one_that_is_caught_up_is_well(watched: Watched) -> None:
    assert watched.pass_by(60) is None
    assert watched.source.asked == 0
    assert watched.partition.metrics.read()["stuck"] == 0


def test_records_that_wait_and_do_not_move_are_told_with_true_figures(watched: Watched) -> None:
    watched.partition.high_watermark = 200
    assert watched.pass_by(9) is None
    error = watched.pass_by(3)
    assert "nothing was copied since" in str(error)
    assert watched.pass_by(1) == error, "the text is the same while it lasts"
    figures = watched.partition.metrics.read()
    assert (figures["stuck"], figures["record-lag"]) == (1, 400)
    assert watched.partition.log_start_offset == 40
    watched.partition.acked_position = 150
    assert watched.pass_by(1) is None


def test_records_that_come_after_a_long_rest_have_their_time(watched: Watched) -> None:
    assert watched.pass_by(60) is None
    watched.partition.high_watermark = 200
    assert watched.pass_by(9) is None
    assert "nothing was copied since" in str(watched.pass_by(3))


def test_a_broker_that_is_silent_is_told_also_of_one_that_was_caught_up(watched: Watched) -> None:
    watched.node.silent_since = watched.loop.now()
    assert watched.pass_by(5) is None
    assert "source broker 1 has not responded since" in str(watched.pass_by(2))


def test_a_large_response_over_a_slow_link_is_no_stall(watched: Watched) -> None:
    watched.partition.high_watermark = 200
    watched.node.silent_since = watched.loop.now()
    watched.node.waits_since = watched.loop.now()
    for _ in range(60):
        watched.node.silent_since = watched.node.arriving_at = watched.loop.now()
        assert watched.pass_by(1) is None
    assert watched.partition.high_watermark == watched.source.end, "the end is asked for meanwhile"
    assert "has not responded since" in str(watched.pass_by(7))


def test_a_response_is_not_late_while_nobody_reads_it(watched: Watched) -> None:
    """Slow transformations hold the thread, and what the broker sent waits in the socket."""
    watched.loop.turn(0.0)
    watched.node.waits_since = watched.loop.now()
    watched.clock.advance(30)
    watched.pass_by(1)
    assert watched.source.asked == 0
    watched.pass_by(1)
    assert watched.source.asked == 2, "the sockets were polled since, and it is late"


def test_a_limit_hides_no_records(watched: Watched) -> None:
    watched.throttle.holds = True
    assert watched.pass_by(5) is None
    assert watched.partition.lag == 400, "the end is asked for while nothing is fetched"


def test_a_quota_that_lets_nothing_through_is_named(watched: Watched) -> None:
    watched.partition.high_watermark = 200
    watched.node.throttled_at = watched.loop.now()
    assert "source broker 1 throttles this flow by a quota" in str(watched.pass_by(15))
    watched.partition.in_flight.append(cast("Outgoing", SimpleNamespace(resume=150)))
    assert "quota" not in str(watched.pass_by(1)), "that of the source does not hold up sending"
    watched.target.throttled_at = watched.loop.now()
    assert "target broker 7 throttles this flow by a quota" in str(watched.pass_by(1))


def test_a_transaction_of_the_source_that_hangs_is_named(watched: Watched) -> None:
    watched.source.end = 100  # that of what is decided
    watched.partition.undecided = 7
    watched.partition.undecided_since = watched.loop.now()
    assert watched.pass_by(900) is None, "so long the brokers may wait for its end"
    error = str(watched.pass_by(120))
    assert "the source has an open transaction from offset 100 on since" in error
    watched.partition.undecided = 8
    assert watched.pass_by(1) == error, "it is told once"
    watched.partition.undecided = 0
    assert watched.pass_by(1) is None


def test_one_whose_logs_are_looked_at_for_long_is_told(watched: Watched) -> None:
    watched.pass_by(1)
    watched.partition.checking = True
    assert "its logs are being validated since" in str(watched.pass_by(7))


def test_what_is_paused_is_not_stuck(watched: Watched) -> None:
    watched.partition.high_watermark = 200
    assert watched.pass_by(60, paused=True) is None
    assert watched.pass_by(5) is None


def test_what_waits_for_its_time_is_not_stuck_and_its_lag_is_known(watched: Watched) -> None:
    watched.partition.high_watermark = 200
    watched.partition.limited_by = "a limit"
    assert watched.pass_by(60) is None
    figures = watched.partition.metrics.read()
    assert (figures["stuck"], figures["record-lag"]) == (0, 400)
    watched.partition.limited_by = None
    assert "nothing was copied" in (watched.pass_by(15) or "")


def test_what_was_fetched_and_is_not_sent_is_stuck_also_at_a_limit(watched: Watched) -> None:
    watched.partition.high_watermark = 200
    watched.partition.limited_by = "a limit"
    watched.partition.in_flight.append(cast("Outgoing", SimpleNamespace(resume=150)))
    assert "being sent" in (watched.pass_by(15) or "")


def test_a_flow_whose_transactions_are_all_aborted_is_stuck(watched: Watched) -> None:
    """Its batches are acknowledged again and again, and nobody can read them."""
    transactions = watched.exactly_once()
    watched.partition.high_watermark = 200
    error = None
    for _ in range(7):
        transactions.begun = lambda _: 100
        watched.partition.acked_position = 200
        error = watched.pass_by(1)
        transactions.begun = lambda _: None
        watched.partition.acked_position = 100
        transactions.aborted_because = "TRANSACTION_ABORTABLE"
        error = watched.pass_by(1)
    assert "nothing was copied since" in str(error)
    assert "the last transaction was aborted: TRANSACTION_ABORTABLE" in str(error)
    transactions.aborted_because = None
    watched.partition.acked_position = 150
    assert watched.pass_by(1) is None


def test_a_transaction_has_as_long_as_it_lasts(watched: Watched) -> None:
    transactions = watched.exactly_once()
    transactions.length_s, transactions.begun = 20.0, lambda _: 100
    watched.partition.high_watermark = watched.partition.acked_position = 200
    watched.pass_by(1)
    assert watched.pass_by(28) is None
    assert "nothing was copied since" in str(watched.pass_by(3))


def test_one_that_a_loss_moved_on_has_copied_nothing(watched: Watched) -> None:
    """Retention deletes what waits again and again: no deletion makes the partition healthy."""
    partition = watched.partition
    partition.high_watermark = 500
    assert watched.pass_by(8) is None
    partition.begin_at(120)
    partition.lost_records += 20
    assert "nothing was copied" in (watched.pass_by(4) or "")


def test_what_was_copied_between_two_looks_counts_though_the_target_lost_it(
    watched: Watched,
) -> None:
    partition = watched.partition
    partition.high_watermark = 500
    assert watched.pass_by(8) is None
    partition.metrics.acked(80, 0, 0)
    partition.begin_at(180)
    partition.begin_at(100)
    assert watched.pass_by(9) is None
    assert "nothing was copied" in (watched.pass_by(3) or "")


def test_to_go_back_is_to_copy_nothing(watched: Watched) -> None:
    """The target loses records again and again: no loss makes the partition healthy."""
    partition = watched.partition
    partition.high_watermark = 500
    assert watched.pass_by(8) is None
    partition.begin_at(60)
    assert "nothing was copied" in (watched.pass_by(4) or "")
