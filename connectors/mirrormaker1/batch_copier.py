"""Copies partitions as bytes, each to the partition of the same number, with the mirror's engine.

Everything runs on the owner's thread.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future

from connect.clock import SYSTEM_CLOCK, Clock, Deadline
from connect.protocol.messages import TopicPartition
from connectors.mirror.config.losses import Loss
from connectors.mirror.copy.context import CopyListener, EngineEnvironment
from connectors.mirror.copy.engine import CopyEngine
from connectors.mirror.copy.partition.partition import UNKNOWN, CopyState, PartitionCopy
from connectors.mirror.copy.quarantine import QuarantinedRecords
from connectors.mirror.copy.settings import EngineSettings
from connectors.mirror.history.recorder import TaskHistory
from connectors.mirror.metrics import PartitionMetrics
from connectors.mirror.offsets.offset_map_pages import OffsetRun

__all__ = ["BatchCopier", "OnRefused"]

_LOG = logging.getLogger(__name__)

OnRefused = Callable[[TopicPartition, int, int, str], bool]
"""(source partition, first offset, last offset, reason): records that the target rejected
permanently, or that cannot be read. Returns whether to go on without them."""

_TURN_S = 0.1


class _Skipped:
    """The engine's quarantine: a refused record goes nowhere, or ends the mirror."""

    def __init__(self, on_refused: OnRefused) -> None:
        self._on_refused = on_refused

    def put(self, aside: QuarantinedRecords) -> Future[None]:
        done: Future[None] = Future()
        if self._on_refused(aside.source, aside.first, aside.last, aside.reason):
            done.set_result(None)
        return done


class BatchCopier:
    """Copies the partitions that were added. Opens its own connections, which `close` closes."""

    def __init__(
        self,
        settings: EngineSettings,
        on_refused: OnRefused,
        history: TaskHistory | None,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._settings = settings
        self._skipped = _Skipped(on_refused)
        self._history = history
        self._clock = clock
        self._removed: dict[TopicPartition, PartitionCopy] = {}
        self._engine = self._open()
        self.records = 0
        """Source records whose copies are acknowledged."""

    @property
    def partitions(self) -> Collection[PartitionCopy]:
        return self._engine.partitions

    def add(self, positions: Mapping[TopicPartition, int | None]) -> None:
        """Copy these partitions from these source offsets on; None: where auto.offset.reset
        says."""
        for key, position in positions.items():
            self._removed.pop(key, None)
            metrics = PartitionMetrics("", "", *key, clock=self._clock)
            self._engine.add(key, key, position, metrics)
            if self._history is not None and position is not None:
                self._history.begun(key, position)
        self._engine.watch()

    def remove(self, keys: Collection[TopicPartition], deadline: Deadline) -> None:
        """Stop copying these partitions, and wait until the batches in flight are answered.
        Afterwards nothing of them is written: if the deadline passes first, all connections are
        closed."""
        for key in keys:
            self._engine.remove(key)
        while self._leaving() and not deadline.expired():
            self.step(min(_TURN_S, deadline.remaining()))
        if self._leaving():
            self._reopen()
        self._take_departed()
        self._engine.watch()

    def drop(self, keys: Collection[TopicPartition]) -> None:
        """Stop writing these partitions at once, because other members may copy them already."""
        if any(partition.source in keys for partition in self._engine.partitions):
            for key in keys:
                self._engine.remove(key)
            if self._leaving():
                self._reopen()
            self._take_departed()
            self._engine.watch()
        self.forget(keys)

    def forget(self, keys: Collection[TopicPartition]) -> None:
        """Forget the positions of removed partitions."""
        for key in keys:
            if self._removed.pop(key, None) is not None and self._history is not None:
                self._history.forget(key)

    def step(self, timeout_s: float) -> None:
        """Copy for one turn; waits at most this long for something to do."""
        self._engine.step(timeout_s)
        if self._history is not None:
            partitions = self._engine.partitions
            self._history.look(partitions, partitions)

    def positions(self) -> dict[TopicPartition, int]:
        """Return the acknowledged positions, also of removed partitions."""
        return {
            each.source: each.acked_position
            for each in (*self._removed.values(), *self._engine.partitions)
            if each.broken is None and each.acked_position != UNKNOWN
        }

    def committed(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Note that these offsets are committed."""
        moved = []
        for partition in self._engine.partitions:
            offset = offsets.get(partition.source)
            if offset is not None:
                self._engine.stored(partition, offset)
                moved.append((partition, offset))
        if self._history is not None:
            self._history.reached(moved)

    @property
    def waits_for_commit(self) -> bool:
        """Whether a partition moved back, and is copied again only once that is committed."""
        return any(partition.behind_stored for partition in self._engine.partitions)

    def refusal(self) -> str | None:
        """Return why a partition can never continue without manual action; None if all can."""
        for partition in self._engine.partitions:
            if partition.state is CopyState.BLOCKED and partition.target_error:
                return f"{partition.source[0]}-{partition.source[1]}: {partition.target_error}"
            if partition.searching and self._settings.fetch.auto_offset_reset == "none":
                return partition.source_error
            if partition.broken:
                return partition.broken
        return None

    def errors(self) -> dict[TopicPartition, str]:
        """Return why partitions make no progress now."""
        return {each.source: each.error for each in self._engine.partitions if each.error}

    def close(self) -> None:
        """Close every connection and thread."""
        self._engine.close()

    def _open(self) -> CopyEngine:
        return CopyEngine(
            self._settings,
            CopyListener(acked=self._acked, lost=self._lost),
            EngineEnvironment(self._clock),
            quarantine=self._skipped,
        )

    def _acked(self, _: PartitionCopy, runs: Sequence[OffsetRun], base: int) -> None:
        self.records += sum(count for _, count in runs)

    def _leaving(self) -> bool:
        return any(partition.leaving for partition in self._engine.partitions)

    def _take_departed(self) -> None:
        self._removed.update((each.source, each) for each in self._engine.take_departed())

    def _reopen(self) -> None:
        """Close every connection, so that nothing in flight is sent again, and copy what stays
        from the acknowledged positions on."""
        _LOG.warning(
            "the target did not answer in time; records in flight may be copied again by the next "
            "owner of the partitions"
        )
        partitions = list(self._engine.partitions)
        self._take_departed()
        self._engine.close()
        self._engine = self._open()
        self._removed.update((each.source, each) for each in partitions if each.leaving)
        self.add(
            {
                each.source: None if each.acked_position == UNKNOWN else each.acked_position
                for each in partitions
                if not each.leaving
            }
        )

    def _lost(self, partition: PartitionCopy, loss: Loss) -> None:
        if self._history is not None:
            self._history.lost(partition, loss)
