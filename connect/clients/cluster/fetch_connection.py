"""One broker's part of a `TopicReader`: a connection, kept up, with one fetch under way on it.

Everything here runs on the reader's thread.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import CancelledError, Future
from typing import Literal

from connect.clients.cluster.cluster_link import ClusterLink
from connect.clients.cluster.fetch_session import FetchSession
from connect.clients.config.settings import WireSettings
from connect.clients.errors import error_from_code
from connect.clients.wire.channel import BufferPool, Channel, Response
from connect.clients.wire.connection import WireConnection
from connect.clients.wire.selector_loop import READ, WRITE, SelectorLoop
from connect.errors import BrokerUnavailable, ConnectError
from connect.loop import Backoff
from connect.protocol.error_codes import ErrorCode
from connect.protocol.messages import (
    FETCH_API,
    FETCH_VERSION,
    FetchResponse,
    encode_fetch,
    parse_fetch,
)

__all__ = ["FetchConnection"]

FETCH_WAIT_MS = 500
"""How long a broker holds a fetch back that it has no records for: Java's fetch.max.wait.ms."""

_FETCH_BYTES = 8 * 1024 * 1024
_MIN_BYTES = 1
# A connection that is silent for so long beyond a fetch's own wait is given up: its broker may be
# stopped or cut off, and asking again is safe.
_SILENCE_S = 5.0
# A SASL session is replaced after this share of its lifetime, as Java does (85 to 95 %).
_RENEW_AT = 0.85
_STALE_SESSION = (ErrorCode.FETCH_SESSION_ID_NOT_FOUND, ErrorCode.INVALID_FETCH_SESSION_EPOCH)
"""The broker has forgotten the session."""


class FetchConnection:
    """The owner puts partitions into `session`, then calls `pump`."""

    def __init__(
        self,
        node_id: int,
        link: ClusterLink,
        settings: WireSettings,
        loop: SelectorLoop,
        pool: BufferPool,
        isolation: Literal[0, 1],
        on_answer: Callable[[FetchConnection, FetchResponse], None],
        on_lost: Callable[[FetchConnection, ConnectError], None],
    ) -> None:
        """`on_answer` gets each answer that is none of the whole request's errors; its memory is
        used again when `on_answer` returns. `on_lost` gets why there is no connection."""
        self.node_id = node_id
        self.session = FetchSession()
        self._link = link
        self._settings = settings
        self._loop = loop
        self._pool = pool
        self._isolation = isolation
        self._on_answer = on_answer
        self._on_lost = on_lost
        self._channel: Channel | None = None
        self._connecting: Future[WireConnection] | None = None
        self._backoff = Backoff(
            settings.reconnect_backoff_ms / 1000, settings.reconnect_backoff_max_ms / 1000
        )
        self._pause_until = 0.0
        self._renew_at = float("inf")
        self._closed = False

    def pump(self) -> None:
        """Send the next fetch, if there is something to fetch and none is under way."""
        if self._closed or self.session.empty:
            return
        now = self._loop.now()
        if now < self._pause_until:
            return
        channel = self._channel
        if channel is not None and not channel.in_flight and now >= self._renew_at:
            self._drop_channel()
            channel = None
        if channel is None:
            self._connect()
        elif not channel.in_flight:
            self._fetch(channel)

    def pause(self, seconds: float) -> None:
        """Send nothing for so long."""
        self._pause_until = self._loop.now() + seconds
        self._loop.after(seconds, self.pump)

    def check(self) -> None:
        """Give up a connection whose answer is overdue. Called about once a second."""
        channel = self._channel
        if channel is None or channel.next_deadline is None:
            return
        if channel.next_deadline < self._loop.now():
            self._lost(BrokerUnavailable(f"{channel.name} did not answer a fetch in time"))

    def close(self) -> None:
        self._closed = True
        self._drop_channel()
        if self._connecting is not None:
            self._connecting.add_done_callback(_close_result)
            self._connecting = None

    def _fetch(self, channel: Channel) -> None:
        request = self.session.next_request()
        body = encode_fetch(
            request.partitions,
            request.forgotten,
            max_wait_ms=FETCH_WAIT_MS,
            min_bytes=_MIN_BYTES,
            max_bytes=_FETCH_BYTES,
            isolation=self._isolation,
            session_id=request.session_id,
            session_epoch=request.epoch,
            rack="",
        )
        deadline = self._loop.now() + FETCH_WAIT_MS / 1000 + _SILENCE_S
        try:
            channel.send(FETCH_API, FETCH_VERSION, [body], len(body), deadline, self._answered)
            self._loop.update(channel)
        except ConnectError as error:
            self._lost(error)

    def _answered(self, response: Response) -> None:
        try:
            fetched = parse_fetch(response.body)
            self._backoff.reset()
            if fetched.throttle_ms > 0:
                self.pause(fetched.throttle_ms / 1000)
            if fetched.error:
                self.session.reset()
                if fetched.error not in _STALE_SESSION:
                    self.pause(self._backoff.next())
                    self._on_lost(
                        self, error_from_code(fetched.error, f"Fetch from {self._name()}")
                    )
            else:
                self.session.accepted(fetched.session_id)
                self._on_answer(self, fetched)
        finally:
            response.body.release()
            self._pool.release(response.buffer)
        self.pump()

    def _name(self) -> str:
        return f"broker {self.node_id}" if self._channel is None else self._channel.name

    def _connect(self) -> None:
        if self._connecting is not None:
            return
        future = self._link.connect(self.node_id)
        self._connecting = future
        future.add_done_callback(lambda done: self._loop.post(lambda: self._connected(done)))

    def _connected(self, future: Future[WireConnection]) -> None:
        if self._connecting is not future:
            return
        self._connecting = None
        try:
            connection = future.result(timeout=0)
        except CancelledError:
            return
        except ConnectError as error:
            self._lost(error)
            return
        try:
            connection.version_of(FETCH_API, FETCH_VERSION, FETCH_VERSION, "FetchRequest")
        except ConnectError as error:
            connection.close()
            self._lost(error)
            return
        lifetime_s = connection.session_lifetime_ms / 1000
        self._renew_at = self._loop.now() + lifetime_s * _RENEW_AT if lifetime_s else float("inf")
        self._channel = Channel(connection, self._settings.client_id, self._pool)
        self._loop.watch(self._channel, self._on_event)
        self.pump()

    def _on_event(self, mask: int) -> None:
        channel = self._channel
        if channel is None:
            return
        try:
            if mask & WRITE:
                channel.flush()
            if mask & READ:
                channel.receive()
            if self._channel is channel:
                self._loop.update(channel)
        except ConnectError as error:
            if self._channel is channel:
                self._lost(error)

    def _lost(self, error: ConnectError) -> None:
        self._drop_channel()
        self._link.request_refresh()
        self.pause(self._backoff.next())
        self._on_lost(self, error)

    def _drop_channel(self) -> None:
        self.session.reset()
        if self._channel is not None:
            self._loop.unwatch(self._channel)
            self._channel.close()
            self._channel = None


def _close_result(future: Future[WireConnection]) -> None:
    if not future.cancelled() and future.exception(timeout=0) is None:
        future.result(timeout=0).close()
