"""Writes offset syncs and offset map pages without blocking the copier.

Both topics are on the same cluster and share one confluent-kafka producer. Belongs to the task's
thread; delivery reports arrive during `poll`.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from concurrent.futures import Future
from typing import TYPE_CHECKING, Protocol

from confluent_kafka import KafkaError, KafkaException

from connect.clients.errors import from_librdkafka, not_authorized
from connect.clock import SYSTEM_CLOCK, Clock, Deadline
from connect.errors import ConnectError, RetriableError
from connect.futures import settle
from connect.protocol.messages import TopicPartition
from connectors.mirror.formats import OffsetSync
from connectors.mirror.offsets.offset_syncs import SyncPoint

if TYPE_CHECKING:
    from confluent_kafka import Message

__all__ = ["OffsetSyncProducer", "RecordProducer"]

_LOG = logging.getLogger(__name__)

_PAGES = "pages of the offset map"

SYNCS_EVERY_S = 0.25
"""Interval of rounds of offset syncs. Each partition gets at most one in a round, its newest,
because only that one stays in the compacted topic. A sync for each batch took up to a quarter of a
busy worker's CPU."""

MAX_SYNCS_IN_FLIGHT = 250
"""Maximum number of unacknowledged syncs, and thus of syncs in a round. It limits the CPU that they
cost a task with very many busy partitions to about 2 % of a core."""

SPARE_SYNCS = 10
"""Number of syncs that are written although the next sync of their partition will replace them. It
is MirrorMaker 2's limit of syncs in flight. Thus partitions with few records get all syncs."""

_SPARE_PER_S = 4.0
"""Number of spare syncs that become available again in a second. It is so low that a busy partition
gets few syncs besides those of its rounds."""

_POLL_EVERY_S = 0.02
"""Interval of looking for delivery reports: each look is a call into librdkafka."""


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

    def __init__(
        self,
        producer: RecordProducer,
        syncs_topic: str,
        map_topic: str,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        """Args: producer: of the cluster that hosts both topics."""
        self._producer = producer
        self._clock = clock
        self._syncs_topic = syncs_topic
        self._map_topic = map_topic
        self._held = False
        self._firsts: dict[TopicPartition, SyncPoint] = {}
        """The first syncs of partitions, which no later ones replace."""
        self._pending: dict[TopicPartition, SyncPoint] = {}
        self._syncs_in_flight = 0
        self._round_at = self._poll_at = self._polled_at = clock.monotonic()
        self._spare = float(SPARE_SYNCS)
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

    def sync(self, key: TopicPartition, point: SyncPoint, *, first: bool = False) -> None:
        """Send this sync in the next round. It replaces a sync of the same partition that waits,
        if there are many of them. `first`: always write it, because groups behind the others are
        translated with it."""
        waiting = self._pending.pop(key, None)
        if first:
            wait = self._held or self._syncs_in_flight >= MAX_SYNCS_IN_FLIGHT
            if wait or not self._write(key, point):
                self._firsts[key] = point
            return
        if waiting is not None and self._spare >= 1 and not self._held:
            self._write_now(key, waiting)
        self._pending[key] = point

    def _write_now(self, key: TopicPartition, point: SyncPoint) -> None:
        """Send a sync without waiting for a round, behind the partition's first one."""
        first = self._firsts.get(key)
        if first is not None:
            if not self._write(key, first):
                return
            del self._firsts[key]
        if self._write(key, point):
            self._spare -= 1

    def flush_syncs(self) -> None:
        """Send a round of waiting syncs, up to the limit in flight, unless they are held."""
        if self._held:
            return
        self._round_at = self._clock.monotonic() + SYNCS_EVERY_S
        # In one round, all firsts go before all others.
        for waiting in (self._firsts, self._pending):
            while waiting and self._syncs_in_flight < MAX_SYNCS_IN_FLIGHT:
                key = next(iter(waiting))
                if not self._write(key, waiting[key]):
                    return  # The next round tries again.
                del waiting[key]

    def _write(self, key: TopicPartition, point: SyncPoint) -> bool:
        """Send a sync. Return False if the producer's queue is full."""
        sync = OffsetSync(*key, *point)
        self._syncs_in_flight += 1
        try:
            self._send(self._syncs_topic, sync.key(), sync.value(), self._sync_delivered)
        except BufferError:
            self._syncs_in_flight -= 1
            return False
        return True

    def hold(self, held: bool) -> None:
        """Send no sync while this is true."""
        self._held = held

    def discard(self, key: TopicPartition) -> None:
        """Drop the waiting syncs of a partition."""
        self._firsts.pop(key, None)
        self._pending.pop(key, None)

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
                settle(result, failed[0] if failed else None)

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
        """Handle delivery reports and send a round of syncs, where it is time. Call often; returns
        at once."""
        now = self._clock.monotonic()
        if now < self._poll_at:
            return
        self._spare = min(SPARE_SYNCS, self._spare + (now - self._polled_at) * _SPARE_PER_S)
        self._polled_at, self._poll_at = now, now + _POLL_EVERY_S
        if self._undelivered:
            self._producer.poll(0)
        if self._syncs_wait and now >= self._round_at:
            self.flush_syncs()

    @property
    def _syncs_wait(self) -> bool:
        return bool(self._firsts or self._pending)

    def due_in_s(self) -> float:
        """Return the seconds until `poll` has something to do."""
        if self._undelivered:
            return max(0.0, self._poll_at - self._clock.monotonic())
        if self._syncs_wait:
            return max(0.0, max(self._poll_at, self._round_at) - self._clock.monotonic())
        return math.inf

    def close(self, deadline: Deadline) -> None:
        """Send what waits, within the deadline, and close."""
        while (
            (self._syncs_wait and not self._held) or self._undelivered
        ) and not deadline.expired():
            self.flush_syncs()
            self._producer.poll(min(0.05, deadline.remaining()))
        if self._syncs_wait or self._undelivered:
            _LOG.warning(
                "%d offset syncs and map pages were not written before the task closed; "
                "nothing has to be done, groups whose offsets are among them read more "
                "again",
                len(self._firsts) + len(self._pending) + self._undelivered,
            )
            self._producer.purge()
