"""Where a consumer group goes on after moving to the other cluster: exactly, wherever it is known.

A committed offset is the offset of the record that is read next. Translated, it is where that
record is on the other cluster:

* inside a range that the offset map knows: precisely there. Of a range that was copied twice, in
  its later copy;
* where the source has no record (a transaction's marker, an aborted or compacted record): at the
  next record that exists;
* before the map, where the copy begins at the target's offset 0: at that record;
* where the target lost the record: at the end that the target had then, as what is copied next is
  there;
* where the map does not know (after its end, before its beginning, where another program copied):
  not after the record, as near as the map's last known record or MirrorMaker 2's own rule over the
  offset syncs allow, whichever is nearer. Offset syncs that are older than the map's last word
  about these offsets do not count (`Known`): they may be of records that the target has lost.

Going back (`BackwardMap`) is the same, read the other way. Pure functions. Source: ours
(docs/reference/offset-map.md), and Kafka 4.3.1 for the rule over syncs.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from connectors.mirror.formats import OffsetSync
from connectors.mirror.offsets.offset_map_index import Stretch
from connectors.mirror.offsets.offset_map_pages import (
    LAST_OFFSET,
    MapPage,
    PageSpan,
    Segment,
    in_force,
    page_segments,
)

__all__ = [
    "BackwardMap",
    "Known",
    "Place",
    "before_the_map",
    "best_place",
    "by_sync",
    "known_in_stretch",
    "nearer",
    "place_by_head",
    "places_in_stretch",
]


class Place(NamedTuple):
    """An offset on the other cluster to go on at. `exact`: the next record to read is there, or
    will be; otherwise it may lie behind, after at most `behind` records that were read already.
    `loss` orders losses: a place that was given with a lower one may lead past records that came
    after the target had lost some, and does not hold if it is further."""

    offset: int
    exact: bool
    behind: int = 0
    loss: int = 0


class Known(NamedTuple):
    """What the map says of one source offset, and which offset syncs may say more: those of source
    offsets from `syncs_from` on, and of target offsets before `syncs_below` (None: any). `loss`: of
    the place, whatever it is found by."""

    place: Place | None
    syncs_from: int = 0
    syncs_below: int | None = None
    loss: int = 0

    def counts(self, sync: OffsetSync) -> bool:
        """Whether this sync may be gone by."""
        below = self.syncs_below is None or sync.downstream_offset < self.syncs_below
        return below and sync.upstream_offset >= self.syncs_from


def places_in_stretch(stretch: Stretch, value: bytes, sources: Sequence[int]) -> list[Known]:
    """Translate offsets that one page explains.

    `value`: the page's record value; `sources`: ascending, all within the stretch. Raises
    CorruptData.
    """
    segments = page_segments(stretch.page.first_source, value)
    at = next(segments)
    ahead = next(segments, None)
    found: list[Known] = []
    for source in sources:
        while ahead is not None and ahead.source <= source:
            at, ahead = ahead, next(segments, None)
        place = _place(source, at, _next_in(stretch, ahead), stretch)
        found.append(known_in_stretch(stretch, place))
    return found


def place_by_head(stretch: Stretch, source: int) -> Place:
    """A place for an offset whose page cannot be read any more: where the page begins."""
    page = stretch.page
    return Place(page.first_target, False, source - page.first_source, stretch.loss)


def known_in_stretch(stretch: Stretch, place: Place) -> Known:
    """`place`, with the syncs that may lead further than it.

    A sync before the end of the page adds nothing to it, or is older. One that an earlier session
    had reached may be of what was copied then. One beyond the next page is of another log. After a
    loss page none counts: a worker that died may have sent syncs of records that it had not written
    pages of, and the target lost those records, too. The next page says where copying went on.
    """
    following = stretch.following
    return Known(
        place,
        LAST_OFFSET if stretch.page.lost else max(stretch.page.end_source, stretch.reach),
        None if following is None else following.first_target,
        stretch.loss,
    )


class _Next(NamedTuple):
    """The record after a segment: its offset on the target, and whether nothing lies between."""

    target: int
    seen: bool


def _next_in(stretch: Stretch, ahead: Segment | None) -> _Next | None:
    following = stretch.following
    if ahead is not None and (following is None or ahead.source < following.first_source):
        return _Next(ahead.target, True)
    return None if following is None else _Next(following.first_target, stretch.seen)


def _place(source: int, at: Segment, following: _Next | None, stretch: Stretch) -> Place:
    ahead = source - at.source
    if ahead < at.length:
        return Place(at.target + ahead, True, loss=stretch.loss)
    seen = stretch.page.end_source
    if at.length == 0 and source <= seen:
        # What was copied next is there, after what the target still had at most.
        return Place(at.target, True, loss=stretch.loss)
    if following is not None and following.seen:
        return Place(following.target, True, loss=stretch.loss)
    # What was seen and is no record is not read again.
    behind = source - max(at.source + at.length, min(source, seen))
    return Place(at.target + at.length, False, behind, stretch.loss)


def before_the_map(first: PageSpan | None, source: int, loss: int = 0) -> Known | None:
    """For an offset before every page: the first record, where the copy begins with it."""
    if first is None:
        return None
    if first.first_target == 0:
        return Known(Place(0, True, loss=loss), loss=loss)
    if first.lost or first.session > loss > 0:
        # The target may have lost the record: what was copied next may have replaced the loss page.
        # An older answer would lead a group past records that came later, so there has to be one:
        # no sync may be left from before the loss.
        return Known(Place(0, False, source, loss), syncs_below=first.first_target, loss=loss)
    return Known(None, syncs_below=first.first_target, loss=loss)


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


def best_place(known: Known | None, sync: OffsetSync | None, upstream: int) -> Place | None:
    """Where `upstream` is, by what the map knows and the nearest sync that is not after it."""
    if known is None:
        return by_sync(sync, upstream)
    if sync is None or not known.counts(sync):
        return known.place
    place = nearer(known.place, by_sync(sync, upstream))
    return None if place is None else place._replace(loss=known.loss)


class BackwardMap:
    """One partition's map from the target to the source, for groups that return."""

    def __init__(self, pages: Iterable[MapPage]) -> None:
        """All pages of the partition, in any order. Where target offsets were given twice, as the
        topic was made anew, the later ones count."""
        self._placed = in_force(pages, lambda segment: segment.target)
        self._starts = [segment.target for segment, _ in self._placed]

    def upstream(self, target: int) -> Place | None:
        """Where to go on reading on the source when `target` is next on the target. None: before
        the map, or the map is empty."""
        index = bisect_right(self._starts, target) - 1
        if index < 0:
            return None
        at, page = self._placed[index]
        ahead = target - at.target
        if ahead < at.length:
            return Place(at.source + ahead, True)
        # What follows a loss comes after records that readers of the target have not seen.
        if index + 1 < len(self._placed) and not page.span.lost:
            following, later = self._placed[index + 1]
            if later is page or page.end_source >= following.source:
                return Place(following.source, True)
        return Place(at.source + at.length, False, ahead - at.length)
