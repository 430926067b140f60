"""Read one partition's record batches as bytes, from a start to an end offset, with read-ahead.

The next fetch is already in flight while the caller works on the current response, so reading costs
the longer of both. Each item is a whole fetch response; its batches are views into one buffer,
which is reused once no view of it is left.

The reader follows the leader and retries retriable errors. One thread at a time.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from concurrent.futures import CancelledError, Future
from concurrent.futures import TimeoutError as FutureTimeout
from typing import Literal, NamedTuple

from connect.clients.cluster.cluster_access import ClusterAccess
from connect.clients.errors import error_from_code
from connect.clients.wire.connection import WireConnection
from connect.clock import SYSTEM_CLOCK, Clock, Deadline
from connect.errors import BrokerUnavailable, ConnectError, DeadlineExceeded
from connect.protocol.batches import BatchHeader, read_headers
from connect.protocol.error_codes import code_facts
from connect.protocol.messages import (
    FETCH_API,
    FETCH_VERSION,
    FetchedPartition,
    FetchPartition,
    TopicPartition,
    encode_fetch,
    encode_request_header,
    parse_fetch,
)

__all__ = ["DEFAULT_FETCH_BYTES", "AnswerBuffers", "FetchedBatches", "PartitionReader"]

_LOG = logging.getLogger(__name__)

DEFAULT_FETCH_BYTES = 8 * 1024 * 1024
"""Responses held at a time for one partition: the current one and the next."""

DEFAULT_STALL_S = 60.0
_WAIT_MS = 500
_RETRY_S = 0.2
_ANSWER_S = 30.0
_NO_SESSION, _FINAL_EPOCH = 0, -1


class FetchedBatches(NamedTuple):
    """Whole batches, in order, and the aborted transactions that overlap them.

    The first batch may begin before the requested offset, and the last may end after it.
    """

    records: memoryview
    headers: list[BatchHeader]
    aborted: tuple[tuple[int, int], ...]
    log_start_offset: int


class AnswerBuffers:
    """Buffers for fetch responses, for one thread. They grow to the size of the largest
    responses.
    """

    def __init__(self, kept: int = 3) -> None:
        """Keep at most `kept` buffers.

        Two are enough for a reader whose caller drops each response before it takes the next.
        """
        self._most = kept
        self._kept: list[bytearray] = []

    def free_one(self) -> bytearray:
        """Return a buffer of which no view is left. A new buffer is empty."""
        for buffer in self._kept:
            if self._unseen(buffer):
                return buffer
        if len(self._kept) == self._most:
            del self._kept[0]
        self._kept.append(bytearray())
        return self._kept[-1]

    @staticmethod
    def _unseen(buffer: bytearray) -> bool:
        try:
            buffer.append(0)
        except BufferError:  # A buffer with a view cannot be resized.
            return False
        buffer.pop()
        return True


class PartitionReader:
    """An iterator over fetch responses. The owner calls `close` afterwards.

    Iteration raises fatal errors: `BrokerError` (OFFSET_OUT_OF_RANGE) if retention deleted the
    offset, `CorruptData`, and `DeadlineExceeded` with the last reason if no data arrived for
    `stall_s` seconds.
    """

    def __init__(
        self,
        link: ClusterAccess,
        key: TopicPartition,
        start: int,
        end: int,
        *,
        isolation: Literal[0, 1] = 0,
        fetch_bytes: int = DEFAULT_FETCH_BYTES,
        stall_s: float = DEFAULT_STALL_S,
        buffers: AnswerBuffers | None = None,
        stopped: threading.Event | None = None,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        """Read the batches with offsets from `start` to before `end`.

        `link` must watch the topic. `end` must not exceed the end for this isolation level.
        `buffers` may be shared with other readers of this thread. Setting `stopped`, from any
        thread, ends the iteration soon with `DeadlineExceeded`.
        """
        self._link = link
        self._key = key
        self.position = start
        """The next offset to read. May be set between two responses."""
        self._end = end
        self._isolation = isolation
        self._fetch_bytes = fetch_bytes
        self._stall_s = stall_s
        self._clock = clock
        self._connection: WireConnection | None = None
        self._asked: int | None = None
        self._correlation = 0
        self._buffers = buffers or AnswerBuffers()
        self._stopped = stopped or threading.Event()

    def close(self) -> None:
        """Close the connections. May be called again."""
        if self._connection is not None:
            self._connection.close()
        self._connection, self._asked = None, None

    def __iter__(self) -> Iterator[FetchedBatches]:
        while self.position < self._end:
            answer, headers = self._next_answer()
            self.position = headers[-1].next_offset
            if self.position < self._end:
                self._ask_ahead()
            yield FetchedBatches(answer.records, headers, answer.aborted, answer.log_start_offset)

    def _next_answer(self) -> tuple[FetchedPartition, list[BatchHeader]]:
        deadline = Deadline(self._stall_s, self._clock)
        reason = "the broker returned no records"
        while not deadline.expired() and not self._stopped.is_set():
            try:
                answer = self._fetch(deadline)
                headers = read_headers(answer.records)
            except ConnectError as error:
                self.close()
                if not error.retriable:
                    raise
                _LOG.debug("%s-%d: %s; trying again", *self._key, error)
                # A stored error keeps this frame alive, and with it a response.
                reason = str(error)
                self._link.request_refresh((self._key[0],))
                self._stopped.wait(min(_RETRY_S, deadline.remaining()))
                continue
            if headers and headers[-1].next_offset > self.position:
                return answer, headers
        topic, partition = self._key
        raise DeadlineExceeded(
            f"{topic}-{partition} could not be read at offset {self.position} for "
            f"{self._stall_s:g} s: {reason}"
        )

    def _fetch(self, deadline: Deadline) -> FetchedPartition:
        if self._asked != self.position:
            if self._asked is not None:
                self.close()  # The fetch in flight is for another offset.
            self._ask(deadline)
        connection = self._connection
        assert connection is not None
        self._asked = None
        limit = Deadline(min(_ANSWER_S, deadline.remaining()), self._clock)
        what = f"Fetch from {connection}"
        response = parse_fetch(connection.receive_raw(limit, what, self._buffers.free_one()))
        code = response.error
        answers = [p for p in response.partitions if (p.topic, p.partition) == self._key]
        if answers and not code:
            code = answers[0].error
        if code:
            if code_facts(code).stale_metadata:
                self.close()
            what = f"Fetch of {self._key[0]}-{self._key[1]} at {connection}"
            raise error_from_code(code, what, needs=f"Read on topic {self._key[0]}")
        if not answers:
            raise BrokerUnavailable(f"{connection} left {self._key[0]} out of its response")
        return answers[0]

    def _ask_ahead(self) -> None:
        """Send the next fetch. If that fails, the next iteration reports it."""
        try:
            self._ask(Deadline(_ANSWER_S, self._clock))
        except ConnectError as error:
            _LOG.debug("%s-%d: %s; trying again", *self._key, error)
            self.close()

    def _ask(self, deadline: Deadline) -> None:
        leader = self._link.snapshot.leaders.get(self._key)
        if leader is None:
            raise BrokerUnavailable(f"{self._key[0]}-{self._key[1]} has no known leader")
        if self._connection is None:
            self._connection = self._open(leader[0], deadline)
        connection = self._connection
        body = encode_fetch(
            {self._key: FetchPartition(self.position, leader[1], self._fetch_bytes)},
            (),
            max_wait_ms=_WAIT_MS,
            min_bytes=1,
            max_bytes=self._fetch_bytes,
            isolation=self._isolation,
            session_id=_NO_SESSION,
            session_epoch=_FINAL_EPOCH,
            rack="",
        )
        self._correlation = (self._correlation + 1) & 0x7FFF_FFFF
        client_id = connection.client_id.encode()
        head = encode_request_header(
            FETCH_API, FETCH_VERSION, self._correlation, client_id, len(body)
        )
        connection.send_raw(head + body, self._correlation, deadline, f"Fetch from {connection}")
        self._asked = self.position

    def _open(self, node: int, deadline: Deadline) -> WireConnection:
        opening = self._link.connect(node)
        try:
            return opening.result(deadline.remaining())
        except (FutureTimeout, CancelledError) as error:
            opening.add_done_callback(_close_late)
            raise BrokerUnavailable(f"node {node} did not answer in time") from error


def _close_late(opening: Future[WireConnection]) -> None:
    if not opening.cancelled() and opening.exception() is None:
        opening.result().close()
