"""An authenticated connection to one broker for single requests: TCP, TLS, ApiVersions, SASL.

`open_connection` opens it, and `WireConnection.call` sends one request and waits for the response.
It has no retries, metadata or pipelining. The copier takes over the socket of such a connection.

Sockets are non-blocking from the start; every wait is a poll with a deadline. A connection belongs
to one thread at a time.

Frames of the Kafka protocol, big-endian:

    size int32 | correlation id int32 | rest of the header and the body, `size` - 4 bytes
"""

from __future__ import annotations

import select
import socket
import ssl
import struct
from collections.abc import Callable, Mapping
from functools import cache
from importlib import metadata
from typing import TYPE_CHECKING, Any, TypeVar

from kafka.protocol.metadata import ApiVersionsRequest

from connect.clients.errors import error_from_code
from connect.clients.wire import tcp
from connect.clients.wire.message_classes import prepare_responses
from connect.clients.wire.responses import decode_response
from connect.clients.wire.sasl import authenticate
from connect.errors import (
    AuthenticationFailed,
    BrokerError,
    BrokerUnavailable,
    ConnectError,
    CorruptData,
)
from connect.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from connect.clients.config.settings import WireSettings
    from connect.clients.wire.cancellation import Cancellation
    from connect.clock import Deadline

__all__ = ["MAX_FRAME_BYTES", "WireConnection", "open_connection"]

prepare_responses()

T = TypeVar("T")

# By default Java brokers refuse larger requests (socket.request.max.bytes). Responses to the small
# requests made here are far below.
MAX_FRAME_BYTES = 100 * 1024 * 1024
CLIENT_SOFTWARE_NAME = "kafka-connect-mirror"
# The first version that names the client (KIP-511). Version 4 only widens the feature list.
API_VERSIONS_VERSION = 3
# The first bytes of a TLS alert (content type and major version 3), as read in place of a length.
TLS_ALERT = 0x1503
# OpenSSL's reasons for a handshake without a common TLS version: the broker's alert, and ours.
_NO_COMMON_VERSION = frozenset({"TLSV1_ALERT_PROTOCOL_VERSION", "UNSUPPORTED_PROTOCOL"})
# The memory reserved for a frame before its bytes arrive.
FIRST_BUFFER_BYTES = 64 * 1024


