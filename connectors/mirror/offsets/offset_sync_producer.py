"""Writes offset syncs and offset map pages without blocking the copier.

Both topics are on the same cluster and share one confluent-kafka producer. Belongs to the task's
thread; delivery reports arrive during `poll`.
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

_PAGES = "pages of the offset map"

MAX_SYNCS_IN_FLIGHT = 10
"""Maximum number of offset syncs in flight, as in MirrorMaker 2. Further syncs wait, and only the
newest of each partition is kept."""


class RecordProducer(Protocol):
    """The methods of a confluent-kafka producer that are used here."""

    def produce(
        self,
        topic: str,
        *,
        value: bytes | None,
        key: bytes,
        partition: int,
        on_delivery: Callable[[KafkaError | None, Message], None],
    ) -> None:
        """Queue a record. Raises BufferError if the queue is full."""

    def poll(self, timeout: float) -> int:
        """Call `on_delivery` of records that were delivered or failed."""

    def purge(self) -> None:
        """Drop queued records."""


class OffsetSyncProducer:
    """Writes offset syncs and offset map pages. Belongs to the task's thread."""

    def __init__(self, producer: RecordProducer, syncs_topic: str, map_topic: str) -> None:
        """Args: producer: of the cluster that hosts both topics."""
        self._producer = producer
        self._syncs_topic = syncs_topic
        self._map_topic = map_topic
        self._pending: dict[tuple[str, int], OffsetSync] = {}
        self._syncs_in_flight = 0
        self._undelivered = 0
        self.pages_in_flight = 0
        """Number of map pages, notes and tombstones that are not acknowledged yet."""
        self._troubles: dict[str, str] = {}
        self._told: dict[str, str] = {}
        self._map_works = False

    @property
    def trouble(self) -> str | None:
        """Return why the last write to one of the topics failed; None if it succeeded."""
        return "\n".join(self._troubles.values()) or None

    def _note(self, what: str, error: ConnectError | None) -> None:
        """Log each reason once, until writing succeeds again."""
        if error is None:
            self._troubles.pop(what, None)
            self._told.pop(what, None)
            return
        text = (
            f"Cannot write {what}; translated offsets will lag behind, so a failover re-reads "
            f"more records: {error}"
        )
        if self._told.get(what) != text:
            _LOG.warning("%s", text)
        self._told[what] = text
        if what == _PAGES and not self._map_works and not_authorized(error):
            # Permissions for MirrorMaker 2 do not include the map: such a flow counts as healthy.
            return
        self._troubles[what] = text

    # Offset syncs: best effort, as in Java.

    def sync(self, sync: OffsetSync) -> None:
        """Send this sync soon. It replaces a sync of the same partition that waits for others in
        flight. As in MirrorMaker 2, the first sync of a partition is always written, because groups
        behind the others are translated with it."""
        if (sync.topic, sync.partition) in self._pending:
            self.flush_syncs()
        self._pending[sync.topic, sync.partition] = sync

    def flush_syncs(self) -> None:
        """Send waiting syncs, up to the limit of syncs in flight."""
        while self._pending and self._syncs_in_flight < MAX_SYNCS_IN_FLIGHT:
            key = next(iter(self._pending))
            sync = self._pending[key]
            try:
                self._send(self._syncs_topic, sync.key(), sync.value(), self._sync_delivered)
            except BufferError:
                return  # The producer's queue is full; the next call tries again.
            del self._pending[key]
            self._syncs_in_flight += 1

    def _sync_delivered(self, error: ConnectError | None) -> None:
        self._syncs_in_flight -= 1
        self._note("offset syncs", error)

    # Map pages: acknowledged before the offsets that they cover are stored.

    def write_pages(self, pages: list[tuple[bytes, bytes | None]]) -> Future[None]:
        """Write (key, value) pages. The future completes when the last page is acknowledged, and
        fails with the first error."""
        result: Future[None] = Future()
        left = len(pages)
        self.pages_in_flight += left
        failed: list[ConnectError] = []

        def delivered(error: ConnectError | None) -> None:
            nonlocal left
            left -= 1
            self.pages_in_flight -= 1
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
            # The client already knows about an error, for example that writing to the topic is not
            # permitted.
            delivered(from_librdkafka(error.args[0], what, needs))
        else:
            self._undelivered += 1

    def poll(self) -> None:
        """Handle delivery reports. Call often; returns at once."""
        if self._undelivered:
            self._producer.poll(0)
        if self._pending:
            self.flush_syncs()

    def close(self, deadline: Deadline) -> None:
        """Send what waits, within the deadline, and close."""
        while (self._pending or self._undelivered) and not deadline.expired():
            self.flush_syncs()
            self._producer.poll(min(0.05, deadline.remaining()))
        if self._pending or self._undelivered:
            _LOG.warning(
                "%d offset syncs and map pages were not written before the task closed",
                len(self._pending) + self._undelivered,
            )
            self._producer.purge()
