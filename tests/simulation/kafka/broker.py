"""A simulated broker: takes requests from connections, and answers Produce and Fetch.

What the logs hold, and who leads, belongs to the `Cluster`.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from connect.protocol.batches import ATTRIBUTES_AT
from tests.simulation.kafka.appending import append
from tests.simulation.kafka.fetching import FetchSessions, WaitingFetch
from tests.simulation.kafka.network import Connection
from tests.simulation.kafka.wire_format import (
    FetchedPart,
    FetchRequest,
    Key,
    ProducedPart,
    encode_fetched,
    encode_produced,
    parse_fetch_request,
    parse_header,
    parse_produce_request,
)

if TYPE_CHECKING:
    from tests.simulation.kafka.cluster import Cluster

__all__ = ["Broker", "BrokerFaults"]

PRODUCE, FETCH = 0, 1
REQUEST_TIMED_OUT = 7


@dataclass(slots=True)
class BrokerFaults:
    """Probabilities of what befalls requests at the brokers of one cluster."""

    refuse: float = 0.0
    """A batch is refused before it is appended."""
    late: float = 0.0
    """A batch is appended, and its replication takes a while or fails."""
    fetch_error: float = 0.0
    """A partition is answered with an error."""
    corrupt: float = 0.0
    """A byte of the fetched records is wrong."""
    throttle: float = 0.0
    """A quota asks the client for a pause."""
    evict_session: float = 0.0
    """The broker has forgotten the fetch session."""
    no_sessions: bool = False


class Broker:
    """See the module."""

    def __init__(self, cluster: Cluster, node_id: int) -> None:
        self.cluster = cluster
        self.node_id = node_id
        self.up = True
        self.connections: dict[Connection, None] = {}
        self._sessions = FetchSessions()
        self._waiting: dict[WaitingFetch, None] = {}

    @property
    def rng(self) -> random.Random:
        return self.cluster.rng

    def stop(self) -> None:
        """Die: connections are reset, sessions and waiting fetches are gone."""
        self.up = False
        self._sessions = FetchSessions()
        self._waiting.clear()
        for connection in list(self.connections):
            connection.cut(lose_sent=True, told_after=0.05 * self.rng.random())

    # What connections call.

    def request(self, connection: Connection, frame: memoryview) -> None:
        self.connections[connection] = None
        if not self.up:
            return
        api, version, correlation, at = parse_header(frame)
        if api == PRODUCE:
            self._produce(connection, correlation, frame, at)
        elif api == FETCH:
            request = parse_fetch_request(frame, at, version)
            self._fetch(connection, correlation, request)
        else:
            raise AssertionError(f"the copier sent a request of api {api}")

    def disconnected(self, connection: Connection) -> None:
        self.connections.pop(connection, None)
        for fetch in [each for each in self._waiting if each.connection is connection]:
            del self._waiting[fetch]

    def _throttle_ms(self, connection: Connection) -> int:
        if self.rng.random() >= self.cluster.faults.throttle:
            return 0
        milliseconds = self.rng.randrange(1, 400)
        connection.muted_until = self.cluster.time.monotonic() + milliseconds / 1000
        return milliseconds

    # Produce.

    def _produce(
        self, connection: Connection, correlation: int, frame: memoryview, at: int
    ) -> None:
        request = parse_produce_request(frame, at)
        parts: list[ProducedPart] = []
        left = len(request.batches)

        def answer_with(key: Key) -> Callable[[int, int], None]:
            def decided(error: int, base: int) -> None:
                nonlocal left
                partition = self.cluster.find(key)
                start = partition.log.start if partition else -1
                parts.append(ProducedPart(key, error, -1 if error else base, start))
                left -= 1
                if not left:
                    throttle = self._throttle_ms(connection)
                    connection.respond(
                        encode_produced(correlation, parts, throttle),
                        lambda: self.cluster.on_answered(connection, correlation, parts),
                    )

            return decided

        transactional = request.transactional_id is not None
        for key, batch in request.batches.items():
            append(self, key, bytes(batch), request.timeout_ms, transactional, answer_with(key))

    # Fetch.

    def _fetch(self, connection: Connection, correlation: int, request: FetchRequest) -> None:
        faults = self.cluster.faults
        evicted = bool(faults.evict_session) and self.rng.random() < faults.evict_session
        error, session = self._sessions.open(request, evicted, faults.no_sessions)
        if error or session is None:
            connection.respond(encode_fetched(correlation, [], 0, error, 0, by_id=request.by_id))
            return
        fetch = WaitingFetch(self, connection, correlation, request, session)
        self._waiting[fetch] = None
        self._complete(fetch, timed_out=request.max_wait_ms <= 0)
        if fetch in self._waiting:
            wait = max(request.max_wait_ms / 1000, self.cluster.shortest_wait_s)
            self.cluster.time.after(wait, lambda: self._complete(fetch, timed_out=True))

    def look_again(self) -> None:
        """Something changed that fetches may wait for."""
        for fetch in list(self._waiting):
            self._complete(fetch, timed_out=False)

    def _complete(self, fetch: WaitingFetch, *, timed_out: bool) -> None:
        if fetch not in self._waiting or not self.up:
            return
        parts = fetch.read(timed_out=timed_out)
        if parts is None:
            return
        del self._waiting[fetch]
        if self.cluster.faults.corrupt:
            parts = [self._maybe_corrupt(part) for part in parts]
        throttle = self._throttle_ms(fetch.connection)
        self.cluster.on_fetched(fetch.connection, parts)
        fetch.connection.respond(
            encode_fetched(
                fetch.correlation, parts, throttle, 0, fetch.session.id, by_id=fetch.by_id
            )
        )

    def _maybe_corrupt(self, part: FetchedPart) -> FetchedPart:
        """Change one byte that the first batch's CRC covers."""
        rng = self.rng
        size = len(part.records)
        if size <= ATTRIBUTES_AT + 1 or rng.random() >= self.cluster.faults.corrupt:
            return part
        (length,) = (int.from_bytes(part.records[8:12], "big"),)
        end = min(size, length + 12)
        if end <= 61:
            return part
        at = rng.randrange(61, end)
        changed = bytearray(part.records)
        changed[at] ^= 1 << rng.randrange(8)
        return part._replace(records=bytes(changed))
