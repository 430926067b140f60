"""Connections of a group member: kafka-python's client on its own thread.

Closes the sockets that kafka-python leaves open: those that never connected or failed in the TLS
handshake. Only `connect.clients.groups.member` and its coordinator use this module.
"""

from __future__ import annotations

import logging
import socket
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from kafka.errors import KafkaConnectionError
from kafka.net.compat import KafkaNetClient
from kafka.net.inet import KafkaNetSocket, create_connection
from kafka.net.manager import KafkaConnectionManager
from kafka.net.sasl.oauth import AbstractTokenProvider
from kafka.net.selector import NetworkSelector
from kafka.net.transport import KafkaSSLTransport, KafkaTCPTransport

from connect.clients.config.settings import WireSettings
from connect.clients.security.oauth import TokenProvider
from connect.clients.security.scram import install

__all__ = ["GroupNetwork", "GroupTimeouts", "dead_after_ms"]

# kafka-python's log lines help developers of clients; operators get ours.
_CHATTY = ("kafka.coordinator", "kafka.net", "kafka.cluster", "kafka.future")
# kafka-python chooses the socket class by a proxy's scheme; this one uses no proxy.
_SCHEME = "unproxied"


class GroupTimeouts(NamedTuple):
    """Settings with Java's names: session.timeout.ms, rebalance.timeout.ms,
    heartbeat.interval.ms.
    """

    session_ms: int = 10_000
    rebalance_ms: int = 60_000
    heartbeat_ms: int = 3_000


class _Socket(KafkaNetSocket):  # type: ignore[misc]
    """A plain TCP socket that is closed if it does not connect."""

    SCHEMES = (_SCHEME,)

    async def sock_connect(self, net: Any, sock: socket.socket, *where: Any, **when: Any) -> Any:
        try:
            return await super().sock_connect(net, sock, *where, **when)
        except BaseException:
            sock.close()
            raise


class _Connections(KafkaConnectionManager):  # type: ignore[misc]
    """Connections that remember why the last one failed."""

    def __init__(self, selector: NetworkSelector, **config: object) -> None:
        self.last_failure: BaseException | None = None
        super().__init__(selector, **config)

    def get_connection(self, node_id: object, *arguments: Any, **options: Any) -> Any:
        connection = super().get_connection(node_id, *arguments, **options)
        if not hasattr(connection, "noted"):
            connection.noted = True
            connection.close_future.add_errback(self._note)
        return connection

    async def _build_transport(self, node: Any, timeout_at: float | None = None) -> Any:
        """Return a connected transport. Raises `KafkaConnectionError`."""
        sock = await create_connection(
            self._net,
            node.host,
            node.port,
            self.config["socket_options"],
            proxy_url=f"{_SCHEME}://",
            timeout_at=timeout_at,
        )
        transport = None
        try:
            if self.ssl_enabled:
                tls = {key: value for key, value in self.config.items() if key.startswith("ssl_")}
                transport = KafkaSSLTransport(self._net, sock, host=node.host, **tls)
            else:
                transport = KafkaTCPTransport(self._net, sock, host=node.host)
            await transport.handshake()
        except Exception as error:
            sock.close()
            if transport is not None:
                transport.abort(error)
            raise KafkaConnectionError(f"TLS handshake failed: {error}") from error
        return transport

    def forget_failures(self) -> None:
        """Allow a retry after refused credentials, because they may be fixed on the broker."""
        self._auth_failures.clear()

    def _note(self, error: BaseException) -> None:
        self.last_failure = error


