"""A non-blocking connection to one broker that sends and receives raw bytes on a selector loop.

`Channel` takes over the authenticated socket of a `WireConnection` and makes it non-blocking. From
then on it belongs to the selector's thread. Requests are lists of buffers, sent with `sendmsg` and
never joined. Each response is received into a pooled buffer of its own and passed to its callback
undecoded.

The owner handles reconnects, retries and API versions.
"""

from __future__ import annotations

import socket
import ssl
import struct
import sys
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from connect.clients.wire.connection import WireConnection
from connect.errors import BrokerUnavailable, CorruptData
from connect.protocol.messages import encode_request_header

__all__ = ["Buffer", "BufferPool", "Channel", "Response"]

Buffer = memoryview | bytearray | bytes

MAX_RESPONSE_BYTES = 256 * 1024 * 1024
"""Above any fetch size in use; a larger length field is invalid."""

_MAX_IOVECS = 256
"""Buffers for one sendmsg, well below the kernel's limit of 1,024."""

_RESPONSES_A_TURN = 4
"""Responses handled per turn, so that a fast broker does not block other work on the loop."""

_BELIEVED_BYTES = 16 * 1024 * 1024
"""The memory reserved for a response before its bytes arrive: the default maximum of a fetch. A
larger response gets its memory as it arrives.
"""

_HEAD_BYTES = 1024
"""How many bytes are read at once at the beginning of a response: several responses to Produce
requests."""

_POOL_GRANULE = 64 * 1024
_SPARE_SHARE = 4
"""A response takes a kept buffer that is larger by at most this fraction."""
_SIZE = struct.Struct(">i")
# In Linux's struct tcp_info: `tcpi_rtt`, in microseconds.
_TCP_INFO_BYTES, _RTT_AT, _RTT = 104, 68, struct.Struct("=I")
_CORRELATION = struct.Struct(">i")
_WOULD_BLOCK = (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError, InterruptedError)


