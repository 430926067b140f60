"""Metrics of the Kafka clients of transfer tasks, under the names of Java's consumer and producer.

Their engine fetches and produces over connections of its own, so there is no client library whose
statistics could be read, as `client_metrics` does for record tasks.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple, Protocol

from connect.metrics.catalogue import CONSUMER_FETCH_GROUP, CONSUMER_GROUP, PRODUCER_GROUP
from connect.metrics.registry import MetricSample

__all__ = ["ClientFigures", "SideFigures"]


class Connection(Protocol):
    """An engine's connection to one broker, which is opened again when it was lost."""

    node_id: int

    @property
    def connected(self) -> bool: ...

    @property
    def bytes(self) -> tuple[int, int]:
        """Bytes read from the broker and sent to it so far."""


class SideFigures(NamedTuple):
    """One cluster's brokers. `answer_ms`: mean time lately from a request to its answer; NaN: there
    was none. `bytes`: read from and sent to each broker."""

    connections: int
    answer_ms: float
    bytes: Mapping[int, tuple[int, int]]

    @classmethod
    def of(cls, nodes: Iterable[Connection], answer_ms: float) -> SideFigures:
        """Several connections may lead to one broker."""
        connections, by_broker = 0, dict[int, tuple[int, int]]()
        for node in nodes:
            connections += node.connected
            read, sent = by_broker.get(node.node_id, (0, 0))
            more_read, more_sent = node.bytes
            by_broker[node.node_id] = (read + more_read, sent + more_sent)
        return cls(connections, answer_ms, by_broker)

    def client(self) -> dict[str, float]:
        return {
            "connection-count": self.connections,
            "incoming-byte-total": sum(read for read, _ in self.bytes.values()),
            "outgoing-byte-total": sum(sent for _, sent in self.bytes.values()),
        }

    def nodes(self, group: str, tags: Mapping[str, str]) -> Iterator[MetricSample]:
        for number, (read, sent) in self.bytes.items():
            values = {"incoming-byte-total": read, "outgoing-byte-total": sent}
            yield MetricSample(group, {**tags, "node-id": f"node-{number}"}, values)


class ClientFigures(NamedTuple):
    """What an engine's clients use, and how fast brokers answer.

    `buffer_used`: bytes that were fetched and are not acknowledged yet; `buffer_limit`: how many
    may be."""

    buffer_used: int
    buffer_limit: int
    source: SideFigures
    target: SideFigures

    def samples(self, consumer_id: str, producer_id: str, sent: int) -> Iterator[MetricSample]:
        """Return the metrics of a consumer and a producer with these client IDs. `sent`:
        acknowledged records."""
        consumer, producer = {"client-id": consumer_id}, {"client-id": producer_id}
        yield MetricSample(CONSUMER_GROUP, consumer, self.source.client())
        latency = {"fetch-latency-avg": self.source.answer_ms}
        yield MetricSample(CONSUMER_FETCH_GROUP, consumer, latency)
        yield from self.source.nodes("consumer-node-metrics", consumer)
        values = {
            **self.target.client(),
            "record-send-total": sent,
            "request-latency-avg": self.target.answer_ms,
            "buffer-total-bytes": self.buffer_limit,
            "buffer-available-bytes": max(0, self.buffer_limit - self.buffer_used),
        }
        yield MetricSample(PRODUCER_GROUP, producer, values)
        yield from self.target.nodes("producer-node-metrics", producer)
