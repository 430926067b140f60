"""The pages of the offset map that a flow's task writes: which are due, and which can be deleted.

Knows each partition's current pages and the spans of those in the map topic. It does no I/O:
`offset_sync_writer.py` reads the topic and writes due pages. Belongs to one thread.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from types import MappingProxyType
from typing import NamedTuple

from connect.clock import Clock
from connect.protocol.messages import TopicPartition
from connectors.mirror.config.losses import Decision, Loss, LossKind
from connectors.mirror.offsets.map_notes import NO_OWNER, Note, Owner, encode_loss, note_key
from connectors.mirror.offsets.map_owners import MapOwners
from connectors.mirror.offsets.map_topic_reading import MapTopic
from connectors.mirror.offsets.offset_map_pages import (
    LAST_OFFSET,
    MapPage,
    PageSpan,
    end_target,
    page_key,
    page_segments,
    source_at,
)
from connectors.mirror.offsets.offset_map_repair import head_of, heads_in_place_of
from connectors.mirror.offsets.page_index import PageIndex, anchor, before_all_lost
from connectors.mirror.offsets.partition_pages import PartitionPages

__all__ = ["DuePages", "MapWriter"]

Anchor = tuple[int, int]
"""(source offset, target offset): everything before the one is before the other."""


class DuePages(NamedTuple):
    """Pages of one partition that are to be written. `loss`: the session of a loss page that is to
    be noted; None: of none. `delete`: the first source offsets of pages to delete, and which pages
    were there before."""

    key: TopicPartition
    pages: list[MapPage]
    loss: int | None = None
    delete: Mapping[int, PageSpan | None] = MappingProxyType({})

    def records(self) -> list[tuple[bytes, bytes | None]]:
        """Return (key, value) of the records to write."""
        # First, because a reader ignores a page of an earlier session after one of a later session.
        records: list[tuple[bytes, bytes | None]] = [
            (page_key(*self.key, first), None) for first in self.delete
        ]
        records += [(page_key(*self.key, page.first_source), page.encode()) for page in self.pages]
        if self.loss is not None:
            # After its page, so that readers who know of the loss also know the lost offsets.
            records.append((note_key(Note.LOSS, self.key), encode_loss(self.loss)))
        return records


class _Unplaced(NamedTuple):
    """A loss page, the first lost target offset, and its place on both sides if it is known.
    `target` is None if the source was re-created: the page begins where the copy of the former
    topic ends."""

    page: MapPage
    target: int | None
    place: Anchor | None


def _identity(span: PageSpan) -> tuple[int, int, int]:
    return span.first_source, span.session, span.first_target


class MapWriter:
    """The due pages of all partitions of a task. Belongs to one thread."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._reading = True
        self.holds = True
        """Whether pages wait until it is known which session they may have."""
        self._trims = False
        self._partitions: dict[TopicPartition, PartitionPages] = {}
        self._parting: set[TopicPartition] = set()
        self._index = PageIndex()
        self.owners = MapOwners(self._index)
        self._last_pages: dict[TopicPartition, tuple[int, bytes]] = {}
        """Each partition's last page of earlier sessions: (first source offset, record value)."""
        self._urgent: set[TopicPartition] = set()
        self._wrong: dict[TopicPartition, dict[int, PageSpan | None]] = {}
        """First source offsets of pages that others wrote, wrote over, or deleted, and which pages
        were known there before."""
        self._log_starts: dict[TopicPartition, int] = {}
        """The source's log starts, as far as they are known."""
        self._has_read = False
        """The topic could be read once. Before that, every page of former owners is new."""
        self._in_flight: set[tuple[TopicPartition, int]] = set()
        """Pages of this task that are being written, by first source offset."""
        self._since_read: set[tuple[TopicPartition, int]] = set()
        """Pages that this task wrote since the read began, which may have ended before."""
        self._unnoted: dict[TopicPartition, int] = {}
        """Sessions of loss pages that are still to be noted."""
        self._unplaced: dict[TopicPartition, list[_Unplaced]] = {}
        """Loss pages that wait until the topic was read, because their session is provisional
        before."""

    # Reading the topic.

    def read_begins(self) -> None:
        """Note that a read of the topic begins."""
        self.owners.read_begins()
        self._since_read = set(self._in_flight)

    def reads(self) -> None:
        """Note that the topic is being read (again): its contents for new partitions are not known
        yet."""
        self._reading = self.holds = True

    @property
    def waits_for_read(self) -> bool:
        """Whether there are pages with a provisional session."""
        return any(not pages.settled for pages in self._partitions.values())

    def release(self) -> None:
        """Let pages with a provisional session be due, because the read takes too long. They are
        due again with a later session if it turns out to be too low."""
        if self.holds:
            self.holds = False
            self._urgent.update(key for key, each in self._partitions.items() if not each.settled)

    def has_read(self, found: MapTopic, *, stood_still: bool = False) -> None:
        """Apply the result of a read. In `found`, only records since the last read count.
        `stood_still`: this task may have lost partitions without knowing."""
        self._reading = False
        self._trims = found.reached is not None
        if found.created_again:
            self._begin_anew(found)
        self._last_pages.update(found.last_pages)
        for key, session in found.losses.items():
            self._index.note_loss(key, session)
        settled = {key: pages for key, pages in self._partitions.items() if pages.settled}
        copied = settled.keys() - self._parting
        owners = {} if found.failed else found.owners
        late = found.late_owners
        for key in self.owners.has_read(owners, late, copied, stood_still=stood_still):
            mine = settled.get(key)
            if mine is not None and key in copied:
                if found.created_again and self._index.owner(key) == NO_OWNER:
                    self._write_missing(key, mine)
                else:
                    mine.overtake(self._index.newest(key) + 1)
                self._urgent.add(key)
        self._compare(found)
        self._has_read = self._has_read or not found.failed
        for key, spans in found.pages.items():
            for span in spans:
                self._index.add(key, span)
        for key, pages in self._partitions.items():
            if not pages.settled:
                others = pages.settle(self._index.spans(key), self._index.newest_noted(key))
                for unplaced in self._unplaced.pop(key, ()):
                    self._find(key, pages, unplaced, others)
                self._urgent.add(key)

    def _begin_anew(self, found: MapTopic) -> None:
        """Forget what the topic had before it was created again. This task has no note of the owner
        in it now, so it takes its partitions over again. Only the pages that it has written to the
        new topic stay known."""
        self._index.forget_all_but(found.pages)
        self.owners.forget_late()
        self._last_pages.clear()
        self._wrong.clear()

    def _write_missing(self, key: TopicPartition, pages: PartitionPages) -> None:
        """Make pages due that are in memory and not in the topic. The last one comes first:
        before the others, offset syncs lead groups no further back than they did."""
        for span in pages.in_memory:
            if not self._index.knows(key, *_identity(span)):
                pages.write_again(span.first_source)

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
        self._unnoted[key] = max(page.session, self._unnoted.get(key, -1))

    def _compare(self, found: MapTopic) -> None:
        """Note late writes of workers that no longer have these partitions: over pages of later
        sessions, with an unknown session, or deletions."""
        for key, spans in found.pages.items():
            pages = self._partitions.get(key)
            mine = pages is not None and pages.settled and key not in self._parting
            late = found.late.get(key, ())
            wrong = {span.first_source for span in spans if self._index.is_late(key, span)}
            wrong.update(late)
            wrong.update(self._wrongly_deleted(key, found.gone[key]))
            if pages is not None and mine and self._has_read:
                strange = (span for span in spans if not self._index.knows(key, *_identity(span)))
                wrong.update(span.first_source for span in strange)
            newer = {first for first in wrong if (key, first) in self._since_read}
            if newer and pages is not None and mine:
                # The read may have ended before these were written. A tombstone would delete them
                # for readers that do not have the page after it yet.
                self._urgent.add(key)
                for first in newer:
                    pages.write_again(first)
            wrong -= newer
            # A page that counts came in the place of a wrong one.
            for first in {span.first_source for span in spans} - wrong:
                self._wrong.get(key, {}).pop(first, None)
            if wrong:
                noted = self._wrong.setdefault(key, {})
                written_over = {s.first_source: s for s in spans if s.first_source in late}
                for first in wrong:
                    noted.setdefault(first, self._index.span(key, first) or written_over.get(first))
                if mine:
                    self._urgent.add(key)

    def _wrongly_deleted(self, key: TopicPartition, gone: Iterable[int]) -> set[int]:
        """Return which of these deleted pages are missed. Pages of former owners are not: their
        successor deletes them when the source does not have their records any more."""
        known = {first: self._index.span(key, first) for first in gone}
        owner = self._index.owner(key)
        for first, span in known.items():
            if span is not None and span.session < owner:
                self._index.remove(key, first)
        return {first for first in known if self._index.knows(key, first)}

    def _repair(
        self, key: TopicPartition, pages: PartitionPages | None, *, owned: bool
    ) -> tuple[dict[int, PageSpan | None], list[MapPage]]:
        """Return the pages that others wrote too late, to be deleted, and pages to put in their
        place. This task's own pages under these keys are due again if they are in memory.
        Otherwise no page is better than a misleading one, unless the target once lost records:
        then pages from before the loss would count again."""
        if pages is not None and not pages.settled:
            return {}, []
        wrong = self._wrong.pop(key, {})
        losses = self._index.has_losses(key)
        for first in wrong:
            self._index.remove(key, first)
        former = [span for span in wrong.values() if span is not None]
        needed = self._index.needed(key, former, self._log_starts.get(key, -1))
        gone: list[PageSpan] = []
        for first, span in wrong.items():
            if span is not None and first not in needed:
                continue
            if pages is not None and pages.write_again(first):
                continue
            if span is not None and losses:
                gone.append(span)
        if pages is None:
            return wrong, [head_of(span) for span in gone]
        owner = self._index.owner(key)
        # Before its note of the owner, none of its pages are in the topic.
        begun = pages.begun_after(owner - 1) if owned else ()
        return wrong, heads_in_place_of(gone, self._index.spans(key), owner, begun)

    # Copied and lost records.

    def copied(self, key: TopicPartition, source: int, count: int, target: int) -> None:
        """Record that `count` records from `source` on are on the target from `target` on."""
        if not self.owners.lost(key):
            self._of(key).copied(source, count, target)

    def source_begins(self, key: TopicPartition, log_start: int) -> None:
        """Note the source's log start; below 0: it is not known."""
        if log_start >= 0:
            self._log_starts[key] = log_start

    def seen(self, key: TopicPartition, position: int) -> None:
        """Record that every record before `position` is on the target or needs no copying."""
        pages = self._partitions.get(key)
        if pages is not None:
            pages.seen(position)

    def lost(self, key: TopicPartition, loss: Loss, known: Anchor | None) -> bool:
        """Record a loss in one of the partition's logs. `known`: a place on both sides before the
        lost target offsets. Returns whether pages must be written at once."""
        if self.owners.lost(key):
            return False
        pages = self._of(key)
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
        """Return the source offset that was at this target offset, or the nearest earlier place
        that is known on both sides."""
        place = pages.place_of(target)
        if place is None and key in self._last_pages:
            source = source_at(page_segments(*self._last_pages[key]), target)
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
        if key in self._last_pages:
            return end_target(page_segments(*self._last_pages[key]))
        last = anchor(spans, LAST_OFFSET)
        return None if last is None else last[1]

    def _of(self, key: TopicPartition) -> PartitionPages:
        pages = self._partitions.get(key)
        if pages is not None and key not in self._parting:
            return pages
        self._parting.discard(key)
        if pages is not None and not pages.settled:
            return pages
        # The partition returned. Another task may have copied it meanwhile.
        left = [] if pages is None else pages.take_unsaved()
        session = max(self._clock.now_ms(), self._index.newest(key) + 1)
        pages = PartitionPages(session, settled=not self._reading)
        pages.put_back(left)
        self._partitions[key] = pages
        self.owners.begin_anew(key)
        return pages

    def forget(self, key: TopicPartition) -> None:
        """Drop a partition that left and whose position is stored. Its due pages stay due."""
        self.owners.forget(key)
        if key in self._partitions:
            self._parting.add(key)

    # Due pages.

    def due_owners(self, keys: Iterable[TopicPartition]) -> dict[TopicPartition, list[Owner]]:
        """Return the notes of the owner that are to be written before the due pages of these
        partitions, and before urgent pages. The caller tells `owners` when they are written."""
        found: dict[TopicPartition, list[Owner]] = {}
        for key in dict.fromkeys([*keys, *sorted(self._urgent)]):
            pages = self._partitions.get(key)
            due = pages is not None and pages.settled and pages.unwritten
            if pages is not None and due and self.owners.needs_note(key):
                found[key] = self.owners.take(key, pages.first_session)
        return found

    def due_repairs(self, keys: Iterable[TopicPartition]) -> list[DuePages]:
        """Return the repairs that are to be written before the notes of the owner of these
        partitions: a page from before a loss gets its former session back, and readers leave out
        pages of sessions before the owner's."""
        found: list[DuePages] = []
        for key in keys:
            stray, again = self._repair(key, self._partitions.get(key), owned=False)
            if stray or again:
                loss = self._newest_loss(key, again)
                found.append(self._to_write(DuePages(key, again, loss, stray)))
        return found

    def due(self, keys: Iterable[TopicPartition]) -> list[DuePages]:
        """Return the changed pages of these partitions, and urgent pages of any. The caller writes
        them and passes failed ones to `failed`.

        While `holds`, pages with a provisional session wait until the topic was read: others may
        have written with a later session under the same keys, and compaction would keep the last
        page of a key."""
        for key in [key for key in self._parting if not self._partitions[key].unwritten]:
            self._parting.discard(key)
            del self._partitions[key]
            self._log_starts.pop(key, None)
        urgent, self._urgent = self._urgent, set()
        found: list[DuePages] = []
        for key in dict.fromkeys([*keys, *sorted(urgent)]):
            pages = self._partitions.get(key)
            stray, again = self._repair(key, pages, owned=True)
            waits = self.holds and pages is not None and not pages.settled
            unsaved = [] if pages is None or waits else pages.take_unsaved()
            if self.owners.lost(key):
                self._wrong.pop(key, None)
                self._unnoted.pop(key, None)
                continue
            mine = {page.first_source for page in unsaved}
            unsaved = [*(page for page in again if page.first_source not in mine), *unsaved]
            loss = self._newest_loss(key, unsaved, self._unnoted.pop(key, -1))
            if unsaved or stray or loss is not None:
                found.append(self._to_write(DuePages(key, unsaved, loss, stray)))
        return found

    def _newest_loss(
        self, key: TopicPartition, pages: Iterable[MapPage], unnoted: int = -1
    ) -> int | None:
        """Return the session of the loss to note with these pages; None if they contain no loss
        page."""
        loss = max([unnoted, *(page.session for page in pages if page.span.lost)])
        if loss < 0:
            return None
        self._index.note_loss(key, loss)
        return loss

    def _to_write(self, due: DuePages) -> DuePages:
        """Note that these pages are in flight from now on."""
        written = {(due.key, page.first_source) for page in due.pages}
        self._in_flight |= written
        self._since_read |= written
        for page in due.pages:
            self._index.add(due.key, page.span)
        return due

    def written(self, due: Iterable[DuePages]) -> None:
        """Note that these pages are not in flight any more."""
        for key, pages, *_ in due:
            self._in_flight.difference_update((key, page.first_source) for page in pages)

    def failed(self, due: Iterable[DuePages]) -> None:
        """Make these pages due again, because they could not be written."""
        for key, unsaved, loss, stray in due:
            if stray:
                self._wrong.setdefault(key, {}).update(stray)
                self._urgent.add(key)
            if loss is not None:
                self._unnoted[key] = max(loss, self._unnoted.get(key, -1))
                self._urgent.add(key)
            pages = self._partitions.get(key)
            if pages is not None:
                pages.put_back(unsaved)
                self._urgent.add(key)

    def useless(self, key: TopicPartition, log_start: int) -> list[bytes]:
        """Return the keys of pages to delete. None while the pages in the topic are not known,
        because after a deletion an older page would count again, or a page of another worker might
        be deleted."""
        known = self._trims and not self._reading
        return self._index.useless(key, log_start) if known else []
