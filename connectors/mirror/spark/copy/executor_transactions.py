"""The transactions of an executor: it writes with a lane that the flow's task has claimed for it.

The executor never claims a lane itself. If it was given up and continues much later, it finds its
producer fenced.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass

from connect.clients.config.settings import WireSettings
from connect.clients.transactions.coordinator import TransactionCoordinator
from connect.clock import SYSTEM_CLOCK, Clock
from connect.plugin import SourcePartition, StoredOffset
from connect.protocol.messages import TopicPartition
from connect.storage.offset_codec import encode_key, encode_value
from connectors.mirror.copy.transactions.executor_ids import ClaimedProducer

__all__ = ["LaneSettings", "LaneTransactions"]


@dataclass(frozen=True, slots=True)
class LaneSettings:
    """Settings that all lanes of a flow share. `connector`: the connector whose offsets are stored.
    `timeout_s` and `boundary_s`: see `plugin.TransferTransactions`."""

    connector: str
    offsets_topic: str
    timeout_s: float
    boundary_s: float | None


class LaneTransactions:
    """A `plugin.TransferTransactions` for one lane after another. Call `begin` first, and only
    while no batch is in flight."""

    def __init__(
        self, target: WireSettings, settings: LaneSettings, clock: Clock = SYSTEM_CLOCK
    ) -> None:
        self.transactional_id = ""
        self.offsets_topic = settings.offsets_topic
        self.timeout_s = settings.timeout_s
        self.boundary_s = settings.boundary_s
        self._connector = settings.connector
        self._target = target
        self._coordinator: TransactionCoordinator | None = None
        self._clock = clock
        self._committed: deque[tuple[int, float]] = deque()

    def begin(self, claim: ClaimedProducer) -> None:
        """Write with this lane from now on."""
        if self._coordinator is None or claim.transactional_id != self.transactional_id:
            self.close()
            self._coordinator = TransactionCoordinator(
                self._target, claim.transactional_id, int(self.timeout_s * 1000)
            )
            self.transactional_id = claim.transactional_id
        self._coordinator.adopt(claim.producer)
        self._committed.clear()

    def committed(self) -> list[tuple[int, float]]:
        """Return (records, milliseconds of the commit) of each committed transaction of this
        lane."""
        return list(self._committed)

    def close(self) -> None:
        """Abort the open transaction, if that is possible at once."""
        if self._coordinator is not None:
            self._coordinator.close()
            self._coordinator = None

    @property
    def _the_coordinator(self) -> TransactionCoordinator:
        assert self._coordinator is not None, "call begin first"
        return self._coordinator

    # Methods that the copier calls.

    @property
    def producer(self) -> tuple[int, int]:
        identity = self._the_coordinator.identity
        return identity.producer_id, identity.epoch

    @property
    def trouble(self) -> str | None:
        return None if self._coordinator is None else self._coordinator.trouble

    def add(self, partitions: Sequence[TopicPartition]) -> Future[Mapping[TopicPartition, int]]:
        return self._the_coordinator.add(partitions)

    def offset_key(self, partition: SourcePartition) -> bytes:
        return encode_key(self._connector, partition)

    def offset_records(self, offsets: Sequence[StoredOffset]) -> list[tuple[bytes, bytes | None]]:
        return [
            (encode_key(self._connector, partition), encode_value(offset))
            for partition, offset in offsets
        ]

    def notes(self, partitions: Sequence[SourcePartition]) -> list[bytes | None]:
        """Return no notes: the task that claimed the lanes has them, and here they are only
        written."""
        return [None for _ in partitions]

    def commit(self, records: int) -> Future[None]:
        began = self._clock.monotonic()
        done = self._the_coordinator.commit()

        def ended(future: Future[None]) -> None:
            if future.exception() is None:
                self.note(records, (self._clock.monotonic() - began) * 1000)

        done.add_done_callback(ended)
        return done

    def abort(self, why: str) -> Future[None]:
        return self._the_coordinator.abort()

    def confirm(self) -> Future[None]:
        return self._the_coordinator.confirm()

    def note(self, records: int, ms: float) -> None:
        self._committed.append((records, ms))
