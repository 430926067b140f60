"""A `TopicReader`'s connection to one broker, with at most one fetch in flight.

Everything here runs on the reader's thread.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from connect.clients.cluster.broker_node import PATIENCE_S, BrokerNode
from connect.clients.cluster.cluster_link import ClusterLink
from connect.clients.cluster.fetch_session import STALE_SESSION, FetchSession
from connect.clients.config.settings import WireSettings
from connect.clients.errors import error_from_code
from connect.clients.wire.channel import BufferPool, Channel, Response
from connect.clients.wire.selector_loop import SelectorLoop
from connect.errors import ConnectError
from connect.protocol.messages import (
    FETCH_API,
    FETCH_VERSION,
    FetchResponse,
    encode_fetch,
    parse_fetch,
)

__all__ = ["FetchConnection"]

FETCH_WAIT_MS = 500
"""The longest time a broker delays a fetch without records: Java's fetch.max.wait.ms."""

_FETCH_BYTES = 8 * 1024 * 1024
_MIN_BYTES = 1


class FetchConnection(BrokerNode):
    """A connection to one broker. The owner adds partitions to `session`, then calls `pump`."""

    speaks = (FETCH_API, FETCH_VERSION, "FetchRequest")

    def __init__(
        self,
        node_id: int,
        link: ClusterLink,
        settings: WireSettings,
        loop: SelectorLoop,
        pool: BufferPool,
        isolation: Literal[0, 1],
        on_answer: Callable[[FetchConnection, FetchResponse], None],
        on_failed: Callable[[FetchConnection, ConnectError], None],
    ) -> None:
        """Set the connection up without opening it.

        `on_answer` gets each response without a top-level error; its memory is reused after
        `on_answer` returns. `on_failed` gets the reason why nothing can be fetched now.
        """
        super().__init__(node_id, link, settings, loop, pool)
        self.session = FetchSession()
        self._isolation = isolation
        self._on_answer = on_answer
        self._on_failed = on_failed
        self._refused = 0
        self._pause_until = 0.0

    def needed(self) -> bool:
        return not self.session.empty

    @property
    def patience_s(self) -> float:
        return PATIENCE_S + FETCH_WAIT_MS / 1000

    def pump(self) -> None:
        """Send the next fetch, if there is something to fetch and none is in flight."""
        if self._closed or self.session.empty or self._loop.now() < self._pause_until:
            return
        if self.sendable and self.channel is not None and not self.channel.in_flight:
            self._fetch(self.channel)

    def pause(self, seconds: float) -> None:
        """Send nothing for this long."""
        self._pause_until = self._loop.now() + seconds
        self._loop.after(seconds, self.pump)

    def on_lost(self, error: ConnectError) -> None:
        self.session.reset()
        self._on_failed(self, error)

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
        deadline = self._loop.now() + self._settings.request_timeout_ms / 1000
        try:
            channel.send(FETCH_API, FETCH_VERSION, [body], len(body), deadline, self._answered)
            self._loop.update(channel)
        except ConnectError as error:
            self.lose_soon(channel, error)

    def _answered(self, response: Response) -> None:
        try:
            fetched = parse_fetch(response.body)
            self.throttle(fetched.throttle_ms)
            if not fetched.error:
                self._refused = 0
                self.session.accepted(fetched.session_id)
                self._on_answer(self, fetched)
            else:
                self.session.reset()
                if fetched.error not in STALE_SESSION:
                    self.pause(self._settings.reconnect_backoff_s(self._refused))
                    self._refused += 1
                    what = f"Fetch from broker {self.node_id}"
                    self._on_failed(self, error_from_code(fetched.error, what))
        finally:
            response.body.release()
            self._pool.release(response.buffer)
        self.pump()
