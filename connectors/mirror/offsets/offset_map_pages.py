"""The exact offset map of a copied partition: where each source offset is on the target.

Inside a range that was forwarded as it is, target = source + constant, so the whole map is a list
of segments (source offset, target offset, length): exact, and small. It is kept in
`mm2-offset-map.<target>.internal` (compacted), in pages:

    key    topic STRING | partition INT32 | first source offset INT64
    value  version INT16 = 0 | session INT64 | first target offset INT64 | end of source INT64 |
           segment count VARINT | segments

    segment  source gap VARINT | target gap ZIGZAG VARINT | length VARINT

The gaps are counted from the end of the segment before (0 for the first). STRING is an int16 byte
length and UTF-8; fixed-width numbers are big-endian; VARINT is unsigned LEB128. `session` orders
the writers: the time (epoch ms) at which one began, or one more than the highest session that the
topic had, if that is more. Where pages overlap, because a range was copied twice after a crash,
the later session is right from its first offset on. `end of source` is how far the session has seen
the source: the offset after the page's last segment, or, where it holds no record (a marker, say),
after what follows that.

A page with one segment of length 0 is a loss page: the target lost what it had of the source
offsets from that segment up to `end of source`, and goes on at the segment's target offset.

Source: ours (docs/reference/offset-map.md). Pure; not thread-safe.
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
"""(first source offset, count): so many consecutive source offsets."""

VERSION = 0
PAGE_SEGMENTS = 1024
"""A page with this many segments is closed: about 4 KiB, rewritten at most once a commit."""

_KEPT_PAGES = 4
"""So many pages of a partition are kept after they were written."""

LAST_OFFSET = (1 << 63) - 1

_INT16 = struct.Struct(">h")
_KEY_TAIL = struct.Struct(">iq")
_VALUE_HEAD = struct.Struct(">hqqq")
_LOSS = b"\x01\x00\x00\x00"
"""The segments of a loss page: one, of length 0."""


class Segment(NamedTuple):
    """`length` consecutive offsets from `source` on are at `target` and the following ones."""

    source: int
    target: int
    length: int


def page_key(topic: str, partition: int, first_source: int) -> bytes:
    """The record key of a page."""
    name = topic.encode()
    return _INT16.pack(len(name)) + name + _KEY_TAIL.pack(partition, first_source)


def parse_page_key(key: bytes) -> tuple[str, int, int]:
    """(topic, partition, first source offset). Raises CorruptData."""
    try:
        (size,) = _INT16.unpack_from(key)
        topic = key[2 : 2 + max(0, size)].decode()
        partition, first = _KEY_TAIL.unpack_from(key, 2 + max(0, size))
        if size < 0 or partition < 0 or first < 0:
            raise CorruptData(f"an offset map page of a partition that cannot be: {key.hex()}")
    except (struct.error, UnicodeDecodeError) as error:
        raise CorruptData(f"not a key of an offset map page: {key.hex()}") from error
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
        """What it covers."""
        first = self.segments[0]
        lost = len(self.segments) == 1 and first.length == 0
        return PageSpan(self.session, first.source, self.end_source, first.target, lost)

    @property
    def end_source(self) -> int:
        """How far the source is known: every record before it is in a segment, or, in a loss page,
        lost."""
        last = self.segments[-1]
        return max(self.seen, last.source + last.length)

    def encode(self) -> bytes:
        """The record value."""
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
        """The page whose key says `first_source`. Raises CorruptData."""
        span = page_span(first_source, value)
        page = cls(span.session, list(page_segments(first_source, value)))
        if span.end_source > page.end_source:
            page.seen = span.end_source
        return page


def page_segments(first_source: int, value: bytes) -> Iterator[Segment]:
    """A page's segments one by one, for who needs only the first of them. Raises CorruptData."""
    try:
        version, _, target, _ = _VALUE_HEAD.unpack_from(value)
        count, at = get_varint(value, _VALUE_HEAD.size)
        if version != VERSION or target < 0 or not 0 < count <= len(value):
            raise CorruptData(
                f"offset map page of version {version}, {count} segments from {target} on"
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
                    f"offset map page with {length} offsets from {source} to {target}"
                )
            yield Segment(source, target, length)
            source += length
            target += length
    except (struct.error, IndexError) as error:
        raise CorruptData("offset map page cut off") from error


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
        raise CorruptData("offset map page cut off") from error
    if version != VERSION:
        raise CorruptData(f"offset map page of version {version}")
    lost = value[_VALUE_HEAD.size :] == _LOSS
    return PageSpan(session, first_source, end, target, lost, at)


def source_at(segments: Iterable[Segment], target: int) -> int | None:
    """The source offset that is at this target offset, or was to be next there; None where these
    segments do not say."""
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
    """The number at `at`, and where it ends. Raises IndexError and CorruptData."""
    number = shift = 0
    while True:
        byte = data[at]
        at += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return number, at
        shift += 7
        if shift > 63:
            raise CorruptData("offset map page: a number that does not end")


def end_target(segments: Iterable[Segment]) -> int:
    """The target offset after the last of these segments; 0 without any."""
    return max((segment.target + segment.length for segment in segments), default=0)