class WireConnection:
    """A connection for one request at a time. Not thread-safe.

    Any error of `call` except "no common version" closes the connection.
    """

    def __init__(
        self,
        sock: socket.socket,
        host: str,
        port: int,
        client_id: str,
        cancellation: Cancellation | None = None,
    ) -> None:
        self.sock = sock
        """Non-blocking; an `ssl.SSLSocket` with TLS. Has no unread bytes between calls."""
        self.host = host
        self.port = port
        self.client_id = client_id
        self.api_versions: Mapping[int, tuple[int, int]] = {}
        """Api key -> (lowest, highest) version that the broker supports."""
        self.session_lifetime_ms = 0
        """How long the broker accepts this SASL session (KIP-368), counted from the authentication;
        0 means no limit. Open a new connection before it ends.
        """
        self._cancellation = cancellation
        self._correlation_id = 0
        self._proven = False

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"

    def version_of(self, api_key: int, highest: int, lowest: int = 0, name: str = "") -> int:
        """Return the newest version of an API that both sides support, within `lowest`..`highest`.

        Raises `BrokerError` (UNSUPPORTED_VERSION) if there is none.
        """
        offered = self.api_versions.get(api_key)
        label = name or f"api {api_key}"
        if offered is None:
            raise BrokerError(f"{self} does not support {label}", ErrorCode.UNSUPPORTED_VERSION)
        if lowest > offered[1] or highest < offered[0]:
            raise BrokerError(
                f"{self} supports versions {offered[0]} to {offered[1]} of {label}; this program"
                f" needs {lowest} to {highest}",
                ErrorCode.UNSUPPORTED_VERSION,
            )
        return min(highest, offered[1])

    def call(self, request: Any, deadline: Deadline) -> Any:
        """Send a kafka-python request and return its decoded response.

        A request without a version gets the newest that both sides support. Raises `BrokerError` if
        there is none, `BrokerUnavailable` if the connection is lost, `DeadlineExceeded`,
        `AuthenticationFailed` if the broker refuses our certificate, and `CorruptData` if the
        response is invalid.
        """
        what = f"{request.name} to {self}"
        deadline.check(what)
        self._set_version(request)
        self._correlation_id = (self._correlation_id + 1) & 0x7FFF_FFFF
        request.with_header(correlation_id=self._correlation_id, client_id=self.client_id)
        data = request.encode(header=True, framed=True)

        def ask() -> Any:
            self._send(data, deadline, what)
            return decode_response(request, self._receive_frame(deadline, what), what)

        response = self._or_close(ask, what)
        # Every listener answers ApiVersions; any answer to another request shows that the protocols
        # match.
        self._proven = self._proven or request.API_KEY != ApiVersionsRequest.API_KEY
        return response

    def send_raw(self, frame: bytes, correlation_id: int, deadline: Deadline, what: str) -> None:
        """Send an encoded request, including its size and header. Raises the errors of `call`.

        Call `receive_raw` before the next request. `what` names the request in errors.
        """
        self._correlation_id = correlation_id
        self._or_close(lambda: self._send(frame, deadline, what), what)

    def receive_raw(
        self, deadline: Deadline, what: str, buffer: bytearray | None = None
    ) -> memoryview:
        """Return the body of the response to `send_raw`, after the correlation id.

        It is received into `buffer`, which is enlarged as needed and must have no views. Reusing a
        buffer avoids the cost of fresh memory.
        """
        return self._or_close(lambda: self._receive_frame(deadline, what, buffer), what)[4:]

    def _or_close(self, act: Callable[[], T], what: str) -> T:
        """Run `act`, and close the connection if it fails, because unread bytes would be
        misread.
        """
        try:
            return act()
        except OSError as error:
            self.close()
            raise _connection_error(error, what) from error
        except ConnectError:
            self.close()
            raise

    def detach_cancellation(self) -> None:
        """Let only deadlines end a wait from now on, before a new owner takes the connection."""
        self._cancellation = None

    def close(self) -> None:
        """Close the socket. May be called again."""
        self.sock.close()

    def handshake(self, deadline: Deadline) -> None:
        """Do the TLS handshake of a socket that was just wrapped."""
        what = f"the TLS handshake with {self}"
        sock = self.sock
        assert isinstance(sock, ssl.SSLSocket)
        while True:
            try:
                sock.do_handshake()
            except ssl.SSLWantReadError:
                self._wait(select.POLLIN, deadline, what)
            except ssl.SSLWantWriteError:
                self._wait(select.POLLOUT, deadline, what)
            except (ssl.SSLEOFError, ssl.SSLZeroReturnError, ConnectionResetError) as error:
                raise BrokerUnavailable(
                    f"{what} failed: the broker closed the connection; if the listener does not use"
                    " TLS, set security.protocol to PLAINTEXT or SASL_PLAINTEXT"
                ) from error
            except OSError as error:
                raise _connection_error(error, what) from error
            else:
                return

    def _set_version(self, request: Any) -> None:
        key = request.API_KEY
        if key == ApiVersionsRequest.API_KEY and not self.api_versions:
            return
        if request.API_VERSION is None:
            request.API_VERSION = self.version_of(key, request.max_version, name=request.name)
        else:
            self.version_of(key, request.API_VERSION, request.API_VERSION, request.name)

    def _send(self, data: bytes, deadline: Deadline, what: str) -> None:
        view = memoryview(data)
        while view:
            try:
                view = view[self.sock.send(view) :]
            except (BlockingIOError, ssl.SSLWantWriteError):
                self._wait(select.POLLOUT, deadline, what)
            except ssl.SSLWantReadError:
                self._wait(select.POLLIN, deadline, what)

    def _receive_frame(
        self, deadline: Deadline, what: str, buffer: bytearray | None = None
    ) -> memoryview:
        (size,) = struct.unpack(">i", self._receive(4, deadline, what))
        if not 4 <= size <= MAX_FRAME_BYTES:
            hint = ""
            if size >> 16 == TLS_ALERT:
                hint = "; the listener uses TLS: set security.protocol to SSL or SASL_SSL"
            raise CorruptData(
                f"{what} got a response of {size} bytes, outside the valid range of 4 to"
                f" {MAX_FRAME_BYTES}{hint}"
            )
        frame = self._receive(size, deadline, what, buffer)
        (correlation_id,) = struct.unpack_from(">i", frame)
        if correlation_id != self._correlation_id:
            raise CorruptData(
                f"{what} has correlation id {self._correlation_id}, but its response has"
                f" {correlation_id}"
            )
        return frame

    def _receive(
        self, size: int, deadline: Deadline, what: str, buffer: bytearray | None = None
    ) -> memoryview:
        """Receive a frame, allocating memory as bytes arrive, because its length field may be
        wrong.
        """
        data = bytearray() if buffer is None else buffer
        done = 0
        while done < size:
            if done == len(data):
                data += bytes(min(size - done, max(done, FIRST_BUFFER_BYTES)))
            with memoryview(data)[done:size] as rest:
                done += self._receive_some(rest, deadline, what)
        return memoryview(data)[:size]

    def _receive_some(self, into: memoryview, deadline: Deadline, what: str) -> int:
        """Receive at least one byte, or raise. Return the number of bytes."""
        while True:
            try:
                count = self.sock.recv_into(into)
            except (BlockingIOError, ssl.SSLWantReadError):
                self._wait(select.POLLIN, deadline, what)
            except ssl.SSLWantWriteError:
                self._wait(select.POLLOUT, deadline, what)
            else:
                if count:
                    return count
                hint = "" if self._proven else "; check that security.protocol matches the listener"
                raise BrokerUnavailable(f"{self} closed the connection during {what}{hint}")

    def _wait(self, events: int, deadline: Deadline, what: str) -> None:
        tcp.wait(self.sock, events, deadline, self._cancellation, what)


