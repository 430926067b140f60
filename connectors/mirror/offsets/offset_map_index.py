"""Finds the page of the offset map that covers a source offset of one partition.

Only the heads of pages are kept, so that the map of a partition with millions of breaks needs
little memory. `OffsetMap` (offset_map_pages.py) applies the same rule to whole pages. Pure. For one
thread.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import NamedTuple

from connectors.mirror.offsets.map_notes import NO_OWNER, Owner, in_force
from connectors.mirror.offsets.offset_map_pages import PageSpan

__all__ = ["PartitionIndex", "Stretch"]


class Stretch(NamedTuple):
    """A range of source offsets, from `page.first_source` to the first one of `following`, that
    `page` covers. `reach`: the source offset up to which earlier sessions had copied. `loss`: see
    `PartitionIndex.loss`."""

    page: PageSpan
    following: PageSpan | None
    reach: int
    loss: int = 0

    @property
    def seen(self) -> bool:
        """Whether the offsets between the segments of both pages were seen and hold no record."""
        following = self.following
        return following is not None and self.page.end_source >= following.first_source


class PartitionIndex:
    """The pages of one partition."""

    def __init__(self) -> None:
        self._pages: dict[int, PageSpan] = {}
        self._placed: list[PageSpan] | None = []
        self._starts: list[int] = []
        self._reaches: list[int] = []
        self._ends = _Ends()
        self._loss = self._noted = 0
        self._owner = NO_OWNER
        self._late_owners: set[int] = set()
        """The sessions of the notes since the owner's that do not count."""

    def __len__(self) -> int:
        return len(self._pages)

    def is_late(self, page: PageSpan) -> bool:
        """Whether this page, which comes next in the topic, must be ignored, because it was written
        late (`PageSpan.is_late`), or by a session before that of the partition's owner."""
        late = page.is_late(self._pages.get(page.first_source))
        return late or page.session < self._owner

    def note_owner(self, noted: Owner) -> None:
        """Note that a session took the partition over."""
        self._owner = in_force(self._owner, noted, self._late_owners)
        if self._owner == noted.session:
            self._late_owners.clear()
        else:
            self._late_owners.add(noted.session)

    def put(self, page: PageSpan) -> PageSpan | None:
        """Add a page that is in the topic. Returns the page with the same first source offset that
        it replaces.
        """
        replaced = self._pages.get(page.first_source)
        self._pages[page.first_source] = page
        if page.lost:
            self._loss = max(self._loss, page.session)
        placed = self._placed
        if placed is None:
            return replaced
        last = placed[-1] if placed else None
        if replaced is not None and (
            replaced is not last
            or replaced.session != page.session
            or replaced.end_source > page.end_source
        ):
            self._placed = None
        elif last is None or _order(last) <= _order(page):
            self._place(placed, page)
        else:
            self._placed = None
        return replaced

    def remove(self, first_source: int) -> PageSpan | None:
        """Remove a page that was deleted from the topic, and return it."""
        removed = self._pages.pop(first_source, None)
        if removed is not None:
            self._placed = None
        return removed

    def pages(self) -> list[PageSpan]:
        """Return all pages, in the order in which they were started."""
        return sorted(self._pages.values(), key=_order)

    def first(self) -> PageSpan | None:
        """Return the page with the lowest source offset that is still valid."""
        placed = self._sorted()
        return placed[0] if placed else None

    def note_loss(self, session: int) -> None:
        """Note that this session wrote a loss page, which may have been replaced since."""
        self._noted = max(self._noted, session)

    @property
    def loss(self) -> int:
        """Return the session that wrote the newest loss page; 0 if there was none."""
        self._sorted()
        return max(self._loss, self._noted)

    def at(self, source: int) -> Stretch | None:
        """Return the stretch that covers `source`; None if it is before every page."""
        placed = self._sorted()
        index = bisect_right(self._starts, source) - 1
        if index < 0:
            return None
        following = placed[index + 1] if index + 1 < len(placed) else None
        return Stretch(placed[index], following, self._reaches[index], self.loss)

    def _sorted(self) -> list[PageSpan]:
        if self._placed is None:
            placed: list[PageSpan] = []
            self._placed, self._starts, self._reaches = placed, [], []
            self._ends = _Ends()
            self._loss = max(
                (each.session for each in self._pages.values() if each.lost), default=0
            )
            for page in self.pages():
                self._place(placed, page)
        return self._placed

    def _place(self, placed: list[PageSpan], page: PageSpan) -> None:
        """Insert a page of the latest session. It overrides all others from its first offset on."""
        while placed and placed[-1].first_source >= page.first_source:
            placed.pop()
            self._starts.pop()
            self._reaches.pop()
        placed.append(page)
        self._starts.append(page.first_source)
        self._reaches.append(self._ends.before(page))


class _Ends:
    """Computes how far sessions have copied, from their pages in the order of sessions."""

    def __init__(self) -> None:
        self._session = -1
        self._earlier = self._all = 0

    def before(self, page: PageSpan) -> int:
        """Return how far the sessions before this page's session had copied."""
        if page.session > self._session:
            self._session, self._earlier = page.session, self._all
        self._all = max(self._all, page.end_source)
        return self._earlier


def _order(page: PageSpan) -> tuple[int, int]:
    return page.session, page.first_source
