"""TCP connections with deadlines: resolve, try every address, wait for readiness.

Sockets are non-blocking. Every wait ends with the socket, the deadline or a `Cancellation`.
"""

from __future__ import annotations

import errno
import math
import os
import queue
import select
import socket
from typing import TYPE_CHECKING, Any

from connect.errors import BrokerUnavailable, DeadlineExceeded
from connect.log_fields import OwnedThread

if TYPE_CHECKING:
    from connect.clients.config.settings import WireSettings
    from connect.clients.wire.cancellation import Cancellation
    from connect.clock import Deadline

__all__ = ["connect", "resolve", "wait"]

# How often a wait for the resolver, which cannot be interrupted, checks for a cancellation.
RESOLVE_SLICE_S = 0.1
MAX_POLL_MS = 2**31 - 1


def connect(
    host: str,
    port: int,
    settings: WireSettings,
    deadline: Deadline,
    cancellation: Cancellation | None,
) -> socket.socket:
    """Connect to the first address of a host name that answers.

    Each address is tried for at most socket.connection.setup.timeout.ms. Raises `BrokerUnavailable`
    with the reason of each failure.
    """
    if not 0 < port < 1 << 16:
        raise BrokerUnavailable(f"{host}:{port} is not a valid address: use a port from 1 to 65535")
    failures: list[str] = []
    for family, address in resolve(host, port, deadline, cancellation):
        limit = min(deadline.remaining(), settings.socket_connection_setup_timeout_ms / 1000)
        sock = socket.socket(family, socket.SOCK_STREAM)
        try:
            _set_options(sock, settings)
            failure = _try_connect(sock, address, limit, cancellation)
        except BaseException:
            sock.close()
            raise
        if failure is None:
            return sock
        sock.close()
        failures.append(f"{address[0]}: {failure}")
        if cancellation is not None and cancellation.is_set():
            break
    raise BrokerUnavailable(f"cannot connect to {host}:{port} ({'; '.join(failures)})")


def _set_options(sock: socket.socket, settings: WireSettings) -> None:
    sock.setblocking(False)
    if settings.send_buffer_bytes != -1:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, settings.send_buffer_bytes)
    if settings.receive_buffer_bytes != -1:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, settings.receive_buffer_bytes)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)


def _try_connect(
    sock: socket.socket, address: Any, limit: float, cancellation: Cancellation | None
) -> str | None:
    """Connect within `limit` seconds. Return the failure, or None."""
    try:
        code = sock.connect_ex(address)
    except OSError as error:
        code = error.errno or errno.EINVAL
    if code == errno.EINPROGRESS:
        if not _poll(sock, select.POLLOUT, limit, cancellation):
            return f"no response within {limit:g} s"
        if cancellation is not None and cancellation.is_set():
            return "cancelled"
        code = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
    return None if code == 0 else os.strerror(code)


def resolve(
    host: str, port: int, deadline: Deadline, cancellation: Cancellation | None
) -> list[tuple[int, Any]]:
    """Return the addresses of a host name. Raises `BrokerUnavailable`.

    The resolver runs on a thread that is abandoned at the deadline, because it cannot be
    interrupted and has timeouts of its own.
    """
    try:
        return _addresses(host, port, socket.AI_NUMERICHOST)
    except socket.gaierror:
        pass
    except ValueError as error:
        raise BrokerUnavailable(f"{host!r} is not a valid host name: {error}") from error
    answers: queue.SimpleQueue[list[tuple[int, Any]] | OSError] = queue.SimpleQueue()

    def look_up() -> None:
        try:
            answers.put(_addresses(host, port, 0))
        except OSError as error:
            answers.put(error)

    OwnedThread(look_up, f"resolve-{host}").start()
    while not deadline.expired():
        try:
            answer = answers.get(timeout=min(RESOLVE_SLICE_S, deadline.remaining()))
        except queue.Empty:
            if cancellation is not None and cancellation.is_set():
                break
            continue
        if isinstance(answer, OSError):
            raise BrokerUnavailable(f"cannot resolve {host}:{port}: {answer.strerror}") from answer
        return answer
    raise BrokerUnavailable(f"resolving {host}:{port} did not finish in time")


def _addresses(host: str, port: int, flags: int) -> list[tuple[int, Any]]:
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=flags)
    return [(family, address) for family, _, _, _, address in found]


def wait(
    sock: socket.socket,
    events: int,
    deadline: Deadline,
    cancellation: Cancellation | None,
    what: str,
) -> None:
    """Wait until the socket is ready for `events` (as in select.poll).

    Raises `DeadlineExceeded`, or `BrokerUnavailable` if cancelled; `what` begins their text.
    """
    if not _poll(sock, events, deadline.remaining(), cancellation):
        deadline.check(what)
        raise DeadlineExceeded(f"{what} did not finish in time")
    if cancellation is not None and cancellation.is_set():
        raise BrokerUnavailable(f"{what} was cancelled")


def _poll(
    sock: socket.socket, events: int, seconds: float, cancellation: Cancellation | None
) -> bool:
    poller = select.poll()
    poller.register(sock, events)
    if cancellation is not None:
        poller.register(cancellation, select.POLLIN)
    return bool(poller.poll(min(math.ceil(seconds * 1000), MAX_POLL_MS)))
