"""The shares of shards in flight never exceed the limit, and over time it is used."""

from __future__ import annotations

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from connectors.mirror.config.rates import NO_LIMITS, FlowLimits, RateLimit, parse_topic_rate
from connectors.mirror.copy.range_copier import RangeProgress, SourceRange
from connectors.mirror.copy.rate_limiter import BURST_S
from connectors.mirror.copy.rate_shares import FlowShares, RateShares, Share
from connectors.mirror.copy.throttle import FLOW_LIMIT, TOPIC_LIMIT

SHARD_S = 2.0
MB = 1_000_000


def came(topic: str, megabytes: float, records: int = 0) -> list[RangeProgress]:
    wanted = SourceRange((topic, 0), (f"A.{topic}", 0), 0, 100)
    return [RangeProgress(wanted, 100, int(megabytes * MB), 0, None, records)]


def of_flow(**limit: float) -> FlowShares:
    shares = FlowShares()
    shares.limit(FlowLimits(RateLimit(**limit)), 100.0)
    return shares


def of_topics(*elements: str) -> FlowShares:
    shares = FlowShares()
    shares.limit(FlowLimits(topics=[parse_topic_rate(each) for each in elements]), 100.0)
    return shares


@given(
    limit=st.floats(1.0, 1e9),
    slots=st.integers(1, 200),
    burst_s=st.sampled_from([0.0, BURST_S]),
    seed=st.integers(0, 1000),
)
def test_the_limit_is_kept_at_any_time_and_no_share_is_tiny(
    limit: float, slots: int, burst_s: float, seed: int
) -> None:
    shares, draw = RateShares(limit, 0.0, burst_s), random.Random(seed)
    now = copied = 0.0
    under_way: list[Share] = []
    for _ in range(300):
        share = shares.take(slots - len(under_way), now) if len(under_way) < slots else None
        if share is not None:
            assert share.rate >= 0.01 * limit * (1 - 1e-6)
            under_way.append(share)
            assert sum(each.rate for each in under_way) <= limit * (1 + 1e-9)
            continue
        now += draw.choice([0.01, 0.1, 1.0])
        if under_way:
            ended = under_way.pop(draw.randrange(len(under_way)))
            allowed = ended.extra + ended.rate * (now - ended.since)
            amount = draw.choice([0.0, 0.5, 1.0]) * allowed
            copied += amount
            assert copied <= limit * (now + burst_s) * (1 + 1e-6)
            shares.give_back(ended, amount, now)


def test_more_than_a_share_is_waited_for() -> None:
    """A batch of records comes whole, however low the limit."""
    shares = RateShares(100.0, 0.0, burst_s=0.0)
    share = shares.take(1, 0.0)
    assert share is not None
    shares.give_back(share, 1000.0, 2.0)
    assert shares.wait_s(2.0) == pytest.approx(8.0)
    assert shares.take(1, 9.9) is None
    assert shares.take(1, 10.1) is not None


def test_one_who_has_it_all_is_waited_for() -> None:
    shares = RateShares(100.0, 0.0)
    share = shares.take(1, 0.0)
    assert share is not None
    assert shares.wait_s(1.0) == math.inf
    assert shares.take(1, 1.0) is None
    shares.give_back(share, 0.0, 1.0)
    assert shares.wait_s(1.0) == 0.0


def test_without_limits_nothing_is_held_or_paced() -> None:
    shares = FlowShares()
    assert shares.take(["t"], 2, SHARD_S, 0.0) is None
    assert shares.held_by("t", 0.0) is None
    assert shares.next_s(0.0) == math.inf


def test_shards_that_may_go_out_now_divide_the_flow_s_limit() -> None:
    shares = of_flow(bytes=10 * MB, records=1000)
    first = shares.take(["t", "t"], 2, SHARD_S, 100.0)
    second = shares.take(["u"], 1, SHARD_S, 100.0)
    assert first is not None
    assert second is not None
    for pace in (first, second):
        # Half a second is made up for.
        assert pace.limits.whole.bytes == pytest.approx(5 * MB * (1 + 0.5 / SHARD_S))
        assert pace.limits.whole.records == pytest.approx(500 * (1 + 0.5 / SHARD_S))
    assert shares.held_by("t", 100.0) == FLOW_LIMIT
    shares.give_back(first, came("t", 10), 102.0)
    third = shares.take(["t"], 1, SHARD_S, 102.0)
    assert third is not None
    assert third.limits.whole.bytes == pytest.approx(5 * MB, rel=0.3)


def test_the_time_between_shards_is_made_up_for() -> None:
    """Over many of them the flow has what its limit says."""
    shares, now, total = of_flow(bytes=10 * MB), 100.0, 0.0
    for _ in range(50):
        pace = shares.take(["t"], 1, SHARD_S, now)
        assert pace is not None
        rate = pace.limits.whole.bytes
        assert rate is not None
        total += rate * SHARD_S
        now += SHARD_S
        shares.give_back(pace, came("t", rate * SHARD_S / MB), now)
        now += 0.3
        assert shares.held_by("t", now) is None
    assert total / (now - 100.0) == pytest.approx(10 * MB, rel=0.01)


def test_a_topic_at_its_limit_holds_up_no_other_and_is_in_one_shard_at_a_time() -> None:
    shares = of_topics("slow=1MB/s", "few=10records/s")
    pace = shares.take(["slow", "slow", "free"], 4, SHARD_S, 100.0)
    assert pace is not None
    assert pace.limits.divided
    assert pace.limits.whole == RateLimit()
    assert pace.limits.of_topic("slow").bytes == pytest.approx(1.25 * MB)
    assert not pace.limits.of_topic("free")
    assert shares.held_by("slow", 100.0) == TOPIC_LIMIT
    assert shares.held_by("few", 100.0) is None
    assert shares.held_by("free", 100.0) is None
    shares.give_back(pace, [*came("slow", 3), *came("free", 100)], 102.0)
    assert shares.held_by("slow", 102.0) == TOPIC_LIMIT
    assert shares.next_s(102.0) == pytest.approx(0.5)
    assert shares.held_by("slow", 102.6) is None


def test_other_limits_begin_anew() -> None:
    """What was copied without a limit, or faster, is nothing that the next one has to wait for."""
    shares = of_flow(bytes=0.1 * MB)
    pace = shares.take(["t"], 1, SHARD_S, 100.0)
    assert pace is not None
    shares.limit(FlowLimits(RateLimit(bytes=MB)), 101.0)
    assert shares.held_by("t", 101.0) is None
    shares.give_back(pace, came("t", 10), 102.0)  # of the shard that was under way
    assert shares.held_by("t", 102.0) is None
    shares.limit(NO_LIMITS, 102.0)
    assert shares.take(["t"], 1, SHARD_S, 102.0) is None
