"""Where a consumer group goes on after moving to the other cluster: exactly, wherever it is known.

A committed offset is the offset of the record that is read next. Translated, it is where that
record is on the other cluster:

* inside a range that the offset map knows: precisely there. Of a range that was copied twice, in
  its later copy;
* where the source has no record (a transaction's marker, an aborted or compacted record): at the
  next record that exists;
* before the map, where the copy begins at the target's offset 0: at that record;
* where the map does not know (after its end, before its beginning, where another program copied):
  not after the record, as near as the map's last known record or MirrorMaker 2's own rule over the
  offset syncs allow, whichever is nearer.

Going back (`BackwardMap`) is the same, read the other way. Pure functions. Source: ours
(docs/offset-map.md), and Kafka 4.3.1 for the rule over syncs.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from connectors.mirror.formats import OffsetSync
from connectors.mirror.offset_map import MapPage, Segment, page_segments
from connectors.mirror.offset_map_index import PageRef, Stretch

__all__ = [
    "BackwardMap",
    "Place",
    "before_the_map",
    "by_sync",
    "nearer",
    "places_in_stretch",
]


class Place(NamedTuple):
    """An offset on the other cluster to go on at. `exact`: the next record to read is there, or
    will be; otherwise it may lie behind, after at most `behind` records that were read already."""

    offset: int
    exact: bool
    behind: int = 0


def places_in_stretch(stretch: Stretch, value: bytes, sources: Sequence[int]) -> list[Place]:
    """Translate offsets that one page explains.

    `value`: the page's record value; `sources`: ascending, all within the stretch. Raises
    CorruptData.
    """
    segments = page_segments(stretch.page.first_source, value)
    at = next(segments)
    ahead = next(segments, None)
    places: list[Place] = []
    for source in sources:
        while ahead is not None and ahead.source <= source:
            at, ahead = ahead, next(segments, None)
        places.append(_place(source, at, _next_in(stretch, ahead), stretch.page.end_source))
    return places


class _Next(NamedTuple):
    """The record after a segment: its offset on the target, and whether nothing lies between."""

    target: int
    seen: bool


def _next_in(stretch: Stretch, ahead: Segment | None) -> _Next | None:
    following = stretch.following
    if ahead is not None and (following is None or ahead.source < following.first_source):
        return _Next(ahead.target, True)
    return None if following is None else _Next(following.first_target, stretch.seen)


def _place(source: int, at: Segment, following: _Next | None, seen: int) -> Place:
    ahead = source - at.source
    if ahead < at.length:
        return Place(at.target + ahead, True)
    if following is not None and following.seen:
        return Place(following.target, True)
    # What was seen and is no record is not read again.
    behind = source - max(at.source + at.length, min(source, seen))
    return Place(at.target + at.length, False, behind)


def before_the_map(first: PageRef | None) -> Place | None:
    """For an offset before every page: the first record, where the copy begins with it."""
    if first is None or first.first_target != 0:
        return None
    return Place(0, True)


def by_sync(sync: OffsetSync | None, upstream: int) -> Place | None:
    """MirrorMaker 2's rule: at the sync, or one after it, never further.

    `sync`: the nearest that is not after `upstream`.
    """
    if sync is None:
        return None
    behind = upstream - sync.upstream_offset
    if behind <= 0:
        return Place(sync.downstream_offset, False)
    return Place(sync.downstream_offset + 1, False, behind - 1)


def nearer(of_map: Place | None, of_syncs: Place | None) -> Place | None:
    """The better of two answers, neither of which leaves out a record."""
    if of_map is None or (
        not of_map.exact and of_syncs is not None and of_syncs.offset > of_map.offset
    ):
        return of_syncs
    return of_map


class BackwardMap:
    """One partition's map from the target to the source, for groups that return."""

    def __init__(self, pages: Iterable[MapPage]) -> None:
        """All pages of the partition, in any order. Where target offsets were given twice, as the
        topic was made anew, the later ones count."""
        ordered = sorted(pages, key=lambda page: (page.session, page.first_source))
        self._reach = {page.session: page.end_source for page in ordered}
        self._placed: list[tuple[Segment, int]] = []
        for page in ordered:
            for segment in page.segments:
                self._put(segment, page.session)
        self._starts = [segment.target for segment, _ in self._placed]

    def _put(self, segment: Segment, session: int) -> None:
        placed = self._placed
        while placed and placed[-1][0].target >= segment.target:
            placed.pop()
        if placed:
            last, owner = placed[-1]
            if last.target + last.length > segment.target:
                kept = last._replace(length=segment.target - last.target)
                placed[-1] = (kept, owner)
        placed.append((segment, session))

    def upstream(self, target: int) -> Place | None:
        """Where to go on reading on the source when `target` is next on the target. None: before
        the map, or the map is empty."""
        index = bisect_right(self._starts, target) - 1
        if index < 0:
            return None
        at, session = self._placed[index]
        ahead = target - at.target
        if ahead < at.length:
            return Place(at.source + ahead, True)
        if index + 1 < len(self._placed):
            following, later = self._placed[index + 1]
            if later == session or self._reach[session] >= following.source:
                return Place(following.source, True)
        return Place(at.source + at.length, False, ahead - at.length)
