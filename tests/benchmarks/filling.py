"""Fills a topic with given batches as fast as the broker takes them.

A client library makes batches of its own choice and one-record batches slowly (librdkafka: 7,000
per second here). This sends the batches as they are: one for each partition in a request, many
requests on their way.
"""

from __future__ import annotations

from connect.clients.wire.channel import BufferPool, Channel, Response
from connect.clients.wire.connection import open_connection
from connect.clients.wire.selector_loop import SelectorLoop
from connect.clock import Deadline
from connect.errors import BrokerError, DeadlineExceeded
from connect.protocol.messages import (
    PRODUCE_API,
    PRODUCE_VERSION,
    encode_produce,
    parse_produce,
)
from tests.benchmarks.payloads import Payload
from tests.support.copier.copying import wire

__all__ = ["fill"]

_REQUEST_BYTES = 1024 * 1024
_IN_FLIGHT = 16
_TIMEOUT_MS = 30_000
_TURN_S = 1.0


class _Filling:
    """One connection to the only broker of a cluster, and the requests on their way."""

    def __init__(self, servers: str, deadline: Deadline) -> None:
        settings = wire(servers)
        (host, port) = settings.bootstrap[0]
        self._loop = SelectorLoop()
        connection = open_connection(host, port, settings, deadline)
        self._channel = Channel(connection, settings.client_id, BufferPool(0))
        self._loop.watch(self._channel, self._on_event)
        self._deadline = deadline
        self._error: BrokerError | None = None

    def _on_event(self, _mask: int) -> None:
        self._channel.receive()
        self._channel.flush()
        self._loop.update(self._channel)

    def send(self, topic: str, batches: dict[int, bytes]) -> None:
        """Send one batch for each partition; waits while too many requests are on their way."""
        self._wait_below(_IN_FLIGHT)
        wanted = {(topic, number): memoryview(batch) for number, batch in batches.items()}
        body, size = encode_produce(wanted, _TIMEOUT_MS)
        limit = self._loop.now() + _TIMEOUT_MS / 1000
        self._channel.send(PRODUCE_API, PRODUCE_VERSION, body, size, limit, self._answered)
        self._loop.update(self._channel)

    def finish(self) -> None:
        """Wait until everything is acknowledged."""
        self._wait_below(1)

    def _wait_below(self, in_flight: int) -> None:
        while self._channel.in_flight >= in_flight:
            if self._deadline.expired():
                raise DeadlineExceeded("The topic was not filled in time")
            self._loop.turn(min(_TURN_S, self._deadline.remaining()))
            if self._error is not None:
                raise self._error

    def _answered(self, response: Response) -> None:
        for part in parse_produce(response.body)[0]:
            if part.error:
                text = f"{part.topic}-{part.partition} refused a batch: error {part.error}"
                self._error = BrokerError(text, part.error)

    def close(self) -> None:
        self._loop.unwatch(self._channel)
        self._channel.close()
        self._loop.close()


def fill(
    servers: str, topic: str, partitions: int, payload: Payload, records: int, timeout_s: float
) -> int:
    """Write about `records` records, the same number of batches to every partition of a topic on a
    cluster of one broker. Returns how many records it became.

    Raises `BrokerError` for what the broker refuses, and `DeadlineExceeded`.
    """
    rounds = max(1, round(records / payload.batch_records / partitions))
    at_once = max(1, min(partitions, int(_REQUEST_BYTES / payload.batch_bytes)))
    filling = _Filling(servers, Deadline(timeout_s))
    sent = 0
    try:
        for _ in range(rounds):
            for first in range(0, partitions, at_once):
                numbers = range(first, min(first + at_once, partitions))
                filling.send(
                    topic,
                    {n: payload.batches[(sent + n) % len(payload.batches)] for n in numbers},
                )
                sent += len(numbers)
        filling.finish()
    finally:
        filling.close()
    return rounds * partitions * payload.batch_records
