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
    """The range that a page covers: source offsets from `first_source` up to `end_source`. The
    record at `first_source` is at `first_target`; with `lost`, it is a loss page. `at`: the offset
    of the page's record in the map topic, where it is known."""

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
        """Build the map from pages in any order."""
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