def open_connection(
    host: str,
    port: int,
    settings: WireSettings,
    deadline: Deadline,
    cancellation: Cancellation | None = None,
) -> WireConnection:
    """Connect to a broker with TCP, TLS and SASL as in `settings`, and read its API versions.

    All addresses of the host name are tried in order, each for at most
    socket.connection.setup.timeout.ms. Setting `cancellation` ends the attempt early; the
    connection stays bound to it until `detach_cancellation`.

    Raises `BrokerUnavailable` or `DeadlineExceeded` if a retry may succeed, and
    `AuthenticationFailed` if the configuration must change.
    """
    sock = tcp.connect(host, port, settings, deadline, cancellation)
    connection = WireConnection(sock, host, port, settings.client_id, cancellation)
    try:
        if settings.ssl_context is not None:
            # Only the resolver gets the name with a final dot; certificates do not contain it.
            connection.sock = settings.ssl_context.wrap_socket(
                sock, server_hostname=host.rstrip("."), do_handshake_on_connect=False
            )
            connection.handshake(deadline)
        connection.api_versions = _api_versions(connection, deadline)
        if settings.sasl_mechanism is not None and settings.security_protocol.startswith("SASL_"):
            connection.session_lifetime_ms = authenticate(connection, settings, deadline)
    except OSError as error:
        connection.close()
        raise _connection_error(error, f"the connection to {host}:{port}") from error
    except BaseException:
        connection.close()
        raise
    return connection


def _api_versions(connection: WireConnection, deadline: Deadline) -> dict[int, tuple[int, int]]:
    request = ApiVersionsRequest(
        version=API_VERSIONS_VERSION,
        client_software_name=CLIENT_SOFTWARE_NAME,
        client_software_version=_software_version(),
    )
    response = connection.call(request, deadline)
    if response.error_code == ErrorCode.UNSUPPORTED_VERSION:
        response = connection.call(ApiVersionsRequest(version=0), deadline)
    if response.error_code:
        raise error_from_code(response.error_code, f"ApiVersionsRequest to {connection}")
    return {api.api_key: (api.min_version, api.max_version) for api in response.api_keys}


@cache
def _software_version() -> str:
    try:
        return metadata.version(CLIENT_SOFTWARE_NAME)
    except metadata.PackageNotFoundError:
        # The source tree is not installed as a package.
        return "unknown"


def _connection_error(error: OSError, what: str) -> ConnectError:
    """Return a retriable error for a lost connection, and a fatal one for TLS errors."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return AuthenticationFailed(
            f"{what} failed: the broker's certificate is not accepted: "
            f"{error.verify_message.rstrip('.')}; "
            f"check ssl.truststore.* and ssl.endpoint.identification.algorithm"
        )
    if isinstance(error, ssl.SSLError) and error.reason in _NO_COMMON_VERSION:
        return AuthenticationFailed(
            f"{what} failed: the broker speaks none of the TLS versions in ssl.enabled.protocols "
            f"({error.reason})"
        )
    if (
        isinstance(error, ssl.SSLError)
        and error.reason
        and not isinstance(error, ssl.SSLEOFError | ssl.SSLZeroReturnError)
    ):
        return AuthenticationFailed(
            f"{what} failed with TLS error {error.reason}; check security.protocol and ssl.*"
        )
    return BrokerUnavailable(f"{what} failed: {error.strerror or type(error).__name__}")