class BufferPool:
    """Reusable response buffers, so that large responses do not need fresh memory pages.

    Owned by one thread. Buffers smaller than one granule (64 KiB) are not pooled. A response never
    takes a buffer that is much larger, because the whole buffer counts as used. Those that were not
    needed for longest are dropped first.
    """

    def __init__(self, max_free: int) -> None:
        """Keep at most `max_free` bytes for reuse. Any thread may change it."""
        self._free: list[bytearray] = []
        self._free_bytes = 0
        self.max_free = max_free

    def acquire(self, size: int) -> bytearray:
        """Return a buffer of at least `size` bytes."""
        if size < _POOL_GRANULE:
            return bytearray(size)
        wanted = -(-size // _POOL_GRANULE) * _POOL_GRANULE
        most = wanted + wanted // _SPARE_SHARE
        fitting = [at for at, each in enumerate(self._free) if wanted <= len(each) <= most]
        if fitting:
            return self._take(min(fitting, key=lambda at: len(self._free[at])))
        # A new buffer replaces kept ones, so that both together do not grow.
        replaced = 0
        while self._free and replaced < wanted:
            replaced += len(self._take(0))
        return bytearray(wanted)

    def release(self, buffer: bytearray) -> None:
        """Give a buffer back. The caller must hold no view of it."""
        if len(buffer) < _POOL_GRANULE:
            return
        self._free.append(buffer)
        self._free_bytes += len(buffer)
        while self._free_bytes > self.max_free:
            self._take(0)

    def _take(self, at: int) -> bytearray:
        taken = self._free.pop(at)
        self._free_bytes -= len(taken)
        return taken


@dataclass(slots=True)
class Response:
    """One response: its pooled buffer, and a view of the body after the correlation id."""

    buffer: bytearray
    body: memoryview


@dataclass(slots=True)
class _Awaited:
    correlation_id: int
    deadline: float
    on_response: Callable[[Response], None]


class Channel:
    """A non-blocking connection to one broker. All methods belong to the selector's thread."""

    def __init__(self, connection: WireConnection, client_id: str, pool: BufferPool) -> None:
        self._connection = connection
        self._socket = connection.sock
        self._socket.setblocking(False)
        self._tls = isinstance(self._socket, ssl.SSLSocket)
        self._client_id = client_id.encode()
        self._pool = pool
        self._out: deque[Buffer] = deque()
        self._awaited: deque[_Awaited] = deque()
        self._correlation_id = 0
        self._closed = False
        self._head = bytearray(_HEAD_BYTES)
        self._head_view = memoryview(self._head)
        self._head_size = 0
        """How much of `_head` is filled between responses: less than a length."""
        self._incoming: bytearray | None = None
        self._incoming_view: memoryview | None = None
        self._size = self._wanted = self._got = 0
        self.throttled_until = 0.0
        self.responses = 0
        self.bytes_in = 0
        self.bytes_out = 0
        self.name = f"{connection.host}:{connection.port}"

    def fileno(self) -> int:
        return self._socket.fileno()

    @property
    def in_flight(self) -> int:
        """Requests without a response yet."""
        return len(self._awaited)

    def supports(self, api: int, version: int) -> bool:
        """Whether the broker supports this version of an API."""
        lowest, highest = self._connection.api_versions.get(api, (0, -1))
        return lowest <= version <= highest

    @property
    def wants_write(self) -> bool:
        """Whether bytes wait to be written to the socket."""
        return bool(self._out)

    @property
    def next_deadline(self) -> float | None:
        """Monotonic time at which the oldest request times out; None if there is none."""
        return self._awaited[0].deadline if self._awaited else None

    def round_trip_s(self) -> float:
        """Return the round-trip time to the broker in seconds, from TCP_INFO, or 0 if
        unavailable.
        """
        info = getattr(socket, "TCP_INFO", None)
        if sys.platform != "linux" or info is None:
            return 0.0
        try:
            facts = self._socket.getsockopt(socket.IPPROTO_TCP, info, _TCP_INFO_BYTES)
        except OSError:
            return 0.0
        (microseconds,) = _RTT.unpack_from(facts, _RTT_AT)
        return float(microseconds) / 1e6

    def postpone(self, seconds: float) -> None:
        """Extend the timeouts of pending requests, because a quota mutes the connection this
        long.
        """
        for awaited in self._awaited:
            awaited.deadline += seconds

    def send(
        self,
        api: int,
        version: int,
        body: Sequence[Buffer],
        body_size: int,
        deadline: float,
        on_response: Callable[[Response], None],
        *,
        flush: bool = True,
    ) -> None:
        """Queue a request, and send as much as the socket accepts. Without `flush` the caller calls
        `flush` after several requests, so that they share system calls.

        The buffers must not change until the response arrives or the channel is closed. `deadline`
        is in monotonic seconds.

        Raises:
            BrokerUnavailable: the connection is lost.
        """
        self._correlation_id = (self._correlation_id + 1) & 0x7FFFFFFF
        head = encode_request_header(api, version, self._correlation_id, self._client_id, body_size)
        self._out.append(head)
        self._out.extend(body)
        self._awaited.append(_Awaited(self._correlation_id, deadline, on_response))
        if flush:
            self.flush()

    def flush(self) -> None:
        """Send as much as the socket accepts. Raises BrokerUnavailable if the connection is
        lost.
        """
        try:
            while self._out:
                sent = self._send_some()
                self.bytes_out += sent
                self._drop_sent(sent)
        except _WOULD_BLOCK:
            return
        except OSError as error:
            raise BrokerUnavailable(f"{self.name}: connection lost: {error}") from error

    def _send_some(self) -> int:
        if self._tls:
            return self._socket.send(self._out[0])
        if len(self._out) == 1:
            return self._socket.send(self._out[0])
        batch = [self._out[i] for i in range(min(len(self._out), _MAX_IOVECS))]
        return self._socket.sendmsg(batch)

    def _drop_sent(self, sent: int) -> None:
        out = self._out
        while sent:
            first = out[0]
            if sent >= len(first):
                sent -= len(first)
                out.popleft()
            else:
                out[0] = memoryview(first)[sent:]
                return
        while out and not len(out[0]):
            out.popleft()

    def receive(self) -> None:
        """Read from the socket, and call the callback of each complete response.

        Returns after a few responses so that other channels get their turn; the socket stays
        readable. A callback may close the channel.

        Raises:
            BrokerUnavailable: the broker closed the connection.
            CorruptData: a length or correlation id is invalid.
        """
        enough = self.responses + _RESPONSES_A_TURN
        while not self._closed:
            if self._incoming is None:
                if not self._receive_heads():
                    return
            elif not self._fill(self._incoming):
                return
            if self.responses >= enough and not self._has_decrypted():
                return

    def _has_decrypted(self) -> bool:
        """Return whether decrypted bytes wait inside TLS, where a selector cannot see them."""
        return isinstance(self._socket, ssl.SSLSocket) and self._socket.pending() > 0

    def _receive_heads(self) -> bool:
        """Read once, and take the small responses and the beginning of a large one from what
        arrived.

        Most responses to Produce requests are smaller than 100 bytes, so each one takes one system
        call. Return whether the socket may have more.
        """
        head, view = self._head, self._head_view
        try:
            count = self._socket.recv_into(view[self._head_size :])
        except _WOULD_BLOCK:
            return False
        except OSError as error:
            raise BrokerUnavailable(f"{self.name}: connection lost: {error}") from error
        self._count_received(count)
        end = self._head_size + count
        full = end == len(head)
        at = 0
        while not self._closed and end - at >= _SIZE.size:
            (size,) = _SIZE.unpack_from(head, at)
            at += _SIZE.size
            body = self._start_body(size)
            self._got = min(size, end - at)
            body[: self._got] = view[at : at + self._got]
            at += self._got
            if self._got < size:
                break
            self._finish_body(body)
        # What is left is at most a part of a length.
        self._head_size = end - at
        head[: self._head_size] = head[at:end]
        return full or self._tls or self._incoming is not None

    def _fill(self, buffer: bytearray) -> bool:
        """Read the rest of a large response. Return False if the socket has no more."""
        view = self._incoming_view
        assert view is not None
        try:
            while self._got < self._wanted:
                count = self._socket.recv_into(view[self._got : self._wanted])
                self._count_received(count)
                self._got += count
        except _WOULD_BLOCK:
            return False
        except OSError as error:
            raise BrokerUnavailable(f"{self.name}: connection lost: {error}") from error
        if self._wanted < self._size:
            self._grow_body(buffer)
        else:
            self._finish_body(buffer)
        return True

    def _count_received(self, count: int) -> None:
        if count == 0:
            raise BrokerUnavailable(f"{self.name}: the broker closed the connection")
        self.bytes_in += count

    def _start_body(self, size: int) -> bytearray:
        """Return the memory for a response of this size, or for its beginning if it is large."""
        if not 4 <= size <= MAX_RESPONSE_BYTES:
            raise CorruptData(f"{self.name}: invalid response size {size}")
        buffer = self._pool.acquire(min(size, _BELIEVED_BYTES))
        self._incoming = buffer
        self._incoming_view = memoryview(buffer)
        self._size = size
        self._wanted = min(size, len(buffer))
        return buffer

    def _grow_body(self, buffer: bytearray) -> None:
        """Enlarge the buffer of a response that is longer than the memory reserved so far."""
        grown = self._pool.acquire(min(self._size, 2 * len(buffer)))
        grown[: self._got] = buffer[: self._got]
        self._incoming_view = None
        self._pool.release(buffer)
        self._incoming = grown
        self._incoming_view = memoryview(grown)
        self._wanted = min(self._size, len(grown))

    def _finish_body(self, buffer: bytearray) -> None:
        size = self._wanted
        self._incoming = None
        self._incoming_view = None
        (correlation_id,) = _CORRELATION.unpack_from(buffer)
        if not self._awaited or self._awaited[0].correlation_id != correlation_id:
            raise CorruptData(
                f"{self.name}: response {correlation_id} matches no request in flight"
            )
        awaited = self._awaited.popleft()
        self.responses += 1
        awaited.on_response(Response(buffer, memoryview(buffer)[4:size]))

    def close(self) -> None:
        """Close the socket. Callbacks of pending requests are not called any more."""
        self._closed = True
        self._out.clear()
        self._awaited.clear()
        self._incoming = None
        self._incoming_view = None
        self._connection.close()
