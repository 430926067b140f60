"""The exact offset map of a copied partition: the target offset of each source offset.

Within a range that was forwarded unchanged, target = source + constant. So the whole map is a small
list of segments (source offset, target offset, length). It is stored in pages in
`mm2-offset-map.<target>.internal` (compacted):

    key    topic STRING | partition INT32 | first source offset INT64
    value  version INT16 = 0 | session INT64 | first target offset INT64 | end of source INT64 |
           segment count VARINT | segments

    segment  source gap VARINT | target gap ZIGZAG VARINT | length VARINT

The gaps are counted from the end of the previous segment (0 for the first). STRING is an int16 byte
length and UTF-8; fixed-width numbers are big-endian; VARINT is unsigned LEB128. `session` orders
the writers: it is the start time of a writer (epoch ms), or one more than the highest session in
the topic if that is higher. If pages overlap, because a range was copied twice after a crash, the
later session is valid from its first offset on. `end of source` is the source offset up to which
the session has seen the source. It is the offset after the page's last segment or, if no record
follows there (for example a marker), after those offsets.

A page with one segment of length 0 is a loss page: the target lost its copies of the source offsets
from that segment up to `end of source`, and copying continues at the segment's target offset.

This format is our own (docs/reference/offset-map.md). Pure. Not thread-safe.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from connect.errors import CorruptData

__all__ = [
    "LAST_OFFSET",
    "MapPage",
    "OffsetMap",
    "OffsetRun",
    "PageSpan",
    "PartitionPages",
    "Placed",
    "Segment",
    "end_target",
    "get_varint",
    "in_force",
    "page_key",
    "page_segments",
    "page_span",
    "parse_page_key",
    "put_varint",
    "source_at",
]

OffsetRun = tuple[int, int]
"""(first source offset, count) of consecutive source offsets."""

VERSION = 0
PAGE_SEGMENTS = 1024
"""A page with this number of segments is closed: about 4 KiB, rewritten at most once per commit."""

_KEPT_PAGES = 4
"""Number of a partition's written pages that are kept in memory."""

LAST_OFFSET = (1 << 63) - 1

_INT16 = struct.Struct(">h")
_KEY_TAIL = struct.Struct(">iq")
_VALUE_HEAD = struct.Struct(">hqqq")
_LOSS = b"\x01\x00\x00\x00"
"""The segments of a loss page: one segment of length 0."""


class Segment(NamedTuple):
    """Maps `length` consecutive source offsets from `source` on to target offsets from `target`
    on."""

    source: int
    target: int
    length: int


def page_key(topic: str, partition: int, first_source: int) -> bytes:
    """Return the record key of a page."""
    name = topic.encode()
    return _INT16.pack(len(name)) + name + _KEY_TAIL.pack(partition, first_source)


def parse_page_key(key: bytes) -> tuple[str, int, int]:
    """Parse (topic, partition, first source offset). Raises CorruptData."""
    try:
        (size,) = _INT16.unpack_from(key)
        topic = key[2 : 2 + max(0, size)].decode()
        partition, first = _KEY_TAIL.unpack_from(key, 2 + max(0, size))
        if size < 0 or partition < 0 or first < 0:
            raise CorruptData(f"offset map page key with an invalid partition: {key.hex()}")
    except (struct.error, UnicodeDecodeError) as error:
        raise CorruptData(f"invalid offset map page key: {key.hex()}") from error
    return topic, partition, first


@dataclass(slots=True)
class MapPage:
    """Consecutive segments, all written by one session. `seen`: see `end_source`."""

    session: int
    segments: list[Segment] = field(default_factory=list)
    seen: int = 0

    @property
    def first_source(self) -> int:
        return self.segments[0].source

    @property
    def span(self) -> PageSpan:
        """Return the range that the page covers."""
        first = self.segments[0]
        lost = len(self.segments) == 1 and first.length == 0
        return PageSpan(self.session, first.source, self.end_source, first.target, lost)

    @property
    def end_source(self) -> int:
        """Return the source offset up to which the page covers the source: every record before it
        is in a segment or, in a loss page, lost."""
        last = self.segments[-1]
        return max(self.seen, last.source + last.length)

    def encode(self) -> bytes:
        """Encode the record value."""
        first = self.segments[0]
        out = bytearray(_VALUE_HEAD.pack(VERSION, self.session, first.target, self.end_source))
        put_varint(out, len(self.segments))
        source, target = first.source, first.target
        for segment in self.segments:
            put_varint(out, segment.source - source)
            gap = segment.target - target
            put_varint(out, (gap << 1) ^ (gap >> 63))
            put_varint(out, segment.length)
            source = segment.source + segment.length
            target = segment.target + segment.length
        return bytes(out)

    @classmethod
    def decode(cls, first_source: int, value: bytes) -> MapPage:
        """Decode a page. `first_source`: from the record key. Raises CorruptData."""
        span = page_span(first_source, value)
        page = cls(span.session, list(page_segments(first_source, value)))
        if span.end_source > page.end_source:
            page.seen = span.end_source
        return page


