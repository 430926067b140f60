"""A cluster of one broker that answers as a test says: well, or broken in any way there is.

It holds one partition, for reading and for writing, keeps Kafka's rules for idempotent producers,
and speaks the few requests that a copier makes. A `Fault` stands between a good answer and the
socket. What was written stays to be looked at.
"""

from __future__ import annotations

import socket
import struct
import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

from kafka.protocol.consumer import ListOffsetsResponse
from kafka.protocol.metadata import ApiVersionsResponse, MetadataResponse
from kafka.protocol.producer import InitProducerIdResponse

from connect.protocol.batches import read_headers
from connect.protocol.records import Record, iter_records

__all__ = [
    "API_VERSIONS",
    "FETCH",
    "INIT_PRODUCER_ID",
    "LIST_OFFSETS",
    "METADATA",
    "PRODUCE",
    "Answer",
    "Fault",
    "HostileBroker",
    "fetch_body",
]

PRODUCE, FETCH, LIST_OFFSETS, METADATA, API_VERSIONS, INIT_PRODUCER_ID = 0, 1, 2, 3, 18, 22
_VERSIONS = {
    PRODUCE: 8,
    FETCH: 11,
    LIST_OFFSETS: 5,
    METADATA: 9,
    API_VERSIONS: 3,
    INIT_PRODUCER_ID: 1,
}
_POLL_S = 0.02
_OUT_OF_ORDER = 45


class Answer:
    """One answer on its way: `body` is what follows the correlation id."""

    def __init__(self, api: int, number: int, correlation: int, body: bytes) -> None:
        self.api = api
        self.number = number
        """Of the answers to this kind of request, from 1 on."""
        self.correlation = correlation
        self.body = body
        self.size: int | None = None
        """What the frame claims; None: the truth."""
        self.drip_s: float | None = None
        """Between single bytes."""
        self.cut: int | None = None
        """Send only so many bytes, and close."""
        self.silent = False

    def frame(self) -> bytes:
        size = 4 + len(self.body) if self.size is None else self.size
        return struct.pack(">ii", size, self.correlation) + self.body


Fault = Callable[[Answer], None]


