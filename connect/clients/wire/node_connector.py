"""Open connections to the nodes of one cluster, as often as the reconnect backoff allows."""

from __future__ import annotations

import random
import threading

from connect.clients.config.settings import WireSettings
from connect.clients.wire.cancellation import Cancellation
from connect.clients.wire.connection import WireConnection, open_connection
from connect.clock import Clock, Deadline
from connect.errors import BrokerUnavailable, ConnectError

__all__ = ["Address", "KeptConnection", "NodeConnector"]

Address = tuple[str, int]


class NodeConnector:
    """Opens connections with a backoff for each address. Safe to call from any thread."""

    def __init__(self, settings: WireSettings, cancellation: Cancellation, clock: Clock) -> None:
        self._settings = settings
        self._cancellation = cancellation
        self._clock = clock
        self._lock = threading.Lock()
        self._failures: dict[Address, tuple[int, float]] = {}

    def open(self, address: Address, deadline: Deadline) -> WireConnection:
        """Wait for the address's backoff, then connect. Raises the errors of `open_connection`."""
        pause = self._pause(address)
        if pause > deadline.remaining():
            self._cancellation.wait(deadline.remaining())
            raise BrokerUnavailable(
                f"{address[0]}:{address[1]} failed before; its reconnect backoff is not over"
            )
        if pause and self._cancellation.wait(pause):
            raise BrokerUnavailable(f"connecting to {address[0]}:{address[1]} was cancelled")
        try:
            connection = open_connection(
                *address, self._settings, deadline, cancellation=self._cancellation
            )
        except ConnectError:
            self.failed(address)
            raise
        self.succeeded(address)
        return connection

    def failed(self, address: Address) -> None:
        """Double the backoff of this address."""
        settings = self._settings
        with self._lock:
            count, _ = self._failures.get(address, (0, 0.0))
            pause = settings.reconnect_backoff_s(count)
            self._failures[address] = (count + 1, self._clock.monotonic() + pause)

    def succeeded(self, address: Address) -> None:
        with self._lock:
            self._failures.pop(address, None)

    def _pause(self, address: Address) -> float:
        with self._lock:
            _, until = self._failures.get(address, (0, 0.0))
        return max(0.0, until - self._clock.monotonic())


class KeptConnection:
    """A connection for one thread, opened when needed and replaced before its SASL session ends."""

    def __init__(self, connector: NodeConnector, clock: Clock) -> None:
        self._connector = connector
        self._clock = clock
        self._connection: WireConnection | None = None
        self._address: Address | None = None
        self._expires = 0.0

    def get(self, address: Address, deadline: Deadline) -> WireConnection:
        """Return the open connection, to whichever node, or open one to `address`."""
        if self._connection is not None and self._clock.monotonic() < self._expires:
            return self._connection
        self.close()
        self._address = address
        self._connection = self._connector.open(address, deadline)
        lifetime_ms = self._connection.session_lifetime_ms
        # As in Java's clients, so that not all of them reauthenticate at once.
        share = random.uniform(0.85, 0.95)
        self._expires = (
            self._clock.monotonic() + lifetime_ms / 1000 * share if lifetime_ms else float("inf")
        )
        return self._connection

    def succeeded(self) -> None:
        if self._address is not None:
            self._connector.succeeded(self._address)

    def lost(self) -> None:
        """Drop a connection that was opened but failed, and back off from its address."""
        if self._connection is not None and self._address is not None:
            self._connector.failed(self._address)
        self.close()

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None
