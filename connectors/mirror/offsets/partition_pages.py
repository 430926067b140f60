"""The pages of the offset map that one session writes for one partition, and which of them are due.
Pure. Not thread-safe."""

from __future__ import annotations

from collections.abc import Iterable

from connectors.mirror.offsets.offset_map_pages import (
    MapPage,
    PageSpan,
    Segment,
    end_target,
    source_at,
)

__all__ = ["PAGE_SEGMENTS", "PartitionPages"]

PAGE_SEGMENTS = 1024
"""A page with this number of segments is closed: about 4 KiB, rewritten at most once per commit."""

_KEPT_PAGES = 4
"""Number of a partition's written pages that are kept in memory."""


class PartitionPages:
    """The pages that one session writes for one partition, and which of them are due.

    `session` is provisional until `settle` receives the pages that others wrote.
    """

    def __init__(self, session: int, *, settled: bool = False) -> None:
        """`settled`: no other page of the partition has this session or a later one."""
        self._first = self._session = session
        self._current: MapPage | None = None
        self._unsaved: list[MapPage] = []
        self._unplaced: list[MapPage] = []
        self._begun: list[MapPage] = []
        """The first page of each session."""
        self._guessed: dict[int, MapPage] | None = None if settled else {}
        """Pages taken before `settle`, by first source offset."""
        self._written: dict[int, MapPage] = {}
        """The pages that were taken last, by first source offset."""

    def copied(self, source: int, count: int, target: int) -> None:
        """Record that `count` records from `source` on are on the target from `target` on."""
        page = self._current
        if page is not None:
            last = page.segments[-1]
            end = last.source + last.length
            if source == end and target == last.target + last.length:
                page.segments[-1] = Segment(last.source, last.target, last.length + count)
                self._note(page)
                return
            if source < end:
                # Records are copied again, so earlier pages must not override the new ones.
                self._session += 1
                page = None
            elif len(page.segments) >= PAGE_SEGMENTS:
                # A reader that misses the next page must see that something is missing.
                self.seen(source)
                page = None
        if page is None:
            page = self._current = MapPage(self._session)
            if not self._begun or self._begun[-1].session != self._session:
                self._begun.append(page)
        page.segments.append(Segment(source, target, count))
        self._note(page)

    def seen(self, source: int) -> None:
        """Record that every offset before this one was seen: after the last segment there is no
        record."""
        page = self._current
        if page is not None and source > page.end_source:
            page.seen = source
            self._note(page)

    def place_of(self, target: int) -> tuple[int, int] | None:
        """Return the source offset for this target offset (`source_at`), and the target offset. If
        the target lost its records there: both offsets of the loss's beginning. None if the pages
        in memory do not cover it: the current one, those not yet written, those written last, and
        those whose session is a guess."""
        there = [*(self._guessed or {}).values(), *self._written.values(), *self._unsaved]
        pages = {id(page): page for page in there}
        if self._current is not None:
            pages[id(self._current)] = self._current
        for page in sorted(pages.values(), key=lambda page: page.span, reverse=True):
            span = page.span
            if span.lost and span.first_target <= target:
                return span.first_source, span.first_target
            source = source_at(page.segments, target)
            if source is not None:
                return source, target
        return None

    @property
    def end_target(self) -> int | None:
        """Return the target offset after the last segment of the current page."""
        return None if self._current is None else end_target(self._current.segments)

    def lost_from(self, source: int, target: int, end: int = 0) -> None:
        """Record that the target lost its copies of the source offsets from `source` up to `end`.
        Groups at these offsets continue at `target`, where the next copied record will be."""
        self.begin_anew()
        page = MapPage(self._session, [Segment(source, target, 0)], end)
        self._unsaved.append(page)
        self._begun.append(page)
        self.begin_anew()

    def lost_somewhere(self, end: int) -> MapPage:
        """Like `lost_from`, if the first lost offset is not known yet; `found` sets it later."""
        self.begin_anew()
        page = MapPage(self._session, [Segment(end, 0, 0)], end)
        self._unplaced.append(page)
        self.begin_anew()
        return page

    def found(self, page: MapPage, source: int, target: int) -> None:
        """Set where the loss of this page of `lost_somewhere` starts."""
        self._unplaced.remove(page)
        if any(p.session > page.session and p.first_source == source for p in self._begun):
            return  # The records copied since start there, under the same key.
        page.segments[0] = Segment(source, target, 0)
        self._begun.append(page)
        # In the order of sessions, because the last page under a key counts.
        due = [p for p in self._unsaved if not self._is_overruled(p)]
        self._unsaved = sorted([page, *due], key=lambda p: (p.session, p.first_source))

    def drop(self, page: MapPage) -> None:
        """Forget this page of `lost_somewhere`, because there is nothing that it overrides."""
        self._unplaced.remove(page)

    def begin_anew(self) -> None:
        """Start a new session. Its pages override all earlier ones from their first source offset
        on."""
        self._session += 1
        self._current = None

    def begun(self, before: int) -> list[PageSpan]:
        """Return the first page of each session of these pages that is earlier than `before`."""
        return [page.span for page in self._begun if page.session < before]

    def begun_after(self, session: int) -> list[PageSpan]:
        """Return the first page of each session of these pages that is later than this one."""
        return [page.span for page in self._begun if page.session > session]

    @property
    def session(self) -> int:
        """Return the session of the next pages."""
        return self._session

    @property
    def first_session(self) -> int:
        """Return the session of the first of these pages."""
        return self._first

    @property
    def in_memory(self) -> list[PageSpan]:
        """Return the pages that were taken last, oldest first."""
        return [page.span for page in self._written.values()]

    @property
    def settled(self) -> bool:
        """Whether it is known that no other page has a session as high as these."""
        return self._guessed is None

    @property
    def unwritten(self) -> bool:
        """Whether pages are due, or may become due once the sessions of others are known."""
        return bool(self._unsaved) or not self.settled

    def settle(self, spans: Iterable[PageSpan], loss: int = -1) -> list[PageSpan]:
        """Set the pages in the topic. Returns the spans of others.

        `spans`: the partition's pages in the topic. `loss`: the session of the newest loss page
        that is noted there. If others wrote with a session as high as this one's, its pages get
        higher sessions and are due again.
        """
        guessed, self._guessed = self._guessed, None
        if guessed is None:
            return []
        own = {first: page.session for first, page in guessed.items()}
        others = [span for span in spans if own.get(span.first_source) != span.session]
        raised = max((span.session for span in others), default=-1)
        raised = max(raised, loss) + 1 - self._first
        if raised > 0:
            self._raise(raised, guessed.values())
        return others

    def overtake(self, session: int) -> None:
        """Raise the sessions of these pages to this one and above, because another task may have
        written pages with sessions as high. Pages that are in memory must be written again."""
        if self._guessed is None and session > self._first:
            self._raise(session - self._first, self._written.values())

    def _raise(self, raised: int, written: Iterable[MapPage]) -> None:
        unsaved = {id(page) for page in self._unsaved}
        again = [
            page for page in written if id(page) not in unsaved and not self._is_overruled(page)
        ]
        self._unsaved = sorted(
            [*again, *self._unsaved], key=lambda page: (page.session, page.first_source)
        )
        moved = {id(page): page for page in [*self._unsaved, *self._unplaced]}
        moved |= {id(page): page for page in self._begun}
        if self._current is not None:
            moved[id(self._current)] = self._current
        for page in moved.values():
            page.session += raised
        self._first += raised
        self._session += raised

    def _note(self, page: MapPage) -> None:
        if not self._unsaved or self._unsaved[-1] is not page:
            self._unsaved.append(page)

    def take_unsaved(self) -> list[MapPage]:
        """Return the pages that changed since the last call, in the order in which they are to be
        written."""
        unsaved, self._unsaved = self._to_write(), []
        if self._guessed is not None:
            self._guessed.update((page.first_source, page) for page in unsaved)
        for page in unsaved:
            self._written.pop(page.first_source, None)
            self._written[page.first_source] = page
        for first in list(self._written)[:-_KEPT_PAGES]:
            del self._written[first]
        return unsaved

    def _to_write(self) -> list[MapPage]:
        """Return the unsaved pages, oldest first. But pages that a later session overrules come
        after that session's own pages, or not at all if it has a page under their key: a reader
        between them would lead groups to the earlier copy, though syncs may have led them to the
        later one already. With a loss page among them, the order stays: syncs of what was lost must
        not count."""
        overruled = [page for page in self._unsaved if self._is_overruled(page)]
        if not overruled or any(page.span.lost for page in self._unsaved):
            return self._unsaved
        left_out = {id(page) for page in overruled}
        first = [page for page in self._unsaved if id(page) not in left_out]
        taken = {page.first_source for page in first}
        return first + [page for page in overruled if page.first_source not in taken]

    def write_again(self, first_source: int) -> bool:
        """Make this page due again, because another worker overwrote it. Returns False if the page
        is not in memory any more."""
        page = self._written.get(first_source)
        if page is not None and all(page is not each for each in self._unsaved):
            self.put_back([page])
        return page is not None

    def put_back(self, pages: list[MapPage]) -> None:
        """Make these pages due again, because they could not be written. Leaves out those that a
        later session overrides, because it may have a page under the same key."""
        pages = [page for page in pages if not self._is_overruled(page)]
        again = {id(page) for page in pages}
        self._unsaved = pages + [page for page in self._unsaved if id(page) not in again]

    def _is_overruled(self, page: MapPage) -> bool:
        return any(
            begun.session > page.session and begun.first_source <= page.first_source
            for begun in self._begun
        )