class HostileBroker:
    """Open between `with`. `log`: whole batches with their source offsets, to be fetched."""

    def __init__(
        self,
        topic: str = "t",
        *,
        log: tuple[bytes, ...] = (),
        fault: Fault | None = None,
        versions: dict[int, int] | None = None,
    ) -> None:
        self.topic = topic
        self.log = log
        self.fault: Fault = fault or (lambda answer: None)
        self.records: list[Record] = []
        """What was produced, in order, at offsets 0, 1, ..."""
        self.asked: list[int] = []
        """The api keys of all requests."""
        self.advertised: tuple[str, int] | None = None
        self.versions = {**_VERSIONS, **(versions or {})}
        self._producers: dict[int, tuple[int, dict[tuple[int, int], int]]] = {}
        self._counts: dict[int, int] = {}
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._threads: list[threading.Thread] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._listener.settimeout(_POLL_S)
        self.port: int = self._listener.getsockname()[1]

    @property
    def servers(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def high_watermark(self) -> int:
        return max(
            (h.next_offset for b in self.log for h in read_headers(memoryview(b))), default=0
        )

    def __enter__(self) -> Self:
        self._start(self._accept)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(10.0)
        self._listener.close()

    def _start(self, target: Callable[..., None], *args: Any) -> None:
        thread = threading.Thread(target=target, args=args, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while not self._stop.is_set():
            try:
                connection, _ = self._listener.accept()
            except TimeoutError:
                continue
            self._start(self._serve, connection)

    def _serve(self, connection: socket.socket) -> None:
        with connection:
            connection.settimeout(_POLL_S)
            try:
                while (request := self._receive(connection)) is not None:
                    if not self._send(connection, self._answer(request)):
                        return
            except OSError:
                return

    def _receive(self, connection: socket.socket) -> bytes | None:
        head = self._read(connection, 4)
        return None if head is None else self._read(connection, struct.unpack(">i", head)[0])

    def _read(self, connection: socket.socket, size: int) -> bytes | None:
        data = bytearray()
        while len(data) < size:
            if self._stop.is_set():
                return None
            try:
                part = connection.recv(size - len(data))
            except TimeoutError:
                continue
            if not part:
                return None
            data += part
        return bytes(data)

    def _answer(self, request: bytes) -> Answer:
        api, version, correlation = struct.unpack_from(">hhi", request)
        (client,) = struct.unpack_from(">h", request, 8)
        body = request[10 + max(client, 0) :]
        with self._lock:
            self.asked.append(api)
            number = self._counts[api] = self._counts.get(api, 0) + 1
            made = self._body(api, version, body)
        answer = Answer(api, number, correlation, made)
        self.fault(answer)
        return answer

    def _send(self, connection: socket.socket, answer: Answer) -> bool:
        """Whether the connection goes on."""
        if answer.silent:
            return True
        frame = answer.frame()
        if answer.cut is not None:
            connection.sendall(frame[: answer.cut])
            return False
        if answer.drip_s is None:
            connection.sendall(frame)
            return True
        for index in range(len(frame)):
            if self._stop.is_set():
                return False
            connection.sendall(frame[index : index + 1])
            time.sleep(answer.drip_s)
        return True

    # What a good broker answers.

    def _body(self, api: int, version: int, request: bytes) -> bytes:
        if api == FETCH:
            return self._fetch(request)
        if api == PRODUCE:
            return self._produce(request)
        made = {
            API_VERSIONS: self._api_versions,
            METADATA: self._metadata,
            LIST_OFFSETS: self._list_offsets,
            INIT_PRODUCER_ID: self._init_producer_id,
        }[api](version)
        flexible = api != API_VERSIONS and made.flexible_version_q(version)
        return (b"\0" if flexible else b"") + bytes(made.encode(version=version))

    def _api_versions(self, version: int) -> Any:
        keys = [
            ApiVersionsResponse.ApiVersion(version=version, api_key=k, min_version=0, max_version=v)
            for k, v in self.versions.items()
        ]
        return ApiVersionsResponse(version=version, error_code=0, api_keys=keys)

    def _metadata(self, version: int) -> Any:
        topic = MetadataResponse.MetadataResponseTopic
        host, port = self.advertised or ("127.0.0.1", self.port)
        return MetadataResponse(
            version=version,
            brokers=[
                MetadataResponse.MetadataResponseBroker(
                    version=version, node_id=1, host=host, port=port, rack=None
                )
            ],
            cluster_id="hostile",
            controller_id=1,
            topics=[
                topic(
                    version=version,
                    error_code=0,
                    name=self.topic,
                    is_internal=False,
                    partitions=[
                        topic.MetadataResponsePartition(
                            version=version,
                            error_code=0,
                            partition_index=0,
                            leader_id=1,
                            leader_epoch=0,
                            replica_nodes=[1],
                            isr_nodes=[1],
                            offline_replicas=[],
                        )
                    ],
                )
            ],
        )

    def _list_offsets(self, version: int) -> Any:
        topic = ListOffsetsResponse.ListOffsetsTopicResponse
        partition = topic.ListOffsetsPartitionResponse(
            version=version, partition_index=0, error_code=0, timestamp=-1, offset=0, leader_epoch=0
        )
        return ListOffsetsResponse(
            version=version,
            throttle_time_ms=0,
            topics=[topic(version=version, name=self.topic, partitions=[partition])],
        )

    def _init_producer_id(self, version: int) -> Any:
        return InitProducerIdResponse(
            version=version,
            throttle_time_ms=0,
            error_code=0,
            producer_id=7 + self._counts[INIT_PRODUCER_ID],
            producer_epoch=0,
        )

    def _fetch(self, request: bytes) -> bytes:
        # Head of 25 bytes, one topic at the most, a partition of 28 bytes with its offset at 8.
        (topics,) = struct.unpack_from(">i", request, 25)
        if not topics:
            return fetch_body(self.topic, b"", self.high_watermark, topics=0)
        (name,) = struct.unpack_from(">h", request, 29)
        (offset,) = struct.unpack_from(">q", request, 29 + 2 + name + 4 + 8)
        wanted = [
            batch for batch in self.log if read_headers(memoryview(batch))[0].next_offset > offset
        ]
        if not wanted:
            time.sleep(_POLL_S)
        return fetch_body(self.topic, b"".join(wanted), self.high_watermark)

    def _produce(self, request: bytes) -> bytes:
        (name,) = struct.unpack_from(">h", request, 12)
        at = 14 + name + 4
        partition, size = struct.unpack_from(">ii", request, at)
        error, base = self._append(request[at + 8 : at + 8 + size])
        body = struct.pack(">i", 1) + _string(self.topic) + struct.pack(">i", 1)
        body += struct.pack(">ihqqqih", partition, error, base, -1, 0, 0, -1)
        return body + struct.pack(">i", 0)

    def _append(self, batch: bytes) -> tuple[int, int]:
        (header,) = read_headers(memoryview(batch))
        (first,) = struct.unpack_from(">i", batch, 53)
        last, known = self._producers.get(header.producer_id, (-1, {}))
        key = (first, first + header.records - 1)
        if key in known:
            return 0, known[key]
        if first != last + 1:
            return _OUT_OF_ORDER, -1
        known[key] = base = len(self.records)
        self._producers[header.producer_id] = (key[1], known)
        self.records += iter_records(batch)
        return 0, base


def fetch_body(
    topic: str,
    records: bytes,
    high_watermark: int,
    *,
    topics: int = 1,
    size: int | None = None,
    throttle_ms: int = 0,
    preferred: int = -1,
    error: int = 0,
    aborted: int = -1,
) -> bytes:
    """A Fetch v11 answer without a session about partition 0; `size` where it shall lie about the
    records' length."""
    body = struct.pack(">ihii", throttle_ms, 0, 0, topics)
    if not topics:
        return body
    body += _string(topic) + struct.pack(">i", 1)
    body += struct.pack(">ihqqqi", 0, error, high_watermark, high_watermark, 0, aborted)
    return body + struct.pack(">ii", preferred, len(records) if size is None else size) + records


def _string(text: str) -> bytes:
    data = text.encode()
    return struct.pack(">h", len(data)) + data
