"""Metrics of the Kafka clients of record tasks, from librdkafka's statistics.

Kafka's groups `producer-metrics`, `producer-topic-metrics`, `consumer-metrics` and
`consumer-fetch-manager-metrics`, with the attributes that dashboards query. The client reports
every few seconds; the report is parsed when metrics are read.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Literal

from connect.metrics.catalogue import CONSUMER_FETCH_GROUP, CONSUMER_GROUP, PRODUCER_GROUP
from connect.metrics.registry import MetricSample

__all__ = ["ClientStatistics"]

# Shorter than the usual interval of Prometheus, and rare enough to cost nothing.
_INTERVAL_MS = 10_000
_PRODUCER_TOPIC_GROUP = "producer-topic-metrics"


class ClientStatistics:
    """The newest statistics of one client. Safe from any thread."""

    def __init__(self, kind: Literal["producer", "consumer"], client_id: str) -> None:
        self._kind = kind
        self._tags = {"client-id": client_id}
        self._report = ""

    def overrides(self) -> dict[str, Any]:
        """Return librdkafka's properties that make a client report to this object."""
        return {"statistics.interval.ms": _INTERVAL_MS, "stats_cb": self.take}

    def take(self, report: str) -> None:
        """Take a report. Called while the client is polled."""
        self._report = report

    def read(self) -> list[MetricSample]:
        """Return the client's metrics; none before its first report."""
        if not self._report:
            return []
        found = json.loads(self._report)
        return self._producer(found) if self._kind == "producer" else self._consumer(found)

    def _producer(self, found: Mapping[str, Any]) -> list[MetricSample]:
        buffered, limit = int(found["msg_size"]), int(found["msg_size_max"])
        values = {
            **_connections(found),
            "record-send-total": int(found["txmsgs"]),
            "buffer-total-bytes": limit,
            "buffer-available-bytes": max(0, limit - buffered),
        }
        samples = [MetricSample(PRODUCER_GROUP, self._tags, values)]
        for topic, about in found["topics"].items():
            sent = {
                "record-send-total": _sum(about, "txmsgs"),
                "byte-total": _sum(about, "txbytes"),
            }
            samples.append(
                MetricSample(_PRODUCER_TOPIC_GROUP, {**self._tags, "topic": topic}, sent)
            )
        return samples

    def _consumer(self, found: Mapping[str, Any]) -> list[MetricSample]:
        fetched: dict[str, float] = {
            "records-consumed-total": int(found["rxmsgs"]),
            "bytes-consumed-total": int(found["rxmsg_bytes"]),
        }
        latency = _latency_ms(found)
        if latency is not None:
            fetched["fetch-latency-avg"] = latency
        samples = [
            MetricSample(CONSUMER_GROUP, self._tags, _connections(found)),
            MetricSample(CONSUMER_FETCH_GROUP, self._tags, fetched),
        ]
        for topic, about in found["topics"].items():
            for partition, state in about["partitions"].items():
                # -1 is librdkafka's own queue; a lag of -1 is not known.
                if int(partition) >= 0 and int(state["consumer_lag"]) >= 0:
                    tags = {**self._tags, "topic": topic, "partition": partition}
                    lag = {"records-lag": int(state["consumer_lag"])}
                    samples.append(MetricSample(CONSUMER_FETCH_GROUP, tags, lag))
        return samples


def _connections(found: Mapping[str, Any]) -> dict[str, float]:
    brokers = found["brokers"].values()
    return {
        "connection-count": sum(broker["state"] == "UP" for broker in brokers),
        "incoming-byte-total": int(found["rx_bytes"]),
        "outgoing-byte-total": int(found["tx_bytes"]),
        "request-total": int(found["tx"]),
        "response-total": int(found["rx"]),
    }


def _sum(topic: Mapping[str, Any], name: str) -> int:
    return sum(int(partition[name]) for partition in topic["partitions"].values())


def _latency_ms(found: Mapping[str, Any]) -> float | None:
    """Return the mean round trip of the last interval's requests, nearly all of them fetches."""
    trips = [broker["rtt"] for broker in found["brokers"].values() if "rtt" in broker]
    count = sum(int(trip["cnt"]) for trip in trips)
    if not count:
        return None
    return sum(int(trip["avg"]) * int(trip["cnt"]) for trip in trips) / count / 1000
