"""The pages of the offset map that a flow's task writes: which are due, and which can be deleted.

Knows each partition's pages in the making and the spans of those in the map's topic. Does no I/O:
`books.py` reads the topic and writes what is due. Belongs to one thread.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from connect.clock import Clock
from connect.protocol.messages import TopicPartition
from connectors.mirror.config.losses import Loss, LossKind, LossPolicy
from connectors.mirror.offsets.offset_map_pages import (
    LAST_OFFSET,
    MapPage,
    PartitionPages,
    end_target,
    page_key,
    page_segments,
    source_at,
)
from connectors.mirror.offsets.offset_map_trim import MapTopic, PageIndex, anchor

__all__ = ["DuePages", "MapWriter"]

Anchor = tuple[int, int]
"""(source offset, target offset): everything before the one is before the other."""


class DuePages(NamedTuple):
    """Pages of one partition that are to be written."""

    key: TopicPartition
    pages: list[MapPage]

    def records(self) -> list[tuple[bytes, bytes | None]]:
        """(key, value) of their records."""
        return [(page_key(*self.key, page.first_source), page.encode()) for page in self.pages]


class _Unplaced(NamedTuple):
    """A loss page, the target offset from which on records are lost, and where that is on both
    sides, if it is known."""

    page: MapPage
    target: int
    place: Anchor | None


class MapWriter:
    """See the module."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._reading = True
        self._trims = False
        self._partitions: dict[TopicPartition, PartitionPages] = {}
        self._parting: set[TopicPartition] = set()
        self._index = PageIndex()
        self._last_pages: dict[TopicPartition, tuple[int, bytes]] = {}
        """Of partitions as earlier sessions left them: (first source offset, record value)."""
        self._urgent: set[TopicPartition] = set()
        self._unplaced: dict[TopicPartition, list[_Unplaced]] = {}
        """Loss pages that wait until the topic was read: before, their session is a guess."""

    # The topic, as it is read.

    def reads(self) -> None:
        """The topic is being read, again: what it has of partitions that come is not known yet."""
        self._reading = True

    def has_read(self, found: MapTopic) -> None:
        """The topic was read; only what was written since the last time counts in `found`."""
        self._reading = False
        self._trims = found.reached is not None
        self._last_pages.update(found.last_pages)
        for key, spans in found.pages.items():
            for span in spans:
                self._index.add(key, span)
        for key, pages in self._partitions.items():
            if not pages.settled:
                before = pages.session
                others = pages.settle(self._index.spans(key))
                for page, target, place in self._unplaced.pop(key, ()):
                    known = [*others, *pages.begun(page.session)]
                    place = place or anchor(known, target) or (page.end_source, target)
                    pages.found(page, *place)
                    self._urgent.add(key)
                if pages.session != before:
                    self._urgent.add(key)

    # What was copied, and what was lost.

    def copied(self, key: TopicPartition, source: int, count: int, target: int) -> None:
        """`count` records from `source` on are on the target from `target` on."""
        self._of(key).copied(source, count, target)

    def seen(self, key: TopicPartition, position: int) -> None:
        """Every record before `position` is on the target, or needs no copying."""
        pages = self._partitions.get(key)
        if pages is not None:
            pages.seen(position)

    def lost(self, key: TopicPartition, loss: Loss, known: Anchor | None) -> bool:
        """One of the partition's logs lost something. `known`: a place on both sides before what
        the target lost. Returns whether there are pages to be written at once."""
        pages = self._of(key)
        reports = loss.policy is LossPolicy.REPORT and loss.resume is not None
        end = loss.resume if reports and loss.resume is not None else loss.position
        if loss.kind is LossKind.TARGET_LOSS:
            place = self._place_of(key, pages, loss.first, known)
        elif loss.kind is LossKind.TARGET_RECREATED:
            pages.take_unsaved()
            # The map may know of offsets beyond, of another life of the source's topic.
            place, end = (0, 0), max(end, self._index.reach(key))
        elif loss.kind is LossKind.SOURCE_RECREATED and loss.resume is not None:
            # The offsets are given again, to records that come after all that the target has.
            end_before = self._end_of(key, pages)
            pages.take_unsaved()
            if end_before is None:
                pages.begin_anew()
                return False
            place, end = (0, end_before), loss.position
        else:
            return False
        self._last_pages.pop(key, None)
        if not pages.settled:
            page = pages.lost_somewhere(end)
            self._unplaced.setdefault(key, []).append(_Unplaced(page, loss.first, place))
            return False
        source, target = place or (end, loss.first)
        pages.lost_from(source, target, max(source, end))
        self._urgent.add(key)
        return True

    def _place_of(
        self, key: TopicPartition, pages: PartitionPages, target: int, known: Anchor | None
    ) -> Anchor | None:
        """The source offset that was at this target offset, or the nearest place before it that is
        known on both sides."""
        place = pages.place_of(target)
        if place is not None:
            return place
        if key in self._last_pages:
            source = source_at(page_segments(*self._last_pages[key]), target)
            if source is not None:
                return source, target
        spans = [*self._index.spans(key), *pages.begun(pages.session + 1)]
        paged = anchor(spans, target) if pages.settled else None
        places = [place for place in (known, paged) if place is not None]
        return max(places, key=lambda place: (place[1], place[0]), default=None)

    def _end_of(self, key: TopicPartition, pages: PartitionPages) -> int | None:
        """How far the copy is on the target at least; None: nothing is known of it."""
        end = pages.end_target
        if end is None and key in self._last_pages:
            end = end_target(page_segments(*self._last_pages[key]))
        if end is None:
            last = anchor(self._index.spans(key), LAST_OFFSET)
            end = None if last is None else last[1]
        return end

    def _of(self, key: TopicPartition) -> PartitionPages:
        pages = self._partitions.get(key)
        if pages is not None and key not in self._parting:
            return pages
        self._parting.discard(key)
        if pages is not None and not pages.settled:
            return pages
        # A partition that came back: others may have copied it meanwhile.
        left = [] if pages is None else pages.take_unsaved()
        session = max(self._clock.now_ms(), self._index.newest(key) + 1)
        pages = PartitionPages(session, settled=not self._reading)
        pages.put_back(left)
        self._partitions[key] = pages
        return pages

    def forget(self, key: TopicPartition) -> None:
        """A partition left, and its position is stored. What is still to be written of it stays
        due."""
        if key in self._partitions:
            self._parting.add(key)

    # What is to be written.

    def due(self, keys: Iterable[TopicPartition]) -> list[DuePages]:
        """Pages of these partitions that changed, and those that must not wait. The caller writes
        them, and tells `failed` of those that could not be."""
        for key in [key for key in self._parting if not self._partitions[key].unwritten]:
            self._parting.discard(key)
            del self._partitions[key]
        urgent, self._urgent = self._urgent, set()
        found: list[DuePages] = []
        for key in dict.fromkeys([*keys, *urgent]):
            pages = self._partitions.get(key)
            unsaved = [] if pages is None else pages.take_unsaved()
            if unsaved:
                found.append(DuePages(key, unsaved))
            for page in unsaved:
                self._index.add(key, page.span)
        return found

    def failed(self, due: Iterable[DuePages]) -> None:
        """These could not be written: they are due again with the next call."""
        for key, unsaved in due:
            pages = self._partitions.get(key)
            if pages is not None:
                pages.put_back(unsaved)
                self._urgent.add(key)

    def useless(self, key: TopicPartition, log_start: int) -> list[bytes]:
        """Keys of pages to delete. None as long as it is not known which pages there are: an older
        one would count again."""
        return self._index.useless(key, log_start) if self._trims else []
