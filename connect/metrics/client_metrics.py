"""Metrics of the Kafka clients of record tasks, from librdkafka's statistics.

Kafka's groups `producer-metrics`, `producer-topic-metrics`, `producer-node-metrics`,
`consumer-metrics`, `consumer-node-metrics` and `consumer-fetch-manager-metrics`, with the
attributes that dashboards query. The client reports every few seconds; reports are parsed when
metrics are read.
"""

from __future__ import annotations

import json
import math
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from connect.metrics.catalogue import (
    CONSUMER_FETCH_GROUP,
    CONSUMER_GROUP,
    PRODUCER_GROUP,
    PRODUCER_TOPIC_GROUP,
)
from connect.metrics.registry import MetricSample

__all__ = ["ClientStatistics"]

# Shorter than the usual interval of Prometheus, and rare enough to cost nothing.
_INTERVAL_MS = 10_000


_NODE_TOTALS = {
    "incoming-byte-total": "rxbytes",
    "outgoing-byte-total": "txbytes",
    "request-total": "tx",
    "response-total": "rx",
}
"""librdkafka's names of a broker's totals."""
_RECENT = 3
"""Reports that a mean covers: 30 seconds, as in Java."""


class ClientStatistics:
    """The newest statistics of one client. Safe from any thread."""

    def __init__(self, kind: Literal["producer", "consumer"], client_id: str) -> None:
        self._kind = kind
        self._tags = {"client-id": client_id}
        # Only a consumer has a mean.
        self._reports: deque[str] = deque(maxlen=_RECENT if kind == "consumer" else 1)

    def overrides(self) -> dict[str, Any]:
        """Return librdkafka's properties that make a client report to this object."""
        return {"statistics.interval.ms": _INTERVAL_MS, "stats_cb": self.take}

    def take(self, report: str) -> None:
        """Take a report. Called while the client is polled."""
        self._reports.append(report)

    def read(self) -> list[MetricSample]:
        """Return the client's metrics; none before its first report."""
        reports = [json.loads(report) for report in tuple(self._reports)]
        if not reports:
            return []
        if self._kind == "producer":
            return self._producer(reports[-1])
        return self._consumer(reports[-1], [_lags(report) for report in reports])

    def _producer(self, found: Mapping[str, Any]) -> list[MetricSample]:
        buffered, limit = int(found["msg_size"]), int(found["msg_size_max"])
        values: dict[str, float] = {
            **_connections(found),
            "record-send-total": int(found["txmsgs"]),
            "request-latency-avg": _latency_ms(found),
            "buffer-total-bytes": limit,
            "buffer-available-bytes": max(0, limit - buffered),
        }
        samples = [MetricSample(PRODUCER_GROUP, self._tags, values), *self._nodes(found)]
        for topic, about in found["topics"].items():
            sent = {
                "record-send-total": _sum(about, "txmsgs"),
                "byte-total": _sum(about, "txbytes"),
            }
            samples.append(MetricSample(PRODUCER_TOPIC_GROUP, {**self._tags, "topic": topic}, sent))
        return samples

    def _consumer(
        self, found: Mapping[str, Any], recent: Sequence[Mapping[tuple[str, str], int]]
    ) -> list[MetricSample]:
        """Return a consumer's metrics. `recent`: lags by topic and partition, oldest first."""
        fetched: dict[str, float] = {
            "records-consumed-total": int(found["rxmsgs"]),
            "bytes-consumed-total": int(found["rxmsg_bytes"]),
            "fetch-latency-avg": _latency_ms(found),
        }
        samples = [
            MetricSample(CONSUMER_GROUP, self._tags, _connections(found)),
            MetricSample(CONSUMER_FETCH_GROUP, self._tags, fetched),
            *self._nodes(found),
        ]
        for key, lag in recent[-1].items():
            tags = {**self._tags, "topic": key[0], "partition": key[1]}
            lags = [each[key] for each in recent if key in each]
            values = {"records-lag": lag, "records-lag-avg": sum(lags) / len(lags)}
            samples.append(MetricSample(CONSUMER_FETCH_GROUP, tags, values))
        return samples

    def _nodes(self, found: Mapping[str, Any]) -> list[MetricSample]:
        """Return the bytes by broker. Several connections can lead to one: also the coordinator's
        has its id, and -1 stands for those of bootstrap.servers."""
        nodes: dict[int, dict[str, float]] = {}
        for broker in found["brokers"].values():
            node = nodes.setdefault(int(broker["nodeid"]), dict.fromkeys(_NODE_TOTALS, 0))
            for name, theirs in _NODE_TOTALS.items():
                node[name] += int(broker[theirs])
        group = f"{self._kind}-node-metrics"
        return [
            MetricSample(group, {**self._tags, "node-id": f"node-{number}"}, totals)
            for number, totals in nodes.items()
        ]


def _connections(found: Mapping[str, Any]) -> dict[str, float]:
    brokers = found["brokers"].values()
    return {
        "connection-count": sum(broker["state"] == "UP" for broker in brokers),
        "incoming-byte-total": int(found["rx_bytes"]),
        "outgoing-byte-total": int(found["tx_bytes"]),
        "request-total": int(found["tx"]),
        "response-total": int(found["rx"]),
    }


def _lags(found: Mapping[str, Any]) -> dict[tuple[str, str], int]:
    return {
        (topic, partition): int(state["consumer_lag"])
        for topic, about in found["topics"].items()
        for partition, state in about["partitions"].items()
        # -1 is librdkafka's own queue; a lag of -1 is not known.
        if int(partition) >= 0 and int(state["consumer_lag"]) >= 0
    }


def _sum(topic: Mapping[str, Any], name: str) -> int:
    return sum(int(partition[name]) for partition in topic["partitions"].values())


def _latency_ms(found: Mapping[str, Any]) -> float:
    """Return the mean round trip of the last interval's requests, nearly all of them fetches or
    writes of records; NaN if there was none."""
    trips = [broker["rtt"] for broker in found["brokers"].values() if "rtt" in broker]
    count = sum(int(trip["cnt"]) for trip in trips)
    if not count:
        return math.nan
    return sum(int(trip["avg"]) * int(trip["cnt"]) for trip in trips) / count / 1000