class GroupNetwork:
    """A kafka-python client with a thread of its own, which starts with the object."""

    def __init__(self, settings: WireSettings, timeouts: GroupTimeouts) -> None:
        for name in _CHATTY:
            logger = logging.getLogger(name)
            if logger.level == logging.NOTSET:
                logger.setLevel(logging.CRITICAL)
        install()
        # The thread may wait for the GIL, which needs no log line.
        self.selector = NetworkSelector(client_id=settings.client_id, slow_task_threshold_secs=0)
        self.connections = _Connections(self.selector, **_client_config(settings, timeouts))
        self.client = KafkaNetClient(net=self.selector, manager=self.connections)
        self.selector.start()

    def start(self, coroutine: Callable[..., Any], *arguments: Any) -> Any:
        """Run a coroutine on the network thread. Return its kafka-python future. Thread-safe."""
        return self.selector.call_soon_with_future(coroutine, *arguments)

    @property
    def alive(self) -> bool:
        """Whether the thread runs. It ends when closed, or if kafka-python fails."""
        thread = self.selector._io_thread
        return thread is not None and thread.is_alive()

    def close(self, timeout_s: float) -> None:
        """End the thread, then close the connections, so that nothing uses them meanwhile."""
        self.selector.stop(timeout_s * 1000)
        self.client.close()


def _client_config(settings: WireSettings, timeouts: GroupTimeouts) -> dict[str, object]:
    return {
        "bootstrap_servers": [f"{_bracketed(host)}:{port}" for host, port in settings.bootstrap],
        "client_id": settings.client_id,
        "security_protocol": settings.security_protocol,
        "ssl_context": settings.ssl_context,
        "ssl_check_hostname": settings.ssl_check_hostname,
        "sasl_mechanism": settings.sasl_mechanism,
        **_unblocked(settings.sasl),
        "request_timeout_ms": settings.request_timeout_ms,
        "socket_connection_setup_timeout_ms": settings.socket_connection_setup_timeout_ms,
        "reconnect_backoff_ms": settings.reconnect_backoff_ms,
        "reconnect_backoff_max_ms": settings.reconnect_backoff_max_ms,
        "metadata_max_age_ms": settings.metadata_max_age_ms,
        "socket_options": _socket_options(timeouts),
    }


class _Unblocked(AbstractTokenProvider):  # type: ignore[misc]
    """Never waits, because heartbeats run on the thread that asks. Without a valid token the
    connection fails, and is tried again with the one that arrives meanwhile."""

    def __init__(self, tokens: TokenProvider) -> None:
        super().__init__()
        self._tokens = tokens

    def token(self) -> str:
        token = self._tokens.without_waiting()
        if token is None:
            raise KafkaConnectionError("Waiting for an OAuth token")
        return token.text

    def extensions(self) -> dict[str, str]:
        return self._tokens.extensions()


def _unblocked(sasl: Mapping[str, object]) -> dict[str, object]:
    return {
        name: _Unblocked(value) if isinstance(value, TokenProvider) else value
        for name, value in sasl.items()
    }


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def dead_after_ms(timeouts: GroupTimeouts) -> int:
    """Return how long a connection may be silent before it counts as dead.

    A join is sent within a heartbeat interval of the last heartbeat, from which the coordinator
    counts the session.
    """
    return max(timeouts.heartbeat_ms, timeouts.session_ms - timeouts.heartbeat_ms)


def _socket_options(timeouts: GroupTimeouts) -> list[tuple[int, int, int]]:
    """Return socket options for finding a dead connection within the session timeout.

    They work also while nothing is sent because the coordinator delays a JoinGroup response.
    """
    beat_s = max(1, timeouts.heartbeat_ms // 1000)
    beats = max(1, timeouts.session_ms // timeouts.heartbeat_ms - 1)
    wanted = {
        "TCP_KEEPIDLE": beat_s,
        "TCP_KEEPINTVL": beat_s,
        "TCP_KEEPCNT": beats,
        "TCP_USER_TIMEOUT": dead_after_ms(timeouts),
    }
    return [
        (socket.IPPROTO_TCP, socket.TCP_NODELAY, 1),
        (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
        *(
            (socket.IPPROTO_TCP, getattr(socket, name), value)
            for name, value in wanted.items()
            if hasattr(socket, name)
        ),
    ]
