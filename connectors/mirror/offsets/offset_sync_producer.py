"""Writes offset syncs and offset map pages, without ever making the copier wait.

One confluent-kafka producer for both topics: they are on the same cluster, with the same client
properties. Belongs to the task's thread; delivery reports come inside `poll`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from concurrent.futures import Future
from typing import TYPE_CHECKING, Protocol

from confluent_kafka import KafkaError, KafkaException

from connect.clients.errors import from_librdkafka, not_authorized
from connect.clock import Deadline
from connect.errors import ConnectError, RetriableError
from connectors.mirror.formats import OffsetSync

if TYPE_CHECKING:
    from confluent_kafka import Message

__all__ = ["OffsetSyncProducer", "RecordProducer"]

_LOG = logging.getLogger(__name__)

_PAGES = "Pages of the offset map"

MAX_SYNCS_IN_FLIGHT = 10
"""As MirrorMaker 2: more wait, and only the newest of each partition."""


class RecordProducer(Protocol):
    """As much of a confluent-kafka producer as is used here."""

    def produce(
        self,
        topic: str,
        *,
        value: bytes | None,
        key: bytes,
        partition: int,
        on_delivery: Callable[[KafkaError | None, Message], None],
    ) -> None:
        """Queue a record. Raises BufferError where the queue is full."""

    def poll(self, timeout: float) -> int:
        """Call the `on_delivery` of records that were delivered, or could not be."""

    def purge(self) -> None:
        """Drop what is queued."""


class OffsetSyncProducer:
    """See the module."""

    def __init__(self, producer: RecordProducer, syncs_topic: str, map_topic: str) -> None:
        """Args: producer: of the cluster that hosts both topics."""
        self._producer = producer
        self._syncs_topic = syncs_topic
        self._map_topic = map_topic
        self._pending: dict[tuple[str, int], OffsetSync] = {}
        self._syncs_in_flight = 0
        self._undelivered = 0
        self._troubles: dict[str, str] = {}
        self._told: dict[str, str] = {}
        self._map_works = False

    @property
    def trouble(self) -> str | None:
        """Why what was last to be written to one of the topics was not; None: it was."""
        return "\n".join(self._troubles.values()) or None

    def _note(self, what: str, error: ConnectError | None) -> None:
        """Each reason is logged once, until writing works again."""
        if error is None:
            self._troubles.pop(what, None)
            self._told.pop(what, None)
            return
        text = f"{what} are not written, so groups are translated to earlier places: {error}"
        if self._told.get(what) != text:
            _LOG.warning("%s", text)
        self._told[what] = text
        if what == _PAGES and not self._map_works and not_authorized(error):
            return  # permissions for MirrorMaker 2, which has no map: such a flow is well
        self._troubles[what] = text

    # Offset syncs: best effort, as in Java.

    def sync(self, sync: OffsetSync) -> None:
        """Send this sync soon; a newer one of the same partition replaces one that waits for syncs
        in flight. As with MirrorMaker 2 the first sync of a partition is written: groups behind the
        others are translated by it."""
        if (sync.topic, sync.partition) in self._pending:
            self.flush_syncs()
        self._pending[sync.topic, sync.partition] = sync

    def flush_syncs(self) -> None:
        """Send what waits, as far as the bound on syncs in flight allows."""
        while self._pending and self._syncs_in_flight < MAX_SYNCS_IN_FLIGHT:
            key = next(iter(self._pending))
            sync = self._pending[key]
            try:
                self._send(self._syncs_topic, sync.key(), sync.value(), self._sync_delivered)
            except BufferError:
                return  # the producer's queue is full: the next turn tries again
            del self._pending[key]
            self._syncs_in_flight += 1

    def _sync_delivered(self, error: ConnectError | None) -> None:
        self._syncs_in_flight -= 1
        self._note("Offset syncs", error)

    # Map pages: awaited before the offsets they explain are stored.

    def write_pages(self, pages: list[tuple[bytes, bytes | None]]) -> Future[None]:
        """Write (key, value) pages. Done when the last is acknowledged; fails with the first
        error."""
        result: Future[None] = Future()
        left = len(pages)
        failed: list[ConnectError] = []

        def delivered(error: ConnectError | None) -> None:
            nonlocal left
            left -= 1
            if error is not None:
                failed.append(error)
            if left == 0:
                self._map_works = self._map_works or not failed
                self._note(_PAGES, failed[0] if failed else None)
                if failed:
                    result.set_exception(failed[0])
                else:
                    result.set_result(None)

        for key, value in pages:
            try:
                self._send(self._map_topic, key, value, delivered)
            except BufferError:
                delivered(RetriableError("the producer's queue is full: the cluster is too slow"))
        if not pages:
            result.set_result(None)
        return result

    def _send(
        self,
        topic: str,
        key: bytes,
        value: bytes | None,
        delivered: Callable[[ConnectError | None], None],
    ) -> None:
        what, needs = f"a write to {topic}", f"Write on topic {topic}"

        def on_delivery(error: KafkaError | None, _: Message) -> None:
            self._undelivered -= 1
            delivered(None if error is None else from_librdkafka(error, what, needs))

        try:
            self._producer.produce(
                topic, value=value, key=key, partition=0, on_delivery=on_delivery
            )
        except KafkaException as error:
            # The client knows already that the topic may not be written, say.
            delivered(from_librdkafka(error.args[0], what, needs))
        else:
            self._undelivered += 1

    def poll(self) -> None:
        """Take delivery reports. Call often; returns at once."""
        if self._undelivered:
            self._producer.poll(0)
        if self._pending:
            self.flush_syncs()

    def close(self, deadline: Deadline) -> None:
        """Send what waits, within the deadline."""
        while (self._pending or self._undelivered) and not deadline.expired():
            self.flush_syncs()
            self._producer.poll(min(0.05, deadline.remaining()))
        if self._pending or self._undelivered:
            _LOG.warning(
                "%d offset syncs and map pages were not written before the task closed",
                len(self._pending) + self._undelivered,
            )
            self._producer.purge()
