"""How partitions begin that have no stored offset: decisions that both engines share.

A partition that was begun before (`start_positions.py`) goes on from there; where another one
begins is kept before anything of it is copied. What the offset map's topic knows is waited for,
and so is what is written to it, but neither for long: without it the flow goes on as Java's does.
Then what was kept is compared when it can be read, and what is new is kept when it can be written.

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

__all__ = ["WITHIN_S", "BeginningHost", "FirstPositionBooks", "StartPositionTracker"]

WITHIN_S = 5.0
"""So long a start may wait for what was known, which is in the offset map's topic, and so long a
first position for being written there."""

_CHUNK = 10_000
"""So many are written at once: a tenth of what a producer queues, whose pages are not to wait."""


class FirstPositionBooks(Protocol):
    """Where first positions are kept (`books.OffsetSyncWriter`)."""

    def first_positions(self) -> Mapping[TopicPartition, FirstPosition] | None:
        """What is kept; None while it is being read."""

    @property
    def keeps_first_positions(self) -> bool:
        """Whether any are, as far as is known: not where the map is off, or may not be read."""

    def keep_first(self, firsts: Mapping[TopicPartition, FirstPosition]) -> Future[None]:
        """Done when they are written."""

    def forget_first(self, keys: Collection[TopicPartition]) -> None:
        """An offset of these is stored."""


class BeginningHost(Protocol):
    """Who has the partitions. What is no longer there is left out."""

    def begin(self, key: TopicPartition, position: int | None, topic_id: UUID | None) -> None:
        """Begin with it, at this offset of the topic of this id, as it was begun before; None:
        where auto.offset.reset says. Tell `begun` then, and copy nothing before `let_copy`."""

    def let_copy(self, keys: Collection[TopicPartition]) -> None:
        """Where they begin is kept, or cannot be for now."""

    def was_begun_before(self, key: TopicPartition, position: int, begun: int) -> None:
        """It was begun at `position` once, before `begun`, where it was begun now, as came out only
        after `let_copy`."""


class StartPositionTracker:
    """See the module."""

    def __init__(
        self,
        books: FirstPositionBooks,
        connector: str,
        host: BeginningHost,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._books = books
        self._connector = connector
        self._host = host
        self._clock = clock
        self._expected: dict[TopicPartition, int] = {}
        self._marks: dict[TopicPartition, int] = {}
        self._known_by = 0.0
        self._begun: dict[TopicPartition, FirstPosition] = {}
        """To be kept."""
        self._late: set[TopicPartition] = set()
        """Those of them that were begun before it was known whether they had been."""
        self._stored: set[TopicPartition] = set()
        """Those with a stored offset, as long as it is not known of whom anything is kept."""
        self._held: dict[TopicPartition, float] = {}
        """Those that are not copied yet, and how long that may last."""
        self._writing: tuple[Future[None], list[TopicPartition]] | None = None

    @property
    def waiting(self) -> bool:
        """Whether something is expected within moments."""
        return bool(self._expected or self._held)

    def expect(self, marks: Mapping[TopicPartition, int]) -> None:
        """These were added, and nothing is stored of them. `marks`: of what is stored, now."""
        for key in marks:
            self._drop(key)
        self._expected.update(marks)
        self._known_by = self._clock.monotonic() + WITHIN_S

    def begun(self, key: TopicPartition, position: int, topic_id: UUID | None) -> None:
        """It begins here."""
        mark = self._marks.pop(key, None)
        if mark is None or not self._books.keeps_first_positions:
            self._host.let_copy((key,))
            return
        self._begun[key] = FirstPosition(position, mark, topic_id, self._connector)
        if key in self._late:
            self._host.let_copy((key,))
        else:
            self._held[key] = self._clock.monotonic() + WITHIN_S

    def stored(self, keys: Collection[TopicPartition]) -> None:
        """An offset of these is stored: where they were begun does not matter any more."""
        for key in keys:
            if key not in self._late:  # of which may yet come out that it had been begun before
                self._begun.pop(key, None)
        self._release(keys)
        if self._late or self._books.first_positions() is None:
            self._stored.update(keys)
        else:
            self._books.forget_first(keys)

    def _drop(self, key: TopicPartition) -> None:
        self._begun.pop(key, None)
        self._late.discard(key)
        self._stored.discard(key)
        self._marks.pop(key, None)
        self._held.pop(key, None)

    def turn(self) -> None:
        """Do what can be done now. Call often."""
        if not (self._expected or self._begun or self._held or self._writing or self._stored):
            return
        known = self._books.first_positions()
        now = self._clock.monotonic()
        if self._expected and (known is not None or now >= self._known_by):
            self._begin(known)
        if known is not None:
            self._compare_late(known)
            if self._stored:
                self._books.forget_first(self._stored)
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
        """Write what is to be kept, one lot after the other."""
        if self._writing is not None:
            future, keys = self._writing
            if not future.done():
                return
            self._writing = None
            # A failure is told by whoever writes; copying does not wait for its remedy.
            self._release(keys)
        if not self._begun:
            return
        if not self._books.keeps_first_positions:
            self._release(list(self._begun))
            self._begun.clear()
            return
        keys = list(islice(self._begun, _CHUNK))
        lot = {key: self._begun.pop(key) for key in keys}
        self._writing = self._books.keep_first(lot), keys

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
