"""A target cluster that does what a test says: two brokers at the far ends of socket pairs.

It follows Kafka's rules for idempotent producers: per partition and producer the last sequence
number and the last five batches are known; the same batch again is a duplicate, answered with its
first offset; another sequence number than the next is out of order; and a producer that the broker
knows nothing of may begin anywhere.
"""

from __future__ import annotations

import enum
import socket
import struct
from collections import defaultdict, deque
from collections.abc import Iterable
from concurrent.futures import Future
from dataclasses import dataclass, field
from types import MappingProxyType

from connect.clients.cluster.metadata import ClusterSnapshot
from connect.clients.wire.connection import WireConnection
from connect.protocol.batches import crc_matches, read_headers
from connect.protocol.messages import PRODUCE_API, PRODUCE_VERSION, TopicPartition
from connect.protocol.records import iter_records

NODES = (1, 2)

NOT_LEADER = 6
REQUEST_TIMED_OUT = 7
MESSAGE_TOO_LARGE = 10
NOT_ENOUGH_REPLICAS = 19
OUT_OF_ORDER = 45


class Fate(enum.Enum):
    """What befalls a batch that the log would take."""

    TAKEN = "taken"
    REFUSED = "too few replicas, before it was appended"
    STEPPED_DOWN = "appended, and then the leader stepped down"
    TIMED_OUT = "appended, and not replicated in time"


@dataclass
class Producer:
    last: int
    recent: deque[tuple[int, int, int]] = field(default_factory=lambda: deque(maxlen=5))
    """(first sequence, last sequence, base offset)"""


@dataclass
class Log:
    """One partition's records (their source offsets) and producers."""

    leader: int = 1
    largest: int = 1 << 30
    records: list[int] = field(default_factory=list)
    producers: dict[int, Producer] = field(default_factory=dict)

    def append(self, batch: bytes, fate: Fate) -> tuple[int, int]:
        """(error code, base offset)."""
        (header,) = read_headers(memoryview(batch))
        assert crc_matches(memoryview(batch), header)
        if header.size > self.largest:
            return MESSAGE_TOO_LARGE, -1
        if fate is Fate.REFUSED:
            return NOT_ENOUGH_REPLICAS, -1
        (first,) = struct.unpack_from(">i", batch, 53)
        last = first + header.records - 1
        known = self.producers.get(header.producer_id)
        if known is not None:
            for entry in known.recent:
                if entry[:2] == (first, last):
                    return 0, entry[2]
            if first != known.last + 1:
                return OUT_OF_ORDER, -1
        known = self.producers.setdefault(header.producer_id, Producer(-1))
        base = len(self.records)
        known.last = last
        known.recent.append((first, last, base))
        self.records += [int(record.value or b"-1") for record in iter_records(batch)]
        if fate is Fate.STEPPED_DOWN:
            return NOT_LEADER, -1
        if fate is Fate.TIMED_OUT:
            return REQUEST_TIMED_OUT, -1
        return 0, base


class ScriptedTarget:
    """The logs, the brokers' ends of the connections, and what the copier asks of a cluster link
    (`snapshot`, `connect`, `init_producer_id`, `request_refresh`)."""

    def __init__(self, logs: dict[TopicPartition, Log]) -> None:
        self.logs = logs
        self.snapshot = ClusterSnapshot(
            version=1, nodes=MappingProxyType({n: ("broker", n) for n in NODES})
        )
        self.refreshes = 0
        self.producer_ids = 100
        self._ends: dict[int, socket.socket] = {}
        self._received: dict[int, bytearray] = defaultdict(bytearray)

    # The link.

    def connect(self, node_id: int) -> Future[WireConnection]:
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        self.close(node_id)
        self._ends[node_id] = ours
        future: Future[WireConnection] = Future()
        connection = WireConnection(theirs, "broker", node_id, "test")
        connection.api_versions = {PRODUCE_API: (PRODUCE_VERSION, PRODUCE_VERSION)}
        future.set_result(connection)
        return future

    def init_producer_id(self) -> Future[tuple[int, int]]:
        self.producer_ids += 1
        future: Future[tuple[int, int]] = Future()
        future.set_result((self.producer_ids, 0))
        return future

    def request_refresh(self, topics: Iterable[str] | None = None) -> None:
        self.refreshes += 1

    # The brokers.

    def waiting(self, node_id: int) -> list[bytes]:
        """The requests that this broker has whole, oldest first."""
        end, received = self._ends.get(node_id), self._received[node_id]
        try:
            while end is not None and (data := end.recv(1 << 20)):
                received += data
        except BlockingIOError:
            pass
        requests, at = [], 0
        while len(received) >= at + 4:
            (size,) = struct.unpack_from(">i", received, at)
            if len(received) < at + 4 + size:
                break
            requests.append(bytes(received[at + 4 : at + 4 + size]))
            at += 4 + size
        return requests

    def handle(self, node_id: int, fate: Fate, *, answer: bool = True) -> bool:
        """Handle this broker's oldest request; False if there is none."""
        requests = self.waiting(node_id)
        if not requests:
            return False
        del self._received[node_id][: 4 + len(requests[0])]
        correlation, batches = _parse(requests[0])
        results = []
        for key, batch in batches:
            log = self.logs[key]
            error, base = log.append(batch, fate) if log.leader == node_id else (NOT_LEADER, -1)
            if log.leader == node_id and error == NOT_LEADER:
                log.leader = 3 - node_id
            results.append((key, error, base))
        if answer:
            self._ends[node_id].sendall(_response(correlation, results))
        return True

    def close(self, node_id: int) -> None:
        """Close the connection: requests that were not handled are lost."""
        end = self._ends.pop(node_id, None)
        if end is not None:
            end.close()
        self._received.pop(node_id, None)

    def close_all(self) -> None:
        for node_id in NODES:
            self.close(node_id)


def _string(data: bytes, at: int) -> tuple[str, int]:
    (size,) = struct.unpack_from(">h", data, at)
    end = at + 2 + max(0, size)
    return data[at + 2 : end].decode(), end


def _parse(request: bytes) -> tuple[int, list[tuple[TopicPartition, bytes]]]:
    api, version, correlation = struct.unpack_from(">hhi", request)
    assert (api, version) == (0, 8)
    _, at = _string(request, 8)
    transactional, acks, _ = struct.unpack_from(">hhi", request, at)
    assert (transactional, acks) == (-1, -1)
    (topics,) = struct.unpack_from(">i", request, at + 8)
    at += 12
    found: list[tuple[TopicPartition, bytes]] = []
    for _ in range(topics):
        topic, at = _string(request, at)
        (count,) = struct.unpack_from(">i", request, at)
        at += 4
        for _ in range(count):
            partition, size = struct.unpack_from(">ii", request, at)
            at += 8
            found.append(((topic, partition), request[at : at + size]))
            at += size
    assert at == len(request)
    return correlation, found


def _response(correlation: int, results: list[tuple[TopicPartition, int, int]]) -> bytes:
    body = bytearray(struct.pack(">ii", correlation, len(results)))
    for (topic, partition), error, base in results:
        name = topic.encode()
        body += struct.pack(">h", len(name)) + name
        body += struct.pack(">iihqqqih", 1, partition, error, base, -1, 0, 0, -1)
    body += struct.pack(">i", 0)
    return struct.pack(">i", len(body)) + bytes(body)
