"""Translates consumer group offsets to the other cluster, exactly wherever the offset map covers
them.

A committed offset is the offset of the next record to read. Its translation is the offset of that
record on the other cluster:

* in a range that the offset map covers: exactly its copy; of a range that was copied twice, the
  later copy;
* where the source has no record (a transaction marker, an aborted or compacted record): the next
  record that exists;
* before the map, if the copy begins at the target's offset 0: offset 0;
* where the target lost the record: the log end that the target had then, because the next copied
  record is there;
* where the map does not cover it (after its end, before its start, or copied by another program):
  an offset that is never after the record, from the map's last known record or MirrorMaker 2's rule
  with offset syncs, whichever is nearer. Offset syncs that are older than the map's latest entry
  about these offsets are ignored (`Known`), because the target may have lost their records.

`BackwardMap` does the same in the other direction. Pure functions. Source: our own format
(docs/reference/offset-map.md), and Kafka 4.3.1 for the rule with offset syncs.
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
    """A translated offset. `exact`: the next record to read is or will be there; otherwise the
    group re-reads at most `behind` records. `loss` is a number that grows with each loss: a place
    with a lower number may point past records that came after the loss, so it is invalid if its
    offset is higher."""

    offset: int
    exact: bool
    behind: int = 0
    loss: int = 0


class Known(NamedTuple):
    """The map's result for one source offset, and the offset syncs that may improve on it: those of
    source offsets from `syncs_from` on and target offsets before `syncs_below` (None: any). `loss`:
    the loss number of the place."""

    place: Place | None
    syncs_from: int = 0
    syncs_below: int | None = None
    loss: int = 0

    def counts(self, sync: OffsetSync) -> bool:
        """Whether this sync may be used."""
        below = self.syncs_below is None or sync.downstream_offset < self.syncs_below
        return below and sync.upstream_offset >= self.syncs_from


def places_in_stretch(stretch: Stretch, value: bytes, sources: Sequence[int]) -> list[Known]:
    """Translate offsets that one page covers.

    `value`: the page's record value. `sources`: ascending, all within the stretch. Raises
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
    """Return the place for an offset whose page cannot be read any more: the start of the page."""
    page = stretch.page
    return Place(page.first_target, False, source - page.first_source, stretch.loss)


def known_in_stretch(stretch: Stretch, place: Place) -> Known:
    """Return `place` with the syncs that may lead further.

    A sync before the end of the page is no better, or is older. A sync within the reach of an
    earlier session may refer to that session's copy. A sync beyond the next page is of another log.
    After a loss page no sync counts: a worker that died may have sent syncs of records whose pages
    it had not written, and the target lost those records too. The next page shows where copying
    continued.
    """
    following = stretch.following
    return Known(
        place,
        LAST_OFFSET if stretch.page.lost else max(stretch.page.end_source, stretch.reach),
        None if following is None else following.first_target,
        stretch.loss,
    )


class _Next(NamedTuple):
    """The record after a segment: its offset on the target, and whether there is no unknown offset
    in between."""

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
        # The next copied record is there, after all that the target still had at most.
        return Place(at.target, True, loss=stretch.loss)
    if following is not None and following.seen:
        return Place(following.target, True, loss=stretch.loss)
    # Offsets that were seen and hold no record are not read again.
    behind = source - max(at.source + at.length, min(source, seen))
    return Place(at.target + at.length, False, behind, stretch.loss)


def before_the_map(first: PageSpan | None, source: int, loss: int = 0) -> Known | None:
    """Translate an offset before every page: to the first record, if the copy begins with it."""
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
    """Apply MirrorMaker 2's rule: at the sync or one offset after it, never further.

    `sync`: the nearest one that is not after `upstream`.
    """
    if sync is None:
        return None
    behind = upstream - sync.upstream_offset
    if behind <= 0:
        return Place(sync.downstream_offset, False)
    return Place(sync.downstream_offset + 1, False, behind - 1)


def nearer(of_map: Place | None, of_syncs: Place | None) -> Place | None:
    """Return the better of two translations, neither of which skips a record."""
    if of_map is None or (
        not of_map.exact and of_syncs is not None and of_syncs.offset > of_map.offset
    ):
        return of_syncs
    return of_map


def best_place(known: Known | None, sync: OffsetSync | None, upstream: int) -> Place | None:
    """Translate `upstream` with the map's result and the nearest sync that is not after it."""
    if known is None:
        return by_sync(sync, upstream)
    if sync is None or not known.counts(sync):
        return known.place
    place = nearer(known.place, by_sync(sync, upstream))
    return None if place is None else place._replace(loss=known.loss)


class BackwardMap:
    """The map of one partition from the target to the source, for failback."""

    def __init__(self, pages: Iterable[MapPage]) -> None:
        """`pages`: all pages of the partition, in any order. If target offsets were used twice,
        because the topic was re-created, the later ones count.
        """
        self._placed = in_force(pages, lambda segment: segment.target)
        self._starts = [segment.target for segment, _ in self._placed]

    def upstream(self, target: int) -> Place | None:
        """Return the source offset at which to continue if `target` is next on the target. None: it
        is before the map, or the map is empty."""
        index = bisect_right(self._starts, target) - 1
        if index < 0:
            return None
        at, page = self._placed[index]
        ahead = target - at.target
        if ahead < at.length:
            return Place(at.source + ahead, True)
        # Records after a loss have not been seen by consumers of the target.
        if index + 1 < len(self._placed) and not page.span.lost:
            following, later = self._placed[index + 1]
            if later is page or page.end_source >= following.source:
                return Place(following.source, True)
        return Place(at.source + at.length, False, ahead - at.length)
