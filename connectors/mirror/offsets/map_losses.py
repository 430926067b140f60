"""Where the losses of a flow's logs are in its offset map: the pages that tell of them.

A loss page overrules the pages before it from its place on. Its session is provisional until the
map topic was read; until then it has no place, and waits here. Pure. Belongs to one thread.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import NamedTuple

from connect.protocol.messages import TopicPartition
from connectors.mirror.config.losses import Decision, Loss, LossKind
from connectors.mirror.offsets.offset_map_pages import (
    LAST_OFFSET,
    MapPage,
    PageSpan,
    end_target,
    page_segments,
    source_at,
)
from connectors.mirror.offsets.page_index import PageIndex, anchor, before_all_lost
from connectors.mirror.offsets.partition_pages import PartitionPages

__all__ = ["Anchor", "MapLosses"]

Anchor = tuple[int, int]
"""(source offset, target offset): everything before the one is before the other."""


class _Unplaced(NamedTuple):
    """A loss page, the first lost target offset, and its place on both sides if it is known.
    `target` is None if the source was re-created: the page begins where the copy of the former
    topic ends."""

    page: MapPage
    target: int | None
    place: Anchor | None


class MapLosses:
    """The loss pages of all partitions of a task, until they are noted in the topic."""

    def __init__(self, index: PageIndex) -> None:
        """`index`: knows the pages in the topic."""
        self._index = index
        self.last_pages: dict[TopicPartition, tuple[int, bytes]] = {}
        """Each partition's last page of earlier sessions: (first source offset, record value)."""
        self._unnoted: dict[TopicPartition, int] = {}
        """Sessions of loss pages that are still to be noted."""
        self._unplaced: dict[TopicPartition, list[_Unplaced]] = {}
        """Loss pages that wait until the topic was read, because their session is provisional
        before."""

    def lost(
        self, key: TopicPartition, pages: PartitionPages, loss: Loss, known: Anchor | None
    ) -> bool:
        """Record a loss in one of the partition's logs. `known`: a place on both sides before the
        lost target offsets. Returns whether its page can be written."""
        end = loss.position
        if loss.resume is not None and loss.decision is Decision.NEXT:
            end = loss.resume
        if loss.kind is LossKind.TARGET_LOSS:
            place = self._place_of(key, pages, loss.first, known)
        elif loss.kind is LossKind.TARGET_RECREATED:
            pages.take_unsaved()
            # The map may cover later offsets of a previous topic with this name.
            place, end = (0, 0), max(end, self._index.reach(key))
        elif loss.kind is LossKind.SOURCE_RECREATED and loss.resume is not None:
            # The source reuses these offsets for records that follow all records on the target.
            end_before = self._end_of(key, pages)
            pages.take_unsaved()
            if end_before is None and pages.settled:
                pages.begin_anew()
                return False
            if end_before is None:
                # The topic was not read yet, and may have pages of the former topic.
                page = pages.lost_somewhere(loss.position)
                self._unplaced.setdefault(key, []).append(_Unplaced(page, None, None))
                return False
            place, end = (0, end_before), loss.position
        else:
            return False
        self.last_pages.pop(key, None)
        if not pages.settled:
            page = pages.lost_somewhere(end)
            self._unplaced.setdefault(key, []).append(_Unplaced(page, loss.first, place))
            return False
        source, target = place or (end, loss.first)
        pages.lost_from(source, target, max(source, end))
        return True

    def settle(
        self, key: TopicPartition, pages: PartitionPages, others: Collection[PageSpan]
    ) -> None:
        """Place the loss pages that waited, because the topic was read. `others`: the pages that
        other workers wrote."""
        for unplaced in self._unplaced.pop(key, ()):
            self._find(key, pages, unplaced, others)

    def _find(
        self,
        key: TopicPartition,
        pages: PartitionPages,
        unplaced: _Unplaced,
        others: Collection[PageSpan],
    ) -> None:
        """Set where a loss page begins. `others`: the pages that other workers wrote."""
        page, target, place = unplaced
        if target is None:
            end = self._end_in_topic(key, others)
            if end is None:
                pages.drop(page)  # There is no map of the former topic to be overruled.
                return
            # The topic may have pages of the new topic already.
            end = min([end, *(own.first_target for own in pages.begun_after(page.session))])
            pages.found(page, 0, end)
        else:
            known = [*others, *pages.begun(page.session)]
            place = place or anchor(known, target) or (page.end_source, target)
            pages.found(page, *before_all_lost(known, target, place))
        # Even if a page that was copied since replaces the loss page.
        self.note_later(key, page.session)

    def _place_of(
        self, key: TopicPartition, pages: PartitionPages, target: int, known: Anchor | None
    ) -> Anchor | None:
        """Return the source offset that was at this target offset, or the nearest earlier place
        that is known on both sides."""
        place = pages.place_of(target)
        if place is None and key in self.last_pages:
            source = source_at(page_segments(*self.last_pages[key]), target)
            place = None if source is None else (source, target)
        spans = [*self._index.spans(key), *pages.begun(pages.session + 1)]
        if place is None:
            paged = anchor(spans, target) if pages.settled else None
            places = [place for place in (known, paged) if place is not None]
            place = max(places, key=lambda place: (place[1], place[0]), default=None)
        return None if place is None else before_all_lost(spans, target, place, known)

    def _end_of(self, key: TopicPartition, pages: PartitionPages) -> int | None:
        """Return a lower bound of the copy's end offset; None if nothing is known."""
        end = pages.end_target
        return self._end_in_topic(key, self._index.spans(key)) if end is None else end

    def _end_in_topic(self, key: TopicPartition, spans: Collection[PageSpan]) -> int | None:
        """Return the same bound as `_end_of`, from the pages in the topic only.

        `spans`: the pages that count.
        """
        if key in self.last_pages:
            return end_target(page_segments(*self.last_pages[key]))
        last = anchor(spans, LAST_OFFSET)
        return None if last is None else last[1]

    def note_later(self, key: TopicPartition, session: int) -> None:
        """Note a loss page of this session with the next pages that are written."""
        self._unnoted[key] = max(session, self._unnoted.get(key, -1))

    def take_unnoted(self, key: TopicPartition) -> int:
        """Return the session of the loss page that is to be noted; -1: of none. Forgets it."""
        return self._unnoted.pop(key, -1)

    def newest(
        self, key: TopicPartition, pages: Iterable[MapPage], unnoted: int = -1
    ) -> int | None:
        """Return the session of the loss to note with these pages; None if they contain no loss
        page."""
        loss = max([unnoted, *(page.session for page in pages if page.span.lost)])
        if loss < 0:
            return None
        self._index.note_loss(key, loss)
        return loss
