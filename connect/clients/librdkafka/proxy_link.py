"""One connection of a `SaslProxy`: from the librdkafka client on to a broker.

All methods belong to the proxy's thread. Any error closes both sides, as a lost connection would.
"""

from __future__ import annotations

import logging
import socket
import ssl
from collections import deque
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import Protocol, TypeVar

from connect.clients.config.settings import WireSettings
from connect.clients.librdkafka.proxy_frames import (
    API_VERSIONS,
    AUTHENTICATE,
    HANDSHAKE,
    READDRESSED,
    REQUEST_HEAD,
    RESPONSE_HEAD,
    FrameSplitter,
    Piece,
    RequestHead,
    api_versions_answer,
    authenticate_answer,
    handshake_answer,
    handshake_request,
    handshake_response,
    plain_credentials,
    readdressed,
    request_head,
    response_head,
)
from connect.clients.wire.connection import MAX_FRAME_BYTES, WireConnection
from connect.clients.wire.poller import READ, WRITE
from connect.clients.wire.sasl import check_handshake, exchange
from connect.clock import Deadline
from connect.errors import AuthenticationFailed, BrokerUnavailable, ConnectError, CorruptData

__all__ = ["ProxyLink", "ProxyServices"]

_log = logging.getLogger(__name__)

T = TypeVar("T")

# More than this waiting for one side pauses reading from the other.
_MAX_WAITING = 4 * 1024 * 1024
_MAX_OWN_REQUEST = 64 * 1024
_WOULD_BLOCK = (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError, InterruptedError)
# Enough for librdkafka to come as far as SaslAuthenticate, where it learns why no broker is behind.
_VERSIONS_WITHOUT_BROKER: Mapping[int, tuple[int, int]] = {
    3: (0, 12),  # Metadata
    API_VERSIONS: (0, 3),
    HANDSHAKE: (0, 1),
    AUTHENTICATE: (0, 1),
}


class ProxyServices(Protocol):
    """The methods of a proxy that its links use."""

    settings: WireSettings
    buffer: memoryview
    """What one read takes at most; in use only while a link reads."""
    mechanism: str | None
    """The SASL mechanism of the brokers; None: they have no SASL."""

    def open(self, address: tuple[str, int]) -> Future[WireConnection]:
        """Connect to a broker without SASL on another thread."""

    def run(self, what: str, function: Callable[[], T]) -> Future[T]:
        """Run a function on another thread."""

    def post(self, action: Callable[[], None]) -> None:
        """Run `action` on the proxy's thread soon. Thread-safe."""

    def watch(self, sock: socket.socket, mask: int, on_event: Callable[[int], None]) -> None:
        """Call `on_event` whenever the socket is ready; with mask 0 not any more."""

    def failed(self, address: tuple[str, int], error: ConnectError) -> None:
        """Note why a broker has no connection now."""

    def admits(self, credentials: bytes) -> bool:
        """Return whether these are the client's credentials."""

    def local(self, host: str, port: int) -> tuple[str, int]:
        """Return the proxy's own address for a broker's."""


class _Side:
    """A socket and the bytes that wait for it."""

    def __init__(self, sock: socket.socket, buffer: memoryview) -> None:
        self.sock = sock
        self._buffer = buffer
        self.waiting: deque[memoryview] = deque()
        self.waiting_bytes = 0

    def put(self, data: bytes) -> None:
        self.waiting.append(memoryview(data))
        self.waiting_bytes += len(data)

    def flush(self) -> None:
        """Send as much as the socket takes. Raises OSError."""
        try:
            while self.waiting:
                sent = self.sock.send(self.waiting[0])
                self.waiting_bytes -= sent
                if sent == len(self.waiting[0]):
                    self.waiting.popleft()
                else:
                    self.waiting[0] = self.waiting[0][sent:]
        except _WOULD_BLOCK:
            return

    def read(self) -> bytes | None:
        """Return what has arrived, None if nothing has. Raises OSError, `BrokerUnavailable`.

        A socket of TLS gives at most 16 KiB at a time. They are passed on together, because each
        call of a socket waits for its turn if other threads are busy in Python.
        """
        buffer, filled = self._buffer, 0
        try:
            while filled < len(buffer):
                count = self.sock.recv_into(buffer[filled:])
                if not count:
                    break
                filled += count
        except _WOULD_BLOCK:
            if not filled:
                return None
        if not filled:
            raise BrokerUnavailable("the connection was closed")
        return bytes(buffer[:filled])

    def has_decrypted(self) -> bool:
        """Return whether bytes wait inside TLS, where a selector cannot see them."""
        return isinstance(self.sock, ssl.SSLSocket) and self.sock.pending() > 0