def page_segments(first_source: int, value: bytes) -> Iterator[Segment]:
    """Yield a page's segments one by one, for callers that need only the first ones. Raises
    CorruptData."""
    try:
        version, _, target, _ = _VALUE_HEAD.unpack_from(value)
        count, at = get_varint(value, _VALUE_HEAD.size)
        if version != VERSION or target < 0 or not 0 < count <= len(value):
            raise CorruptData(
                f"invalid offset map page of version {version} with {count} segments from target "
                f"offset {target} on"
            )
        source = first_source
        for _ in range(count):
            gap, at = get_varint(value, at)
            zigzag, at = get_varint(value, at)
            length, at = get_varint(value, at)
            source += gap
            target += (zigzag >> 1) ^ -(zigzag & 1)
            if target < 0 or max(source, target) + length > LAST_OFFSET:
                raise CorruptData(
                    f"invalid offset map page: segment of {length} offsets from {source} to "
                    f"{target}"
                )
            yield Segment(source, target, length)
            source += length
            target += length
    except (struct.error, IndexError) as error:
        raise CorruptData("offset map page is truncated") from error


class PageSpan(NamedTuple):
    """What a page covers: source offsets from `first_source` up to `end_source`. The record at
    `first_source` is at `first_target`; with `lost`, it is a loss page. `at`: the offset of the
    page's record in the map topic, where it is known."""

    session: int
    first_source: int
    end_source: int
    first_target: int = 0
    lost: bool = False
    at: int = -1

    def is_late(self, known: PageSpan | None) -> bool:
        """Whether `known`, a page under the same key, is of a later session: then this page was
        written late by a worker that had lost the partition."""
        return known is not None and known.session > self.session


def page_span(first_source: int, value: bytes, at: int = -1) -> PageSpan:
    """A page's span, without its segments; `at`: as in `PageSpan`. Raises CorruptData."""
    try:
        version, session, target, end = _VALUE_HEAD.unpack_from(value)
    except struct.error as error:
        raise CorruptData("offset map page is truncated") from error
    if version != VERSION:
        raise CorruptData(f"offset map page of version {version}")
    lost = value[_VALUE_HEAD.size :] == _LOSS
    return PageSpan(session, first_source, end, target, lost, at)


def source_at(segments: Iterable[Segment], target: int) -> int | None:
    """Return the source offset whose record has this target offset. At the end of a segment, return
    the source offset after its last record. None: these segments do not cover it."""
    for segment in segments:
        ahead = target - segment.target
        if segment.length and 0 <= ahead <= segment.length:
            return segment.source + ahead
    return None


def put_varint(out: bytearray, number: int) -> None:
    """Append an unsigned LEB128 number."""
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)


def get_varint(data: bytes, at: int) -> tuple[int, int]:
    """Return the number at `at`, and the position after it. Raises IndexError and CorruptData."""
    number = shift = 0
    while True:
        byte = data[at]
        at += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return number, at
        shift += 7
        if shift > 63:
            raise CorruptData("offset map page: a number is longer than 64 bits")


def end_target(segments: Iterable[Segment]) -> int:
    """Return the target offset after the last of these segments; 0 if there are none."""
    return max((segment.target + segment.length for segment in segments), default=0)


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
        """The same of the sessions that are later than this one."""
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
        """Return the unsaved pages, oldest first. But those that a later session overrules come
        after its own, or not at all if it has a page under their key: a reader between them would
        lead groups to the earlier copy, though syncs may have led them to the later one already.
        With a loss page among them, the order stays: syncs of what was lost must not count."""
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


class Placed(NamedTuple):
    """A segment that counts, or what is left of it, and its page."""

    segment: Segment
    page: MapPage


def in_force(pages: Iterable[MapPage], start: Callable[[Segment], int]) -> list[Placed]:
    """The segments that count, ascending by `start`, which is their source or their target offset:
    later sessions overrule earlier ones from their first offset on. Pages in any order."""
    placed: list[Placed] = []
    for page in sorted(pages, key=lambda page: (page.session, page.first_source)):
        for segment in page.segments:
            first = start(segment)
            while placed and start(placed[-1].segment) >= first:
                placed.pop()
            if placed:
                last, owner = placed[-1]
                kept = min(last.length, first - start(last))
                placed[-1] = Placed(last._replace(length=kept), owner)
            placed.append(Placed(segment, page))
    return placed


class OffsetMap:
    """One partition's whole map."""

    def __init__(self, pages: Iterable[MapPage]) -> None:
        """Pages in any order."""
        self._placed = in_force(pages, lambda segment: segment.source)

    @property
    def segments(self) -> list[Segment]:
        return [segment for segment, _ in self._placed]

    @property
    def end_source(self) -> int | None:
        """Return the source offset up to which the map covers the source; None for an empty map."""
        return self._placed[-1].page.end_source if self._placed else None

    def known(self) -> list[tuple[int, int]]:
        """Return the merged (first, end) ranges of source offsets that the map covers, in order. A
        covered offset is in a segment, or the session saw that it holds no record. Offsets that the
        target lost are left out."""
        found: list[tuple[int, int]] = []
        for index, (segment, page) in enumerate(self._placed):
            if page.span.lost:
                continue
            end = max(segment.source + segment.length, page.end_source)
            if index + 1 < len(self._placed):
                following, later = self._placed[index + 1]
                end = following.source if later is page else min(end, following.source)
            if found and segment.source <= found[-1][1]:
                found[-1] = (found[-1][0], max(end, found[-1][1]))
            else:
                found.append((segment.source, end))
        return found
