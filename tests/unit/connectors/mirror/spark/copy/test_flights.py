"""What goes out when: as many as there are slots, the next as one ends, and soon a slot for live
records."""

from __future__ import annotations

from collections.abc import Sequence

from connect.protocol.messages import TopicPartition
from connectors.mirror.config.rates import FlowLimits, RateLimit
from connectors.mirror.copy.range_copier import RangeProgress
from connectors.mirror.metrics import PartitionMetrics
from connectors.mirror.spark.copy.board import PartitionBoard
from connectors.mirror.spark.copy.copy_jobs import flight_limits
from connectors.mirror.spark.copy.flights import Flight, Flights
from connectors.mirror.spark.copy.partition import SparkPartition
from connectors.mirror.spark.copy.shards import ShardResult
from connectors.spark.errors import SparkJobFailed
from connectors.spark.slots import Slots
from tests.support.fake_clock import FakeClock

MOST_S, UNHEARD_S = 2.0, 4.0
LARGE, SMALL = 100_000, 10


class Jobs:
    """A Spark with these slots, whose jobs end when a test says so."""

    def __init__(self, running: int, most: int) -> None:
        self.slots: Slots | None = Slots(running, most)
        self.started: list[Flight] = []

    def run(self, flight: Flight) -> None:
        self.started.append(flight)


class Engine:
    """The flights of one flow, of topic `t`, without its task."""

    def __init__(self, running: int, most: int = 0) -> None:
        self.board, self.clock = PartitionBoard(), FakeClock()
        self.jobs = Jobs(running, most or running)
        self.flights = Flights("A->B", self.board, self.jobs, MOST_S, UNHEARD_S, self.clock)

    def lag(self, lags: Sequence[int]) -> None:
        """Add partitions with so many offsets of about a kilobyte each."""
        first = len(self.board)
        for number, lag in enumerate(lags, first):
            partition = SparkPartition(
                ("t", number), ("A.t", number), PartitionMetrics("A", "B", "A.t", number)
            )
            partition.position, partition.end = 0, lag
            self.board.add(partition)

    def deal(self) -> list[Flight]:
        before = len(self.jobs.started)
        self.flights.deal(None)
        return self.jobs.started[before:]

    def land(self, flight: Flight, records: int | None = None) -> None:
        """It copied so many records of each partition, or everything."""
        most = LARGE if records is None else records
        progress = [
            RangeProgress(each, min(each.end, each.start + most), 0, 0, None)
            for each in flight.shard
        ]
        left, _, _ = self.flights.landed(flight, ShardResult((), tuple(progress), None), None)
        assert not left
        for each in progress:
            self.board.reached(each, self.clock.monotonic(), 0)


def sources(flight: Flight) -> list[TopicPartition]:
    return [each.source for each in flight.shard]


def test_as_many_as_slots_are_in_flight_and_the_next_goes_out_as_one_ends() -> None:
    engine = Engine(3)
    engine.lag([LARGE] * 7)
    first = engine.deal()
    assert [len(flight.shard) for flight in first] == [3, 3, 1]
    assert engine.deal() == []
    engine.land(first[1], 1000)
    (fourth,) = engine.deal()
    assert sources(fourth) == sources(first[1])
    assert fourth.shard[0].start == 1000


def test_while_there_is_no_session_nothing_goes_out() -> None:
    engine = Engine(2)
    engine.lag([LARGE])
    engine.jobs.slots = None
    assert engine.deal() == []
    engine.jobs.slots = Slots(2, 2)
    engine.clock.advance(1.0)
    assert len(engine.deal()) == 1


def test_slots_that_join_and_go_count_at_once() -> None:
    engine = Engine(1)
    engine.lag([LARGE] * 8)
    (first,) = engine.deal()
    engine.jobs.slots = Slots(4, 4)
    engine.land(first, 10)
    before = engine.deal()
    assert len(before) == 4
    engine.jobs.slots = Slots(1, 1)
    for flight in before[:3]:
        engine.land(flight, 10)
        assert engine.deal() == []
    engine.land(before[3], 10)
    assert len(engine.deal()) == 1


def test_where_spark_can_grow_more_wait_than_run_while_there_is_lag_for_them() -> None:
    engine = Engine(2, 4)
    engine.lag([LARGE] * 8)
    assert [len(flight.shard) for flight in engine.deal()] == [2, 2, 2, 2]
    little = Engine(2, 4)
    little.lag([LARGE])
    assert len(little.deal()) == 1