class ProxyLink:
    """Forwards between the client and one broker until either side closes."""

    def __init__(
        self,
        services: ProxyServices,
        sock: socket.socket,
        address: tuple[str, int],
        on_closed: Callable[[ProxyLink], None],
    ) -> None:
        self._services = services
        self._address = address
        self._on_closed = on_closed
        self._client = _Side(sock, services.buffer)
        self._connection: WireConnection | None = None
        self._broker: _Side | None = None
        self._requests = FrameSplitter(REQUEST_HEAD, self._wants_request)
        self._responses = FrameSplitter(RESPONSE_HEAD, self._wants_response)
        self._awaited: dict[int, tuple[int, int]] = {}
        self._trusted = False
        self._exchanging = False
        self._refusal: str | None = None
        self._closed = False
        opening = services.open(address)
        opening.add_done_callback(lambda done: services.post(lambda: self._opened(done)))

    def close(self) -> None:
        """Close both sides. May be called again."""
        if self._closed:
            return
        self._closed = True
        self._services.watch(self._client.sock, 0, self._on_client)
        self._client.sock.close()
        self._drop_broker()
        self._on_closed(self)

    def _opened(self, done: Future[WireConnection]) -> None:
        error = done.exception(0)
        if self._closed:
            if error is None:
                done.result(0).close()
        elif error is None:
            self._connection = done.result(0)
            self._broker = _Side(self._connection.sock, self._services.buffer)
            self._guarded(lambda: None)
        else:
            self._failed(error)

    def _failed(self, error: BaseException) -> None:
        """End a link whose broker cannot be reached now; keep a link to a broker that can never be
        reached, to report the reason."""
        if not isinstance(error, ConnectError):
            _log.error(
                "The proxy's link to %s:%d failed, and its client connects again; this is"
                " a defect: report it with the trace",
                *self._address,
                exc_info=error,
            )
        elif not error.retriable:
            self._refusal = str(error)
            self._guarded(lambda: None)
            return
        else:
            self._services.failed(self._address, error)
        self.close()

    def _on_client(self, mask: int) -> None:
        self._guarded(lambda: self._read_client() if mask & READ else None)

    def _on_broker(self, mask: int) -> None:
        self._guarded(lambda: self._read_broker() if mask & READ else None)

    def _guarded(self, action: Callable[[], None]) -> None:
        """Run `action`, send what it left, and watch what comes next."""
        if self._closed:
            return
        try:
            action()
            if self._broker is not None and not self._exchanging:
                self._broker.flush()
            self._client.flush()
        except (OSError, ConnectError) as error:
            _log.debug("The proxy's link to %s:%d ends: %s", *self._address, error)
            self.close()
            return
        self._watch()

    def _watch(self) -> None:
        client, broker = self._client, self._broker
        full = broker is not None and broker.waiting_bytes > _MAX_WAITING
        self._services.watch(
            client.sock,
            (0 if full or self._exchanging else READ) | (WRITE if client.waiting else 0),
            self._on_client,
        )
        if broker is None:
            return
        mask = 0
        if not self._exchanging:
            mask = READ if client.waiting_bytes <= _MAX_WAITING else 0
            mask |= WRITE if broker.waiting else 0
        self._services.watch(broker.sock, mask, self._on_broker)
        if mask & READ and broker.has_decrypted():
            self._services.post(lambda: self._on_broker(READ))

    def _read_client(self) -> None:
        data = self._client.read()
        if data is not None:
            for piece in self._requests.feed(data):
                self._take_request(piece)

    def _read_broker(self) -> None:
        broker = self._broker
        if broker is None or self._exchanging:
            return
        data = broker.read()
        if data is not None:
            for piece in self._responses.feed(data):
                self._client.put(self._response(piece))

    def _wants_request(self, frame: bytes) -> int:
        head = request_head(frame)
        if self._exchanging:
            raise CorruptData("a request in the middle of an authentication")
        if head.api in (API_VERSIONS, HANDSHAKE, AUTHENTICATE):
            if not 0 < head.size <= _MAX_OWN_REQUEST:
                raise CorruptData(f"a request of {head.size} bytes")
            return head.size
        if not self._trusted:
            raise CorruptData("a request without authentication")
        if head.api in READDRESSED:
            self._awaited[head.correlation_id] = (head.api, head.version)
        return 0

    def _wants_response(self, frame: bytes) -> int:
        size, correlation_id = response_head(frame)
        if correlation_id not in self._awaited:
            return 0
        if not 0 < size <= MAX_FRAME_BYTES:
            raise CorruptData(f"a response of {size} bytes")
        return size

    def _take_request(self, piece: Piece) -> None:
        broker, connection = self._broker, self._connection
        if not piece.whole:
            if broker is None:
                raise CorruptData("a request without a broker")
            broker.put(piece.data)
            return
        head = request_head(piece.data)
        if head.api == API_VERSIONS:
            offered = _VERSIONS_WITHOUT_BROKER if connection is None else connection.api_versions
            self._client.put(api_versions_answer(head, offered))
        elif head.api == AUTHENTICATE:
            self._authenticate(head, plain_credentials(piece.data))
        elif broker is None or connection is None or self._services.mechanism is None:
            self._client.put(handshake_answer(head.correlation_id))
        else:
            # In its turn, so that no other response is awaited when the mechanism's messages are
            # exchanged: a broker answers in order.
            self._awaited[head.correlation_id] = (HANDSHAKE, 1)
            name = self._services.mechanism
            broker.put(handshake_request(name, connection.client_id, head.correlation_id))

    def _response(self, piece: Piece) -> bytes:
        if not piece.whole:
            return piece.data
        _, correlation_id = response_head(piece.data)
        api, version = self._awaited.pop(correlation_id)
        if api != HANDSHAKE:
            return readdressed(api, version, piece.data, self._services.local)
        assert self._connection is not None
        try:
            name = self._services.mechanism or ""
            check_handshake(handshake_response(piece.data), self._connection, name)
        except AuthenticationFailed as error:
            self._refusal = str(error)
        return handshake_answer(correlation_id)

    def _authenticate(self, head: RequestHead, credentials: bytes) -> None:
        connection = self._connection
        if not self._services.admits(credentials):
            self._client.put(authenticate_answer(head, "this proxy is another client's", 0))
        elif self._refusal is not None or connection is None:
            self._client.put(authenticate_answer(head, self._refusal or "no broker", 0))
        elif self._services.mechanism is None:
            self._trusted = True
            self._client.put(authenticate_answer(head, None, 0))
        else:
            self._exchanging = True
            settings = self._services.settings
            deadline = Deadline(settings.request_timeout_ms / 1000)
            running = self._services.run(
                "authenticate", lambda: exchange(connection, settings, deadline)
            )
            running.add_done_callback(
                lambda done: self._services.post(lambda: self._authenticated(head, done))
            )

    def _authenticated(self, head: RequestHead, done: Future[int]) -> None:
        self._exchanging = False
        if self._closed:
            return
        error = done.exception(0)
        if error is not None:
            # The exchange has closed the broker's side, or left it in an unknown state.
            self._drop_broker()
            self._failed(error)
            if self._closed:
                return
            answer = authenticate_answer(head, self._refusal, 0)
        else:
            self._trusted = True
            answer = authenticate_answer(head, None, done.result(0))
        self._guarded(lambda: self._client.put(answer))

    def _drop_broker(self) -> None:
        if self._broker is not None:
            self._services.watch(self._broker.sock, 0, self._on_broker)
        if self._connection is not None:
            self._connection.close()
        self._broker = self._connection = None
