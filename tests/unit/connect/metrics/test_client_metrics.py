"""librdkafka's statistics under the names of Java's clients."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from connect.metrics.client_metrics import ClientStatistics
from connect.metrics.registry import MetricSample

TOTALS = {"rx_bytes": 500, "tx_bytes": 900, "rx": 5, "tx": 6}
BROKERS = {
    "b1": {"state": "UP", "rtt": {"avg": 3000, "cnt": 3}},
    "b2": {"state": "DOWN"},
    "b3": {"state": "UP", "rtt": {"avg": 1000, "cnt": 1}},
}


def samples_of(kind: Any, report: Mapping[str, Any]) -> list[MetricSample]:
    client = ClientStatistics(kind, "id")
    assert client.read() == []
    client.take(json.dumps(report))
    return client.read()


def test_a_producer() -> None:
    partitions = {"0": {"txmsgs": 4, "txbytes": 40}, "1": {"txmsgs": 3, "txbytes": 30}}
    client, topic = samples_of(
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
    assert topic == MetricSample(
        "producer-topic-metrics",
        {"client-id": "id", "topic": "t"},
        {"record-send-total": 7, "byte-total": 70},
    )


def test_a_consumer() -> None:
    partitions = {"-1": {"consumer_lag": -1}, "0": {"consumer_lag": 9}, "1": {"consumer_lag": -1}}
    client, fetching, partition = samples_of(
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
    assert partition.values == {"records-lag": 9}