def test_the_last_slot_is_given_for_a_short_time_while_others_may_become_due() -> None:
    engine = Engine(2)
    engine.lag([LARGE, LARGE, 0])
    first, last = engine.deal()
    assert (first.seconds, last.seconds) == (MOST_S, 0.3)
    # Live records go out as soon as it is free, and in the same shard as what it had.
    engine.board.ends({("t", 2): SMALL}, 0)
    assert engine.deal() == []
    engine.land(last, 1000)
    (second,) = engine.deal()
    assert (sources(second), second.seconds) == ([("t", 2), ("t", 1)], MOST_S)


def test_beside_a_shard_that_ends_soon_another_has_long() -> None:
    engine = Engine(2)
    engine.lag([LARGE, LARGE, 0])
    first, _ = engine.deal()
    engine.land(first, 1000)
    (third,) = engine.deal()
    assert third.seconds == MOST_S


def test_where_all_partitions_are_in_flight_the_last_slot_is_given_for_long() -> None:
    engine = Engine(2)
    engine.lag([LARGE, LARGE])
    assert [flight.seconds for flight in engine.deal()] == [MOST_S, MOST_S]
    single = Engine(1)
    single.lag([LARGE, LARGE])
    assert [flight.seconds for flight in single.deal()] == [MOST_S]
    idle = Engine(1)
    idle.lag([LARGE, 0])
    assert [flight.seconds for flight in idle.deal()] == [0.3]


def test_after_a_lost_result_its_partitions_are_left_alone_and_others_go_on() -> None:
    engine = Engine(2)
    engine.lag([LARGE, LARGE])
    lost, other = engine.deal()
    landed = engine.flights.landed(lost, SparkJobFailed("an executor was lost"), None)
    assert landed.left == set(sources(lost))
    assert landed.reason == "an executor was lost"
    assert landed.until == engine.clock.monotonic() + MOST_S + UNHEARD_S
    engine.board.abandon(landed.left, landed.reason, engine.clock.monotonic(), landed.until)
    engine.land(other, 1000)
    (again,) = engine.deal()
    assert sources(again) == sources(other)
    engine.clock.advance(MOST_S + UNHEARD_S)
    (after,) = engine.deal()
    assert sources(after) == sources(lost)


def test_only_the_first_run_of_a_task_copies() -> None:
    """Its process may outlive its executor. A run beside it would double or mix records."""
    lost, speculative = (
        flight_limits(MOST_S, UNHEARD_S, speculates=speculates) for speculates in (False, True)
    )
    assert lost.once
    assert speculative.once
    # With speculation the first run still goes on, and its result counts if it comes.
    assert (lost.again_s, speculative.again_s) == (0.0, MOST_S + UNHEARD_S)


def test_a_repetition_says_that_the_first_run_may_go_on() -> None:
    engine = Engine(1)
    engine.lag([LARGE])
    (flight,) = engine.deal()
    again = ShardResult((), (), "Spark ran its task again", again=True)
    landed = engine.flights.landed(flight, again, None)
    assert landed.until == engine.clock.monotonic() + MOST_S + UNHEARD_S
    failed = ShardResult((), (), "no broker")
    engine.board.abandon(landed.left, landed.reason, 0.0, 0.0)
    engine.clock.advance(60.0)
    (flight,) = engine.deal()
    landed = engine.flights.landed(flight, failed, None)
    assert (landed.reason, landed.until) == ("no broker", engine.clock.monotonic())


def test_shards_in_flight_share_the_flow_s_limit() -> None:
    engine = Engine(2)
    engine.flights.shares.limit(FlowLimits(RateLimit(bytes=1000.0)), engine.clock.monotonic())
    engine.lag([LARGE] * 4)
    flights = engine.deal()
    rates = [flight.pace.limits.whole.bytes for flight in flights if flight.pace is not None]
    assert len(rates) == 2
    # Of what nobody used before, half a second is made up for.
    assert sum(rate or 0.0 for rate in rates) <= 1000.0 + 0.5 * 1000.0 * (1 / 2.0 + 1 / 0.3)
    engine.land(flights[0], 1000)
    assert len(engine.deal()) == 1
