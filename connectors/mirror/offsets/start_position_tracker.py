"""Decides how partitions without a stored offset start, for both engines.

A partition that was started before (`start_positions.py`) continues from there. The start position
of any other one is stored before anything of it is copied. Reads and writes of the offset map topic
are awaited for a limited time only. After that the flow continues without them, like Java's: stored
positions are compared once they can be read, and new ones are stored once they can be written.

Belongs to the task's thread; nothing here blocks.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from concurrent.futures import Future
from itertools import islice
from typing import Protocol
from uuid import UUID

from connect.clock import SYSTEM_CLOCK, Clock
from connect.protocol.messages import TopicPartition
from connectors.mirror.offsets.start_positions import FirstPosition

__all__ = ["WITHIN_S", "BeginningHost", "FirstPositionStore", "StartPositionTracker"]

WITHIN_S = 5.0
"""How long a start may wait for the stored start positions, and for its own position to be
written."""

_CHUNK = 10_000
"""Number of positions written at once: a tenth of a producer's queue, so that map pages do not
wait."""


class FirstPositionStore(Protocol):
    """Stores start positions (`OffsetSyncWriter`)."""

    def first_positions(self) -> Mapping[TopicPartition, FirstPosition] | None:
        """Return the stored start positions; None while they are being read."""

    @property
    def keeps_first_positions(self) -> bool:
        """Whether start positions are stored. They are not if the map is disabled or may not be
        read."""

    def keep_first(self, firsts: Mapping[TopicPartition, FirstPosition]) -> Future[None]:
        """Store start positions. The future completes when they are written."""

    def forget_first(self, keys: Collection[TopicPartition]) -> None:
        """Delete start positions of partitions that have a stored offset now."""


class BeginningHost(Protocol):
    """The owner of the partitions. Calls for partitions that it no longer has are ignored."""

    def begin(self, key: TopicPartition, position: int | None, topic_id: UUID | None) -> None:
        """Start the partition at this earlier start position, of the topic with this ID; None:
        as auto.offset.reset says. The host then calls `begun`, and copies nothing before
        `let_copy`."""

    def let_copy(self, keys: Collection[TopicPartition]) -> None:
        """Start copying: the start positions are stored, or cannot be stored for now."""

    def was_begun_before(self, key: TopicPartition, position: int, begun: int) -> None:
        """Handle a start position that was found only after `let_copy`: the partition started at
        `begun`, but it had already been started at `position`."""


class StartPositionTracker:
    """Tracks the partitions without a stored offset until they are copied. Belongs to the task's
    thread."""

    def __init__(
        self,
        store: FirstPositionStore,
        connector: str,
        host: BeginningHost,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._store = store
        self._connector = connector
        self._host = host
        self._clock = clock
        self._expected: dict[TopicPartition, int] = {}
        self._marks: dict[TopicPartition, int] = {}
        self._known_by = 0.0
        self._begun: dict[TopicPartition, FirstPosition] = {}
        """Start positions to be stored."""
        self._late: set[TopicPartition] = set()
        """Partitions that started before it was known whether they have an earlier start
        position."""
        self._stored: set[TopicPartition] = set()
        """Partitions with a stored offset, while it is not known for which partitions a start
        position is stored."""
        self._held: dict[TopicPartition, float] = {}
        """Partitions that are not copied yet, and their deadlines."""
        self._writing: tuple[Future[None], list[TopicPartition]] | None = None

    @property
    def waiting(self) -> bool:
        """Whether start positions are not known or not written yet."""
        return bool(self._expected or self._held)

    def expect(self, marks: Mapping[TopicPartition, int]) -> None:
        """Add partitions without a stored offset. `marks`: the current end of the stored offsets,
        per partition."""
        for key in marks:
            self._drop(key)
        self._expected.update(marks)
        self._known_by = self._clock.monotonic() + WITHIN_S

    def begun(self, key: TopicPartition, position: int, topic_id: UUID | None) -> None:
        """Record that the partition starts at this position."""
        mark = self._marks.pop(key, None)
        if mark is None or not self._store.keeps_first_positions:
            self._host.let_copy((key,))
            return
        self._begun[key] = FirstPosition(position, mark, topic_id, self._connector)
        if key in self._late:
            self._host.let_copy((key,))
        else:
            self._held[key] = self._clock.monotonic() + WITHIN_S

    def stored(self, keys: Collection[TopicPartition]) -> None:
        """Record that an offset of these partitions is stored, so their start positions are not
        needed any more."""
        for key in keys:
            # It may have left before it was started, and returned after others stored its offset.
            self._expected.pop(key, None)
            if key not in self._late:  # An earlier start position may still be found for it.
                self._begun.pop(key, None)
        self._release(keys)
        if self._late or self._store.first_positions() is None:
            self._stored.update(keys)
        else:
            self._store.forget_first(keys)

    def _drop(self, key: TopicPartition) -> None:
        self._begun.pop(key, None)
        self._late.discard(key)
        self._stored.discard(key)
        self._marks.pop(key, None)
        self._held.pop(key, None)

    def turn(self) -> None:
        """Handle finished reads and writes, and start the ones that are due. Call often."""
        if not (self._expected or self._begun or self._held or self._writing or self._stored):
            return
        known = self._store.first_positions()
        now = self._clock.monotonic()
        if self._expected and (known is not None or now >= self._known_by):
            self._begin(known)
        if known is not None:
            self._compare_late(known)
            if self._stored:
                self._store.forget_first(sorted(self._stored))
                self._stored.clear()
            self._keep()
        self._let_copy(now)

    def _begin(self, known: Mapping[TopicPartition, FirstPosition] | None) -> None:
        expected, self._expected = self._expected, {}
        for key, mark in expected.items():
            kept = None if known is None else known.get(key)
            if kept is None or not kept.holds(self._connector, mark):
                kept = None
                self._marks[key] = mark
                if known is None:
                    self._late.add(key)
            if kept is None:
                self._host.begin(key, None, None)
            else:
                self._host.begin(key, kept.position, kept.source_topic_id)

    def _compare_late(self, known: Mapping[TopicPartition, FirstPosition]) -> None:
        for key in [key for key in self._late if key in self._begun]:
            self._late.discard(key)
            begun = self._begun[key]
            kept = known.get(key)
            holds = kept is not None and kept.holds(self._connector, begun.mark)
            if kept is not None and holds and kept.position < begun.position:
                self._host.was_begun_before(key, kept.position, begun.position)
            if key in self._stored:
                del self._begun[key]

    def _keep(self) -> None:
        """Write the positions to be stored, one batch after another."""
        if self._writing is not None:
            future, keys = self._writing
            if not future.done():
                return
            self._writing = None
            # The writer reports a failure; copying does not wait for the remedy.
            self._release(keys)
        if not self._begun:
            return
        if not self._store.keeps_first_positions:
            self._release(list(self._begun))
            self._begun.clear()
            return
        keys = list(islice(self._begun, _CHUNK))
        lot = {key: self._begun.pop(key) for key in keys}
        self._writing = self._store.keep_first(lot), keys

    def _let_copy(self, now: float) -> None:
        overdue = []
        for key, until in self._held.items():
            if until > now:
                break
            overdue.append(key)
        if overdue:
            self._release(overdue)

    def _release(self, keys: Collection[TopicPartition]) -> None:
        held = [key for key in keys if self._held.pop(key, None) is not None]
        if held:
            self._host.let_copy(held)
