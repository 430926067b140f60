"""The pages of the offset map that a flow's task writes: which are due, and which can be deleted.

Knows each partition's current pages and the spans of those in the map topic. It does no I/O:
`offset_sync_writer.py` reads the topic and writes due pages. Belongs to one thread.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import NamedTuple

from connect.clock import Clock
from connect.protocol.messages import TopicPartition
from connectors.mirror.config.losses import Loss
from connectors.mirror.offsets.map_losses import Anchor, MapLosses
from connectors.mirror.offsets.map_notes import NO_OWNER, Note, Owner, encode_loss, note_key
from connectors.mirror.offsets.map_owners import MapOwners
from connectors.mirror.offsets.map_topic_reading import MapTopic
from connectors.mirror.offsets.offset_map_pages import (
    MapPage,
    PageSpan,
    page_key,
)
from connectors.mirror.offsets.offset_map_repair import head_of, heads_in_place_of
from connectors.mirror.offsets.page_index import PageIndex
from connectors.mirror.offsets.partition_pages import PartitionPages

__all__ = ["DuePages", "MapWriter"]


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
        self._losses = MapLosses(self._index)
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
        self._losses.last_pages.update(found.last_pages)
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
                self._losses.settle(key, pages, others)
                self._urgent.add(key)

    def _begin_anew(self, found: MapTopic) -> None:
        """Forget what the topic had before it was created again. This task has no note of the owner
        in it now, so it takes its partitions over again. Only the pages that it has written to the
        new topic stay known."""
        self._index.forget_all_but(found.pages)
        self.owners.forget_late()
        self._losses.last_pages.clear()
        self._wrong.clear()

    def _write_missing(self, key: TopicPartition, pages: PartitionPages) -> None:
        """Make pages due that are in memory and not in the topic. The last one comes first:
        before the others, offset syncs lead groups no further back than they did."""
        for span in pages.in_memory:
            if not self._index.knows(key, *_identity(span)):
                pages.write_again(span.first_source)

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
        if self.owners.lost(key) or not self._losses.lost(key, self._of(key), loss, known):
            return False
        self._urgent.add(key)
        return True

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
                loss = self._losses.newest(key, again)
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
                self._losses.take_unnoted(key)
                continue
            mine = {page.first_source for page in unsaved}
            unsaved = [*(page for page in again if page.first_source not in mine), *unsaved]
            loss = self._losses.newest(key, unsaved, self._losses.take_unnoted(key))
            if unsaved or stray or loss is not None:
                found.append(self._to_write(DuePages(key, unsaved, loss, stray)))
        return found

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
                self._losses.note_later(key, loss)
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
