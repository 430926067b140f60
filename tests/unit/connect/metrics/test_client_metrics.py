"""librdkafka's statistics under the names of Java's clients."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from connect.metrics.client_metrics import ClientStatistics
from connect.metrics.registry import MetricSample

TOTALS = {"rx_bytes": 500, "tx_bytes": 900, "rx": 5, "tx": 6}
BYTES = {"rxbytes": 10, "txbytes": 20, "rx": 1, "tx": 2}
BROKERS = {
    "b1": {"nodeid": 1, "state": "UP", "rtt": {"avg": 3000, "cnt": 3}, **BYTES},
    "b2": {"nodeid": -1, "state": "DOWN", **dict.fromkeys(BYTES, 0)},
    # The coordinator, which is also a broker of the topic.
    "b3": {"nodeid": 1, "state": "UP", "rtt": {"avg": 1000, "cnt": 1}, **BYTES},
}
NODES = ("node-1", "node--1")


def samples_of(kind: Any, *reports: Mapping[str, Any]) -> list[MetricSample]:
    client = ClientStatistics(kind, "id")
    assert client.read() == []
    for report in reports:
        client.take(json.dumps(report))
    return client.read()


def assert_nodes(kind: str, found: Sequence[MetricSample]) -> None:
    assert [(each.group, each.tags) for each in found] == [
        (f"{kind}-node-metrics", {"client-id": "id", "node-id": node}) for node in NODES
    ]
    of_one = {"incoming-byte-total": 20, "outgoing-byte-total": 40}
    assert {key: found[0].values[key] for key in of_one} == of_one
    assert not any(found[1].values.values())


def test_a_producer() -> None:
    partitions = {"0": {"txmsgs": 4, "txbytes": 40}, "1": {"txmsgs": 3, "txbytes": 30}}
    client, *nodes, topic = samples_of(
        "producer",
        {
            **TOTALS,
            "txmsgs": 7,
            "msg_size": 100,
            "msg_size_max": 1000,
            "brokers": BROKERS,
            "topics": {"t": {"partitions": partitions}},
        },
    )
    assert (client.group, client.tags) == ("producer-metrics", {"client-id": "id"})
    assert client.values["connection-count"] == 2
    assert client.values["outgoing-byte-total"] == 900
    assert client.values["buffer-available-bytes"] == 900
    assert client.values["request-latency-avg"] == pytest.approx(2.5)
    assert_nodes("producer", nodes)
    assert topic == MetricSample(
        "producer-topic-metrics",
        {"client-id": "id", "topic": "t"},
        {"record-send-total": 7, "byte-total": 70},
    )


def test_a_consumer() -> None:
    partitions = {"-1": {"consumer_lag": -1}, "0": {"consumer_lag": 9}, "1": {"consumer_lag": -1}}
    client, fetching, *nodes, partition = samples_of(
        "consumer",
        {
            **TOTALS,
            "rxmsgs": 8,
            "rxmsg_bytes": 80,
            "brokers": BROKERS,
            "topics": {"t": {"partitions": partitions}},
        },
    )
    assert (client.group, client.values["incoming-byte-total"]) == ("consumer-metrics", 500)
    assert fetching.values["records-consumed-total"] == 8
    assert fetching.values["fetch-latency-avg"] == pytest.approx(2.5)
    assert partition.tags == {"client-id": "id", "topic": "t", "partition": "0"}
    assert partition.values == {"records-lag": 9, "records-lag-avg": 9}
    assert_nodes("consumer", nodes)


def test_a_lag_is_the_newest_and_its_mean_that_of_the_last_three_reports() -> None:
    reports = [
        {
            **TOTALS,
            "rxmsgs": 8,
            "rxmsg_bytes": 80,
            "brokers": {},
            "topics": {"t": {"partitions": {"0": {"consumer_lag": lag}}}},
        }
        for lag in (99, 30, 20, 10)
    ]
    _, fetching, partition = samples_of("consumer", *reports)
    assert partition.values == {"records-lag": 10, "records-lag-avg": 20}
    latency = fetching.values["fetch-latency-avg"]
    assert isinstance(latency, float)
    assert math.isnan(latency), "no broker was asked lately"
