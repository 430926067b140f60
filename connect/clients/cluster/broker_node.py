"""A connection to one broker, opened on demand and reopened after a failure.

`BrokerNode` owns the connection; its subclasses decide which requests are sent. Everything here
runs on the thread of its loop.
"""

from __future__ import annotations

import logging
from concurrent.futures import CancelledError, Future

from connect.clients.cluster.cluster_access import ClusterAccess
from connect.clients.config.settings import WireSettings
from connect.clients.wire.channel import BufferPool, Channel
from connect.clients.wire.connection import WireConnection
from connect.clients.wire.selector_loop import READ, WRITE, SelectorLoop
from connect.errors import BrokerUnavailable, ConnectError, CorruptData

__all__ = ["PATIENCE_S", "BrokerNode"]

_LOG = logging.getLogger(__name__)

RENEW_AT = 0.85
"""Replace a SASL session after this share of its lifetime (Java: 85 to 95 %)."""

_RENEW_POLL_S = 0.05

MOST_THROTTLE_S = 300.0
"""The longest throttle time that is honoured: brokers measure quotas over seconds."""

PATIENCE_S = 5.0
"""Replace a connection that awaits a response but received no byte for this long, because it may be
half open. Fetches and idempotent produce requests can be repeated safely. Each replacement that did
not help doubles the time, up to the request timeout."""


