"""A task keeps to its share of the flow's limits: on the average, evenly, and nobody else waits."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from connect.clients.wire.selector_loop import SelectorLoop
from connect.config.java_regex import compile_java_regex
from connect.protocol.batches import BatchHeader
from connectors.mirror.config.rates import FlowLimits, RateLimit, TopicRate
from connectors.mirror.copy.partition.partition import PartitionCopy
from connectors.mirror.copy.throttle import FLOW_LIMIT, TOPIC_LIMIT, Throttle
from connectors.mirror.metrics import PartitionMetrics
from tests.support.fake_clock import FakeClock
from tests.unit.connectors.mirror.copy.contexts import context

KB = 1000


class Task:
    """Partitions that have more than they may copy, fetched whenever the throttle lets them."""

    def __init__(self, *topics: tuple[str, int]) -> None:
        self.clock = FakeClock()
        self.loop = SelectorLoop(self.clock)
        self.context = context(self.loop, self.clock, None, None, buffer_bytes=1 << 20)
        self.throttle = Throttle(self.context)
        self.partitions = [
            PartitionCopy(
                (topic, number),
                (topic, number),
                PartitionMetrics("a", "b", topic, number, clock=self.clock),
            )
            for topic, count in topics
            for number in range(count)
        ]
        for partition in self.partitions:
            partition.high_watermark, partition.acked_position = 100, 0

    def limit(self, limits: FlowLimits, part: float = 1.0, **counts: int) -> None:
        self.throttle.limit(limits, part, self.partitions, counts)

    def run(self, seconds: float, batch: int = 10 * KB, turn_s: float = 0.01) -> dict[str, int]:
        """Every partition that may be fetched brings a batch of 10 records each turn."""
        came = {partition.source[0]: 0 for partition in self.partitions}
        header = cast("BatchHeader", SimpleNamespace(records=10, start=0, size=batch, batches=1))
        for turn in range(round(seconds / turn_s)):
            if not self.throttle.holds:
                may = [partition for partition in self.partitions if not partition.paced]
                for partition in may:
                    came[partition.source[0]] += batch
                self.throttle.count([(partition, [header]) for partition in may])
            self.clock.advance(turn_s)
            self.loop.turn(0.0)
            if turn % round(1 / turn_s) == 0:
                self.throttle.look(self.partitions)
        return came


def of_topic(name: str, limit: RateLimit) -> FlowLimits:
    return FlowLimits(topics=(TopicRate(compile_java_regex(name), limit),))


@pytest.fixture
def two() -> Iterator[Task]:
    task = Task(("slow", 2), ("free", 1))
    yield task
    task.loop.close()


def test_without_limits_nothing_waits(two: Task) -> None:
    assert not two.throttle.on
    assert two.run(1.0)["slow"] == 2 * 100 * 10 * KB


def test_one_topics_limit_holds_its_partitions_together_and_no_others(two: Task) -> None:
    two.limit(of_topic("slow", RateLimit(100 * KB)))
    came = two.run(10.0)
    assert came["slow"] == pytest.approx(1000 * KB, rel=0.1)
    assert came["free"] == 10 * 100 * 10 * KB
    slow, _, free = two.partitions
    assert slow.limited_by == TOPIC_LIMIT
    assert free.limited_by is None
    assert slow.metrics.read()["throttle-time-ms"] > 5000
    assert free.metrics.read()["throttle-time-ms"] == 0
    assert [each.metrics.read()["limited"] for each in (slow, free)] == [1, 0]
    two.limit(FlowLimits())
    assert slow.metrics.read()["limited"] == 0


def test_a_flows_limit_is_that_of_all_partitions(two: Task) -> None:
    two.limit(FlowLimits(RateLimit(400 * KB)), part=0.5)
    assert sum(two.run(10.0).values()) == pytest.approx(2000 * KB, rel=0.1)
    assert two.partitions[2].limited_by == FLOW_LIMIT


def test_records_are_limited_too(two: Task) -> None:
    two.limit(of_topic("slow", RateLimit(records=50.0)))
    assert two.run(10.0)["slow"] / (10 * KB) * 10 == pytest.approx(500, rel=0.1)


def test_of_a_topics_limit_the_task_has_as_much_as_of_its_partitions(two: Task) -> None:
    two.limit(of_topic("slow", RateLimit(100 * KB)), slow=8)
    assert two.run(10.0, batch=KB)["slow"] == pytest.approx(250 * KB, rel=0.1)
    two.throttle.follow(two.partitions, {"slow": 2})
    assert two.run(10.0, batch=KB)["slow"] == pytest.approx(1000 * KB, rel=0.1)


def test_of_a_topics_limit_that_is_divided_already_it_has_all(two: Task) -> None:
    divided = replace(of_topic("slow", RateLimit(100 * KB)), divided=True)
    two.limit(divided, slow=8)
    assert two.run(10.0, batch=KB)["slow"] == pytest.approx(1000 * KB, rel=0.1)


def test_a_limit_that_goes_lets_everything_go_on_at_once(two: Task) -> None:
    two.limit(of_topic("slow", RateLimit(1.0)))
    two.run(0.1)
    assert [partition.paced for partition in two.partitions] == [True, True, False]
    two.limit(FlowLimits())
    assert not any(partition.paced for partition in two.partitions)
    assert two.partitions[0].most_fetch_bytes == 0
    two.limit(FlowLimits(RateLimit(1.0)))
    two.run(0.1)
    assert two.throttle.holds
    two.limit(FlowLimits(RateLimit(1000 * KB)))
    assert not two.throttle.holds


def test_fetches_are_as_small_as_the_rate_is_low(two: Task) -> None:
    assert two.throttle.response_bytes is None
    two.limit(
        FlowLimits(
            RateLimit(4000 * KB), (TopicRate(compile_java_regex("slow"), RateLimit(800 * KB)),)
        )
    )
    assert two.throttle.response_bytes == 1000 * KB
    assert two.throttle.partition_bytes == 250 * KB
    assert [partition.most_fetch_bytes for partition in two.partitions] == [100 * KB, 100 * KB, 0]
    for partition in two.partitions[1:]:
        partition.acked_position = partition.high_watermark
    two.throttle.look(two.partitions)
    assert two.throttle.partition_bytes == 1000 * KB, "one alone has all of it"


def test_fetches_ask_for_whole_batches(two: Task) -> None:
    """What a broker cuts off behind them is read for nothing: at low rates, up to half."""
    slow, _, free = two.partitions
    most = 4000 * KB
    two.limit(of_topic("slow", RateLimit(320 * KB)), slow=2)
    assert two.throttle.fetch_bytes_of(slow, most) == 40 * KB
    two.run(0.01, batch=19 * KB)
    assert two.throttle.fetch_bytes_of(slow, most) == 38 * KB
    assert two.throttle.fetch_bytes_of(free, most) == most, "no limit, and not cut for nothing"
    two.limit(FlowLimits(RateLimit(1000 * KB)))
    assert two.throttle.fetch_bytes_of(slow, most) == 76 * KB
    two.limit(FlowLimits(RateLimit(1.0)))
    assert two.throttle.fetch_bytes_of(slow, most) == 19 * KB, "else only one of all would come"


def test_a_fetch_leaves_no_room_for_a_part_of_a_batch(two: Task) -> None:
    """Else a partition that gets the rest of every response never gets a whole batch."""
    assert two.throttle.fetch_size(4000 * KB, 200) == 4000 * KB, "no limit"
    two.limit(FlowLimits(RateLimit(20 * KB)))
    assert two.throttle.response_bytes == 16 * 1024
    assert two.throttle.fetch_size(4000 * KB, 16_200) == 16_200
    assert two.throttle.fetch_size(4000 * KB, 5_000) == 15_000
    assert two.throttle.fetch_size(10_000, 4_000) == 8_000
    assert two.throttle.fetch_size(4000 * KB, 20_000) == 16 * 1024, "a batch comes whole"


def test_a_topic_with_large_batches_brings_no_more_at_a_time(two: Task) -> None:
    """A batch comes whole, but not one of each partition in one fetch."""
    two.limit(of_topic("slow", RateLimit(100 * KB)))
    two.run(0.01, batch=900 * KB)
    assert two.throttle.fetch_bytes_of(two.partitions[0], 4000 * KB) == 16 * 1024


def test_a_fetch_waits_no_longer_than_a_held_topic(two: Task) -> None:
    assert two.throttle.wait_ms(500) == 500
    two.limit(of_topic("slow", RateLimit(100 * KB)))
    two.run(0.01)
    assert 0 < two.throttle.wait_ms(500) <= 200
    assert two.throttle.wait_ms(50) == 50


def test_after_a_quiet_time_there_is_no_flood(two: Task) -> None:
    two.limit(FlowLimits(RateLimit(100 * KB)))
    two.clock.advance(10.0)
    assert sum(two.run(1.0).values()) <= 1.5 * 100 * KB + len(two.partitions) * 10 * KB


@given(
    st.integers(min_value=10, max_value=10_000),
    st.lists(st.tuples(st.integers(1, 50), st.integers(0, 3)), min_size=1, max_size=30),
)
def test_never_more_than_the_rate_and_one_burst(rate_kb: int, steps: list[tuple[int, int]]) -> None:
    """However batches come: what comes is the rate's, half a second of it, and a fetch."""
    task, rate, total = Task(("t", 1)), rate_kb * KB, 0
    task.limit(FlowLimits(RateLimit(rate)))
    largest = max(size for size, _ in steps) * KB
    began = task.clock.monotonic()
    for size, seconds in steps:
        if not task.throttle.holds:
            total += size * KB
            header = cast(
                "BatchHeader", SimpleNamespace(records=1, start=0, size=size * KB, batches=1)
            )
            task.throttle.count([(task.partitions[0], [header])])
        passed = task.clock.monotonic() - began
        assert total <= rate * (passed + 0.5) + largest
        task.clock.advance(seconds / 4)
        task.loop.turn(0.0)
    task.loop.close()
