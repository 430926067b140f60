"""What shards have of a flow's limits, and how long what had too much waits."""

from __future__ import annotations

import math

import pytest

from connectors.mirror.config.rates import NO_LIMITS, FlowLimits, RateLimit, parse_topic_rate
from connectors.mirror.copy.range_copier import RangeProgress, SourceRange
from connectors.mirror.copy.throttle import FLOW_LIMIT, TOPIC_LIMIT
from connectors.mirror.spark.copy.rate_shares import FlowPacing

BATCH_S = 2.0
MB = 1_000_000


def wanted(topic: str, partition: int = 0, megabytes: int = 100) -> SourceRange:
    return SourceRange((topic, partition), (f"A.{topic}", partition), 0, megabytes)


def size(each: SourceRange) -> float:
    return (each.end - each.start) * MB


def came(pacing: FlowPacing, each: SourceRange, megabytes: float, records: int = 0) -> None:
    pacing.came([RangeProgress(each, each.end, int(megabytes * MB), 0, None, records)])


def of_flow(**limit: float) -> FlowPacing:
    pacing = FlowPacing(BATCH_S)
    pacing.limit(FlowLimits(RateLimit(**limit)))
    return pacing


def of_topics(*elements: str) -> FlowPacing:
    pacing = FlowPacing(BATCH_S)
    pacing.limit(FlowLimits(topics=[parse_topic_rate(each) for each in elements]))
    return pacing


def test_without_limits_nothing_is_held_or_paced() -> None:
    pacing = FlowPacing(BATCH_S)
    assert pacing.give_out([[wanted("t")]], size, 0.0) is None
    came(pacing, wanted("t"), 1000)
    assert pacing.held_by("t", 0.0) is None
    assert pacing.next_s(0.0) == math.inf


def test_shards_divide_the_flow_s_limit_by_what_they_have_to_copy() -> None:
    pacing = of_flow(bytes=10 * MB, records=1000)
    began = 100.0
    shards = [[wanted("t", 0, 300)], [wanted("t", 1, 50), wanted("u", 0, 50)]]
    first = pacing.give_out(shards, size, began)
    assert first is not None
    # All that may come at first: half a second is made up for.
    assert sum(each.whole.bytes or 0 for each in first) == pytest.approx(12.5 * MB)
    assert sum(each.whole.records or 0 for each in first) == pytest.approx(1250)
    assert first[0].whole.bytes == pytest.approx(0.75 * 12.5 * MB, rel=0.01)


def test_what_came_too_much_is_waited_for() -> None:
    """A batch of records comes whole, however low the limit."""
    pacing, each = of_flow(bytes=0.1 * MB), wanted("t")
    pacing.give_out([[each]], size, 100.0)
    came(pacing, each, 1)
    assert pacing.held_by("t", 102.0) == FLOW_LIMIT
    assert pacing.next_s(102.0) == pytest.approx(7.5)
    assert pacing.held_by("t", 109.6) is None


def test_the_time_between_micro_batches_is_made_up_for() -> None:
    """Over many of them the flow has what its limit says."""
    pacing, each = of_flow(bytes=10 * MB), wanted("t")
    now, total = 100.0, 0.0
    for _ in range(50):
        given = pacing.give_out([[each]], size, now)
        assert given is not None
        rate = given[0].whole.bytes
        assert rate is not None
        came(pacing, each, rate * BATCH_S / MB)
        total += rate * BATCH_S
        now += BATCH_S + 0.3
        assert pacing.held_by("t", now) is None
    assert total / (now - 100.0) == pytest.approx(10 * MB, rel=0.01)


def test_what_was_not_used_long_ago_is_not_made_up_for() -> None:
    pacing, each = of_flow(bytes=10 * MB), wanted("t")
    pacing.give_out([[each]], size, 100.0)
    came(pacing, each, 1)
    later = pacing.give_out([[each]], size, 1000.0)
    assert later is not None
    assert later[0].whole.bytes == pytest.approx(12.5 * MB)


def test_a_topic_at_its_limit_holds_up_no_other() -> None:
    pacing = of_topics("slow=1MB/s", "few=10records/s")
    shards = [[wanted("slow", 0), wanted("slow", 1), wanted("free")], [wanted("slow", 2)]]
    given = pacing.give_out(shards, size, 100.0)
    assert given is not None
    assert [each.whole for each in given] == [RateLimit(), RateLimit()]
    # As much as each has of the topic's partitions.
    shares = [each.of_topic("slow").bytes for each in given]
    assert shares == [pytest.approx(1.25 * MB * 2 / 3), pytest.approx(1.25 * MB / 3)]
    assert [bool(each.of_topic("free")) for each in given] == [False, False]
    assert all(each.divided for each in given)
    came(pacing, wanted("slow", 0), 2)
    came(pacing, wanted("slow", 2), 1)
    assert pacing.held_by("slow", 102.0) == TOPIC_LIMIT
    assert pacing.held_by("free", 102.0) is None
    assert pacing.held_by("slow", 102.6) is None


def test_other_limits_begin_anew() -> None:
    """What was copied without a limit, or faster, is nothing that the next one has to wait for."""
    pacing, each = of_flow(bytes=0.1 * MB), wanted("t")
    pacing.give_out([[each]], size, 100.0)
    came(pacing, each, 10)
    assert pacing.held_by("t", 102.0) == FLOW_LIMIT
    pacing.limit(FlowLimits(RateLimit(bytes=MB)))
    assert pacing.held_by("t", 102.0) is None
    came(pacing, each, 10)  # of the micro-batch that was under way
    assert pacing.held_by("t", 102.0) is None
    pacing.limit(NO_LIMITS)
    assert pacing.give_out([[each]], size, 102.0) is None