class PartitionPages:
    """The pages that one session writes for one partition, and which of them are due.

    `session` is a guess as long as it is not known which pages others wrote: `settle` says that.
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
        """Pages that were taken before `settle`, by their first source offsets."""
        self._written: dict[int, MapPage] = {}
        """The pages that were taken last, by their first source offsets."""

    def copied(self, source: int, count: int, target: int) -> None:
        """`count` records from `source` on are on the target from `target` on."""
        page = self._current
        if page is not None:
            last = page.segments[-1]
            end = last.source + last.length
            if source == end and target == last.target + last.length:
                page.segments[-1] = Segment(last.source, last.target, last.length + count)
                self._note(page)
                return
            if source < end:
                # Copied again: pages written before must not overrule those of now.
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
        """Everything before this offset was seen: behind the last segment there is no record."""
        page = self._current
        if page is not None and source > page.end_source:
            page.seen = source
            self._note(page)

    def place_of(self, target: int) -> tuple[int, int] | None:
        """The source offset that is at this target offset, or was to be next there, and the target
        offset; after a loss, where that began. None where the pages that are here do not say: the
        one in the making, those that are due, those that were written last, and those of which the
        session is a guess."""
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
        """The target offset after the last segment of the page in the making."""
        return None if self._current is None else end_target(self._current.segments)

    def lost_from(self, source: int, target: int, end: int = 0) -> None:
        """The target lost what it had of the source offsets from `source` up to `end`: groups that
        are there go on at `target`, where what is copied next will be."""
        self.begin_anew()
        page = MapPage(self._session, [Segment(source, target, 0)], end)
        self._unsaved.append(page)
        self._begun.append(page)
        self.begin_anew()

    def lost_somewhere(self, end: int) -> MapPage:
        """As `lost_from`, where it is not known yet from which offset on; `found` says that."""
        self.begin_anew()
        page = MapPage(self._session, [Segment(end, 0, 0)], end)
        self._unplaced.append(page)
        self.begin_anew()
        return page

    def found(self, page: MapPage, source: int, target: int) -> None:
        """Where the loss of this page of `lost_somewhere` begins."""
        self._unplaced.remove(page)
        if any(p.session > page.session and p.first_source == source for p in self._begun):
            return  # what was copied since begins there, under the same key
        page.segments[0] = Segment(source, target, 0)
        self._begun.append(page)
        # In the order of sessions, as the last page under a key counts.
        due = [p for p in self._unsaved if not self._is_overruled(p)]
        self._unsaved = sorted([page, *due], key=lambda p: (p.session, p.first_source))

    def begin_anew(self) -> None:
        """What follows overrules all that came before, from its first source offset on."""
        self._session += 1
        self._current = None

    def begun(self, before: int) -> list[PageSpan]:
        """The first page of each session of these pages that is earlier than `before`."""
        return [page.span for page in self._begun if page.session < before]

    @property
    def session(self) -> int:
        """That of the pages to come."""
        return self._session

    @property
    def first_session(self) -> int:
        """That of the first of these pages."""
        return self._first

    @property
    def settled(self) -> bool:
        """Whether it is known that no other page has a session as high as these."""
        return self._guessed is None

    @property
    def unwritten(self) -> bool:
        """Whether pages are due, or may become due once others' sessions are known."""
        return bool(self._unsaved) or not self.settled

    def settle(self, spans: Iterable[PageSpan], loss: int = -1) -> list[PageSpan]:
        """`spans`: the partition's pages in the topic; `loss`: the session of the newest loss page
        that is noted there. Where others wrote with as high a session, the pages of this one get
        higher ones, and are due again. Returns the others' spans."""
        guessed, self._guessed = self._guessed, None
        if guessed is None:
            return []
        own = {first: page.session for first, page in guessed.items()}
        others = [span for span in spans if own.get(span.first_source) != span.session]
        raised = max((span.session for span in others), default=-1)
        raised = max(raised, loss) + 1 - self._first
        if raised <= 0:
            return others
        unsaved = {id(page) for page in self._unsaved}
        again = [page for page in guessed.values() if id(page) not in unsaved]
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
        return others

    def _note(self, page: MapPage) -> None:
        if not self._unsaved or self._unsaved[-1] is not page:
            self._unsaved.append(page)

    def take_unsaved(self) -> list[MapPage]:
        """Pages that changed since the last call, oldest first."""
        unsaved, self._unsaved = self._unsaved, []
        if self._guessed is not None:
            self._guessed.update((page.first_source, page) for page in unsaved)
        for page in unsaved:
            self._written.pop(page.first_source, None)
            self._written[page.first_source] = page
        for first in list(self._written)[:-_KEPT_PAGES]:
            del self._written[first]
        return unsaved

    def write_again(self, first_source: int) -> bool:
        """Another worker wrote over this page: it is due again. False: it is not at hand any
        more."""
        page = self._written.get(first_source)
        if page is not None and all(page is not each for each in self._unsaved):
            self.put_back([page])
        return page is not None

    def put_back(self, pages: list[MapPage]) -> None:
        """These pages could not be written: they are due again, unless a later session overrules
        them: a page of its own may have been written under the same key."""
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
        """How far the source is known; None for an empty map."""
        return self._placed[-1].page.end_source if self._placed else None

    def known(self) -> list[tuple[int, int]]:
        """(first, first one after) of the source offsets that the map explains: each is in a
        segment, or the session that copied there saw that it has no record. In order, joined.
        Without what the target lost."""
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
