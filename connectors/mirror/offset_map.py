"""The exact offset map of a copied partition: where each source offset is on the target.

Inside a range that was forwarded as it is, target = source + constant, so the whole map is a list
of segments (source offset, target offset, length): exact, and small. It is kept in
`mm2-offset-map.<target>.internal` (compacted), in pages:

    key    topic STRING | partition INT32 | first source offset INT64
    value  version INT16 = 0 | session INT64 | first target offset INT64 | end of source INT64 |
           segment count VARINT | segments

    segment  source gap VARINT | target gap ZIGZAG VARINT | length VARINT

The gaps are counted from the end of the segment before (0 for the first). STRING is an int16 byte
length and UTF-8; fixed-width numbers are big-endian; VARINT is unsigned LEB128. `session` is the
time (epoch ms) at which the writing task began: where pages overlap, because a range was copied
twice after a crash, the later session is right from its first offset on. `end of source` is how far
the session has seen the source: the offset after the page's last segment, or, where it holds no
record (a marker, say), after what follows that.

Source: ours (docs/offset-map.md). Pure; not thread-safe.
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from connect.errors import CorruptData

__all__ = [
    "MapPage",
    "OffsetMap",
    "PageSpan",
    "PartitionPages",
    "Segment",
    "get_varint",
    "page_key",
    "page_segments",
    "page_span",
    "page_target",
    "parse_page_key",
    "put_varint",
]

VERSION = 0
PAGE_SEGMENTS = 1024
"""A page with this many segments is closed: about 4 KiB, rewritten at most once a commit."""

_LAST_OFFSET = (1 << 63) - 1

_INT16 = struct.Struct(">h")
_KEY_TAIL = struct.Struct(">iq")
_VALUE_HEAD = struct.Struct(">hqqq")


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
    def end_source(self) -> int:
        """How far the source is known: every record before it is in a segment."""
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
            if target < 0 or max(source, target) + length > _LAST_OFFSET:
                raise CorruptData(
                    f"offset map page with {length} offsets from {source} to {target}"
                )
            yield Segment(source, target, length)
            source += length
            target += length
    except (struct.error, IndexError) as error:
        raise CorruptData("offset map page cut off") from error


class PageSpan(NamedTuple):
    """What a page covers: source offsets from `first_source` up to `end_source`."""

    session: int
    first_source: int
    end_source: int


def page_span(first_source: int, value: bytes) -> PageSpan:
    """A page's span, without its segments. Raises CorruptData."""
    try:
        version, session, _, end = _VALUE_HEAD.unpack_from(value)
    except struct.error as error:
        raise CorruptData("offset map page cut off") from error
    if version != VERSION:
        raise CorruptData(f"offset map page of version {version}")
    return PageSpan(session, first_source, end)


def page_target(value: bytes) -> int:
    """The first target offset of a page. Raises CorruptData."""
    try:
        return int(_VALUE_HEAD.unpack_from(value)[2])
    except struct.error as error:
        raise CorruptData("offset map page cut off") from error


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


class PartitionPages:
    """The pages that one session writes for one partition, and which of them are due."""

    def __init__(self, session: int) -> None:
        self._session = session
        self._current: MapPage | None = None
        self._unsaved: list[MapPage] = []

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
                page = None
        if page is None:
            page = self._current = MapPage(self._session)
        page.segments.append(Segment(source, target, count))
        self._note(page)

    def seen(self, source: int) -> None:
        """Everything before this offset was seen: behind the last segment there is no record."""
        page = self._current
        if page is not None and source > page.end_source:
            page.seen = source
            self._note(page)

    def source_of(self, target: int) -> int | None:
        """The source offset that is at this target offset, or was to be next there; None where the
        page in the making does not say."""
        for segment in self._current.segments if self._current is not None else ():
            ahead = target - segment.target
            if 0 <= ahead <= segment.length:
                return segment.source + ahead
        return None

    def lost_from(self, source: int, target: int) -> None:
        """The target has nothing of `source` and what follows it any more, but for what comes now:
        until then, who is there goes on at `target`."""
        self.begin_anew()
        self._unsaved.append(MapPage(self._session, [Segment(source, target, 0)]))
        self.begin_anew()

    def begin_anew(self) -> None:
        """What follows overrules all that came before, from its first source offset on."""
        self._session += 1
        self._current = None

    @property
    def session(self) -> int:
        """That of the pages to come."""
        return self._session

    def _note(self, page: MapPage) -> None:
        if not self._unsaved or self._unsaved[-1] is not page:
            self._unsaved.append(page)

    def take_unsaved(self) -> list[MapPage]:
        """Pages that changed since the last call, oldest first."""
        unsaved, self._unsaved = self._unsaved, []
        return unsaved

    def put_back(self, pages: list[MapPage]) -> None:
        """These pages could not be written: they are due again."""
        again = {id(page) for page in pages}
        self._unsaved = pages + [page for page in self._unsaved if id(page) not in again]


class OffsetMap:
    """One partition's whole map, read forwards and backwards."""

    def __init__(self, pages: Iterable[MapPage]) -> None:
        """Pages in any order; later sessions win from their first offset on."""
        ordered = sorted(pages, key=lambda page: (page.session, page.first_source))
        # How far each session knows the source, gaps included.
        self._reach = {page.session: page.end_source for page in ordered}
        placed: list[_Placed] = []
        for page in ordered:
            placed = _cut(placed, page.first_source)
            placed += [_Placed(segment, page.session) for segment in page.segments]
        self._placed = placed
        self._starts = [segment.source for segment, _ in placed]

    @property
    def segments(self) -> list[Segment]:
        return [segment for segment, _ in self._placed]

    @property
    def end_source(self) -> int | None:
        """How far the source is known; None for an empty map."""
        return self._reach[self._placed[-1].session] if self._placed else None

    def downstream(self, source: int) -> int | None:
        """Where to go on reading on the target when `source` is next on the source: the offset of
        that record, or of the next one that exists. None: before the map, or the map is empty.

        Where no session knows the source, because another program copied there or nobody has yet:
        the end of what is known before it, so that nothing is left out.
        """
        index = bisect_right(self._starts, source) - 1
        if index < 0:
            return None
        segment, session = self._placed[index]
        ahead = source - segment.source
        if ahead < segment.length:
            return segment.target + ahead
        if index + 1 < len(self._placed):
            following, later = self._placed[index + 1]
            if later == session or self._reach[session] >= following.source:
                return following.target
        return segment.target + segment.length

    def known(self) -> list[tuple[int, int]]:
        """(first, first one after) of the source offsets that the map explains: each is in a
        segment, or the session that copied there saw that it has no record. In order, joined."""
        found: list[tuple[int, int]] = []
        for index, (segment, session) in enumerate(self._placed):
            end = max(segment.source + segment.length, self._reach[session])
            if index + 1 < len(self._placed):
                following, later = self._placed[index + 1]
                end = following.source if later == session else min(end, following.source)
            if found and segment.source <= found[-1][1]:
                found[-1] = (found[-1][0], max(end, found[-1][1]))
            else:
                found.append((segment.source, end))
        return found


class _Placed(NamedTuple):
    segment: Segment
    session: int


def _cut(placed: list[_Placed], end: int) -> list[_Placed]:
    """What of the segments lies before source offset `end`."""
    kept = [each for each in placed if each.segment.source < end]
    if kept:
        last, session = kept[-1]
        if last.source + last.length > end:
            kept[-1] = _Placed(Segment(last.source, last.target, end - last.source), session)
    return kept