class BrokerNode:
    """The connection to one broker of one cluster."""

    role = "broker"
    speaks: tuple[int, int, str]
    """API key, API version and API name of the requests on the connection."""

    def __init__(
        self,
        node_id: int,
        link: ClusterAccess,
        settings: WireSettings,
        loop: SelectorLoop,
        pool: BufferPool,
    ) -> None:
        self.node_id = node_id
        self.channel: Channel | None = None
        self.error: str | None = None
        self._link = link
        self._settings = settings
        self._loop = loop
        self._pool = pool
        self._connecting: Future[WireConnection] | None = None
        self._retry_pending = False
        self._renewing = False
        self._losing = False
        self._failures = 0
        self._closed = False
        self.round_trip_s = 0.0
        """The round-trip time measured by the system, 0 if unknown."""
        self._heard_bytes = 0
        self._heard_at = loop.now()
        self.throttled_at = float("-inf")
        """When the broker last throttled this client because of a configured quota."""
        self._stalls = 0
        self._counted: tuple[int, int, Channel | None] = (0, 0, None)
        """Bytes of earlier connections, and the current one, which has its own. One tuple, because
        another thread reads it, and a count must not go back."""

    # Hooks for subclasses.

    def needed(self) -> bool:
        """Whether there is work for a connection."""
        raise NotImplementedError

    def pump(self) -> None:
        """Send all requests that can be sent now."""
        raise NotImplementedError

    def on_lost(self, error: ConnectError) -> None:
        """Handle a lost or failed connection; `error` is the cause. Sends nothing."""
        raise NotImplementedError

    def on_connected(self) -> None:
        """Handle a new connection."""

    def on_received(self) -> None:
        """Continue after all responses that arrived together were handled."""

    @property
    def patience_s(self) -> float:
        """How long a healthy broker may take to send the first byte of its response."""
        return PATIENCE_S

    @property
    def connected(self) -> bool:
        return self.channel is not None

    @property
    def bytes(self) -> tuple[int, int]:
        """Return the bytes read from the broker and sent to it, over all connections so far. From
        any thread."""
        read, sent, channel = self._counted
        return (
            (read, sent) if channel is None else (read + channel.bytes_in, sent + channel.bytes_out)
        )

    # Opening and closing the connection.

    @property
    def sendable(self) -> bool:
        """Return whether requests may be sent now. If not, start what is needed first."""
        channel = self.channel
        if channel is None:
            self._connect()
            return False
        if self._renewing or self._losing:
            return False
        wait = channel.throttled_until - self._loop.now()
        return wait <= 0

    def throttle(self, milliseconds: int) -> None:
        """Send nothing for the throttle time that the broker returned (KIP-219)."""
        if milliseconds > 0:
            self.throttled_at = self._loop.now()
        if milliseconds > 0 and self.channel is not None:
            seconds = min(milliseconds / 1000, MOST_THROTTLE_S)
            until = self._loop.now() + seconds
            self.channel.throttled_until = max(until, self.channel.throttled_until)
            self.channel.postpone(seconds)
            self._loop.after(seconds, self._pump_if_open)

    @property
    def listed(self) -> bool:
        """Whether the cluster's metadata has the broker, or there is no metadata yet."""
        known = self._link.snapshot.nodes
        return not known or self.node_id in known

    def _connect(self) -> None:
        if self._connecting is not None or self._retry_pending or self._closed:
            return
        try:
            future = self._link.connect(self.node_id)
        except ConnectError as error:
            self._failed(error)
            return
        self._connecting = future
        future.add_done_callback(lambda done: self._loop.post(lambda: self._connected(done)))

    def _connected(self, future: Future[WireConnection]) -> None:
        if self._connecting is not future:
            _close_result(future)
            return
        self._connecting = None
        try:
            connection = future.result(timeout=0)
        except CancelledError:
            return
        except ConnectError as error:
            self._failed(error)
            return
        if self._closed:
            connection.close()
            return
        api, version, name = self.speaks
        try:
            connection.version_of(api, version, version, name)
        except ConnectError as error:
            connection.close()
            self._failed(error)
            return
        self.channel = Channel(connection, self._settings.client_id, self._pool)
        self._counted = (*self.bytes, self.channel)
        self.round_trip_s = self.channel.round_trip_s()
        self._heard_bytes, self._heard_at = 0, self._loop.now()
        self._loop.watch(self.channel, self._on_event)
        self.error = None
        lifetime = connection.session_lifetime_ms / 1000
        if lifetime > 0:
            channel = self.channel
            self._loop.after(lifetime * RENEW_AT, lambda: self._renew(channel))
        self.on_connected()
        self.pump()

    def _failed(self, error: ConnectError) -> None:
        self._failures += 1
        self.error = str(error)
        level = logging.WARNING if self._failures in (1, 10) else logging.DEBUG
        _LOG.log(level, "%s %d: %s; retrying", self.role, self.node_id, error)
        self._retry_pending = True
        self._loop.after(self._settings.reconnect_backoff_s(self._failures - 1), self._retry)
        self._link.request_refresh()
        self.on_lost(error)

    def _retry(self) -> None:
        self._retry_pending = False
        if not self._closed and self.channel is None and self.needed():
            self._connect()

    def _renew(self, channel: Channel | None) -> None:
        """Replace a connection whose SASL session ends soon, once no request is in flight."""
        if self.channel is not channel or channel is None:
            return
        self._renewing = True
        if channel.in_flight:
            self._loop.after(_RENEW_POLL_S, lambda: self._renew(channel))
            return
        self._drop_channel()
        self._connect()

    def _on_event(self, mask: int) -> None:
        channel = self.channel
        if channel is None:
            return
        try:
            if mask & WRITE:
                channel.flush()
            if mask & READ:
                channel.receive()
        except ConnectError as error:
            if self.channel is channel:
                self.lose(error)
            return
        if self.channel is channel:
            if mask & READ:
                self.on_received()
            self._loop.update(channel)

    def check_deadline(self, now: float) -> None:
        """Close the connection if its oldest request timed out or it fell silent. Open one if there
        is work.

        Called every second.
        """
        channel = self.channel
        if channel is None:
            # A broker that was missing from the metadata does not retry by itself.
            if self.needed():
                self._connect()
            return
        self.round_trip_s = channel.round_trip_s()
        deadline = channel.next_deadline
        if deadline is not None and deadline < now:
            self.lose(BrokerUnavailable(f"{self.role} {channel.name} did not respond in time"))
        elif self._fell_silent(channel, now):
            self._stalls += 1
            why = f"{self.role} {channel.name} sent nothing for {now - self._heard_at:.0f} s"
            self.lose(BrokerUnavailable(why))

    def _fell_silent(self, channel: Channel, now: float) -> bool:
        """Return whether a response is awaited and no byte came for longer than the patience.

        Called every second.
        """
        if channel.bytes_in != self._heard_bytes:
            self._stalls = 0
        if channel.bytes_in != self._heard_bytes or not channel.in_flight:
            self._heard_bytes, self._heard_at = channel.bytes_in, now
        most = self._settings.request_timeout_ms / 1000
        patience = min(self.patience_s * 2.0**self._stalls, most)
        return now - max(self._heard_at, channel.throttled_until) > patience

    def lose_soon(self, channel: Channel, error: ConnectError) -> None:
        """Close the connection after the current event, because sending failed.

        Partitions do not change in the middle of sending.
        """
        self._losing = True
        self._loop.soon(lambda: self._lose_if_open(channel, error))

    def _lose_if_open(self, channel: Channel, error: ConnectError) -> None:
        if self.channel is channel and not self._closed:
            self.lose(error)

    def lose(self, error: ConnectError) -> None:
        """Close the failed connection, notify the subclass, and reconnect if there is work.

        A connection that never returned a valid response counts as a failed attempt, so the backoff
        before the next one grows.
        """
        channel = self.channel
        idle = channel is None or channel.in_flight == 0
        self._drop_channel()
        if channel is not None and (not channel.responses or isinstance(error, CorruptData)):
            self._failed(error)
            return
        self._failures = 0
        if not idle:
            _LOG.warning("%s %d: %s", self.role, self.node_id, error)
        self._link.request_refresh()
        self.on_lost(error)
        if self.needed():
            self._connect()

    def _drop_channel(self) -> None:
        if self.channel is not None:
            self._loop.unwatch(self.channel)
            self.channel.close()
            self._counted = (*self.bytes, None)
            self.channel = None
        self._renewing = self._losing = False

    def _pump_if_open(self) -> None:
        if not self._closed:
            self.pump()

    def close(self) -> None:
        """Close the connection for good."""
        self._closed = True
        self._drop_channel()
        if self._connecting is not None:
            pending, self._connecting = self._connecting, None
            pending.add_done_callback(_close_result)


def _close_result(future: Future[WireConnection]) -> None:
    if not future.cancelled() and future.exception(timeout=0) is None:
        future.result(timeout=0).close()
