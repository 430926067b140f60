"""The demo's small parts: events, comparing, reading the mirror's page, its words."""

from __future__ import annotations

import io
import json
import os
import random

import pytest

from connect.config.properties import parse_properties
from connect.errors import ConfigError
from connect.metrics.exposition import render
from connect.metrics.naming import Family
from connect.metrics.registry import MetricRegistry
from connectors.mirror.metrics import PartitionMetrics
from deploy.demo.__main__ import demo_seconds
from deploy.demo.checking import nearly_in_sync
from deploy.demo.comparing import Comparison, Content, compare_records, latest_by_key
from deploy.demo.events import TOPICS, backlog_share
from deploy.demo.latency import percentile
from deploy.demo.mirror import ProcessCost, mm2_properties, parse_lag, process_cost
from deploy.demo.progress import PartitionEnds, TopicRow
from deploy.demo.summary import BacklogRun, Summary
from deploy.demo.view import PlainView, make_view
from tests.support.fake_clock import FakeClock
from tests.support.flows.partition_metrics import show


def record(value: bytes, key: bytes | None = None) -> Content:
    return Content(key, value, 0, ())


@pytest.mark.parametrize("topic", TOPICS, ids=lambda topic: topic.name)
def test_events_are_json_and_no_two_are_equal(topic) -> None:  # type: ignore[no-untyped-def]
    dice = random.Random(1)
    events = [topic.make(number, dice) for number in range(200)]

    assert len({value for _, value in events}) == 200
    assert all(isinstance(json.loads(value), dict) for _, value in events)


def test_records_are_compared_as_far_as_both_reach() -> None:
    source = [record(b"%d" % n) for n in range(5)]

    assert compare_records("t-0", source, source[:3]) == Comparison(3)
    assert compare_records("t-0", source, source[2:], from_end=True) == Comparison(3)
    assert compare_records("t-0", [], source) == Comparison(0)


def test_the_first_difference_is_told() -> None:
    result = compare_records("t-0", [record(b"a"), record(b"b")], [record(b"a"), record(b"x")])

    assert result.equal == 1
    assert result.different is not None
    assert result.different.startswith("t-0:")


def test_of_a_compacted_topic_the_last_record_of_each_key_counts() -> None:
    records = [record(b"1", b"k"), record(b"2", b"j"), record(b"3", b"k")]

    assert latest_by_key(records) == {b"k": records[2], b"j": records[1]}


def test_the_properties_file_is_one_and_has_both_clusters() -> None:
    props = parse_properties(mm2_properties("h:1", "h:2", "http://h:3"))

    assert props["clusters"] == "paris, tokyo"
    assert props["paris.bootstrap.servers"] == "h:1"
    assert props["paris->tokyo.enabled"] == "true"
    assert props["metrics.listener"] == "http://h:3"


def test_lag_is_read_from_our_own_page() -> None:
    registry = MetricRegistry()
    for partition, lag in enumerate((7, None, 0)):
        metrics = PartitionMetrics("paris", "tokyo", "paris.orders.eu", partition)
        metrics.set_lag(lag, None)
        show(registry, metrics)
    page = "".join(render(registry.collect(), (Family.A,)))

    assert parse_lag(page) == {("orders.eu", 0): 7, ("orders.eu", 2): 0}


def test_the_cost_of_a_process() -> None:
    cost = process_cost(os.getpid())

    assert cost is not None
    assert cost.cpu_s > 0
    assert cost.rss_bytes > 1_000_000
    assert process_cost(2**22 + 1) is None


@pytest.mark.parametrize(("text", "seconds"), [(None, None), ("", None), ("1.5", 1.5), ("60", 60)])
def test_demo_seconds(text: str | None, seconds: float | None) -> None:
    assert demo_seconds(text) == seconds


@pytest.mark.parametrize("text", ["0", "-1", "soon", "nan", "inf"])
def test_a_wrong_demo_seconds_is_named(text: str) -> None:
    with pytest.raises(ConfigError, match=f"Invalid value {text} for DEMO_SECONDS"):
        demo_seconds(text)


@pytest.mark.parametrize(("text", "share"), [(None, 1.0), ("", 1.0), ("0.2", 0.2), ("1", 1.0)])
def test_demo_backlog(text: str | None, share: float) -> None:
    assert backlog_share(text) == share


@pytest.mark.parametrize("text", ["0", "-1", "1.5", "much", "nan"])
def test_a_wrong_demo_backlog_is_named(text: str) -> None:
    with pytest.raises(ConfigError, match=f"Invalid value {text} for DEMO_BACKLOG"):
        backlog_share(text)


def all_ends(lag: int, behind_ms: int) -> dict[tuple[str, int], PartitionEnds]:
    return {
        key: PartitionEnds(10_000, 10_000 - lag, 10_000, 10_000 - behind_ms)
        for topic in TOPICS
        for key in topic.partition_keys
    }


def test_it_is_worth_looking_only_when_offsets_and_times_are_near() -> None:
    assert nearly_in_sync(TOPICS, all_ends(5, 10))
    assert not nearly_in_sync(TOPICS, all_ends(9_000, 10))
    assert not nearly_in_sync(TOPICS, all_ends(5, 5_000))
    assert not nearly_in_sync(TOPICS, all_ends(10_000, 10))


def test_percentiles() -> None:
    assert [percentile(list(range(100)), share) for share in (0.5, 0.99, 1.0)] == [50, 99, 99]
    assert percentile([3], 0.5) == 3


def test_the_summary_says_what_was_measured_and_what_was_equal() -> None:
    run = BacklogRun(1.0, 3.0, 0, 200_000, 0.0, 40e6, ProcessCost(1.0, 0), ProcessCost(1.1, 0))
    summary = Summary(
        250_000, 50e6, 30.0, 90e6, run, ProcessCost(1.5, 80_000_000), [1, 2, 9], Comparison(7), 0
    )
    text = "\n".join(summary.lines())

    for words in (
        "250,000 records", "50.0 MB", "90 MB/s", "100,000 records/s", "20 MB/s", "0.50 µs",
        "1.5 s of CPU", "80 MB", "p50 2 ms, p99 9 ms", "7 equal, none different",
    ):  # fmt: skip
        assert words in text
    assert summary.problem is None


def test_a_difference_and_an_unclean_end_are_problems() -> None:
    def summary(comparison: Comparison | None, status: int) -> Summary:
        return Summary(0, 0, 0, 0, BacklogRun(), None, [], comparison, status)

    assert summary(None, 0).problem is None
    assert "differs from its source" in str(summary(Comparison(1, "t-0: a became b"), 0).problem)
    assert "status 143" in str(summary(None, 143).problem)


def test_without_a_terminal_there_are_lines_now_and_then() -> None:
    out, clock = io.StringIO(), FakeClock()
    view = PlainView(out, clock)
    row = TopicRow(TOPICS[0], 1_000, 990, 10, 0.2, 50.0, 2_500_000.0)
    for done in range(101):
        view.bar("Fetching", done, 100, "MB")
    for _ in range(100):
        view.topics([row], "10 s")
        clock.advance(0.1)

    lines = out.getvalue().splitlines()
    assert [line for line in lines if line.startswith("Fetching")] == [
        f"Fetching: {done} of 100 MB ({done} %)" for done in range(0, 101, 20)
    ]
    assert lines.count("10 s") == 2
    assert "  orders: source end 1,000, target end 990, lag 10 records / 0.2 s, 2.5 MB/s" in lines
    assert isinstance(make_view(out), PlainView)
