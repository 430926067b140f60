"""A partition copied record by record into a list: what the offset map has to say about it.

The model holds both logs whole, with everything that breaks the line between them: offsets without
a record (markers, aborted and compacted records), crashes before pages or positions were stored,
records of other programs, runs that another mirror copied, and targets that lost their newest
records. The truth is then found by looking.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import strategies as st

from connectors.mirror.offsets.offset_map_pages import MapPage
from connectors.mirror.offsets.partition_pages import PartitionPages

__all__ = ["CopiedLog", "Op", "copied_logs"]

Op = tuple[str, int]


@dataclass
class CopiedLog:
    """`source[offset]`: whether there is a record. `target`: the source offset of each record, None
    where something else is. `pages`: the map topic's, by their keys."""

    source: list[bool]
    target: list[int | None] = field(default_factory=list)
    pages: dict[int, bytes] = field(default_factory=dict)
    next: int = 0
    foreign_copies: bool = False
    lost: set[int] = field(default_factory=set)
    """Source offsets whose later copy the target has lost."""
    ever_lost: set[int] = field(default_factory=set)
    """As `lost`, with those that came again after a crash."""
    _session: int = 1
    _stored: int = 0
    _written: int = 0
    _anchors: list[tuple[int, int]] = field(default_factory=list)
    """Places known on both sides, as the task notes them; those of the last stored position are
    what the next one learns."""
    _stored_anchors: list[tuple[int, int]] = field(default_factory=list)
    _target_end: int | None = None
    """What the target acknowledged to this session."""

    def __post_init__(self) -> None:
        self._writer = PartitionPages(self._session)

    def play(self, ops: list[Op]) -> CopiedLog:
        for name, count in ops:
            getattr(self, name)(count)
        self.flush(0)
        return self

    def copy(self, count: int) -> None:
        """Copy up to `count` offsets, run by run."""
        end = min(self.next + count, len(self.source))
        while self.next < end:
            first = self.next
            while self.next < end and self.source[self.next]:
                self.next += 1
            if self.next > first:
                self._writer.copied(first, self.next - first, len(self.target))
                self.target += range(first, self.next)
                self.lost -= set(range(first, self.next))
                self._target_end = len(self.target)
            else:
                self.next += 1

    def flush(self, _: int) -> None:
        """Write the due pages."""
        self._writer.seen(self.next)
        for page in self._writer.take_unsaved():
            self.pages[page.first_source] = page.encode()
        self._written = self.next
        end = self._target_end
        if end is not None and (not self._anchors or self._anchors[-1][1] < end):
            self._anchors.append((self.next, end))

    def store(self, _: int) -> None:
        """Store the position that the written pages explain."""
        self._stored, self._stored_anchors = self._written, list(self._anchors)

    def crash(self, _: int) -> None:
        self._session = self._writer.session + 10
        self._writer = PartitionPages(self._session)
        self.next = self._written = self._stored
        self._anchors, self._target_end = list(self._stored_anchors), None

    def foreign(self, count: int) -> None:
        """Other programs write to the target's topic."""
        self.target += [None] * count

    def java(self, count: int) -> None:
        """A clean stop; another mirror copies on, without a map; we start again after it."""
        self.flush(0)
        end = min(self.next + count, len(self.source))
        copied = [offset for offset in range(self.next, end) if self.source[offset]]
        self.foreign_copies = self.foreign_copies or bool(copied)
        self.target += copied
        self.next = self._written = self._stored = end
        self._stored_anchors = []  # they hold for our own position only
        self.crash(0)

    def lose(self, count: int) -> None:
        """The target loses its newest records, and they are not copied again."""
        self.flush(0)
        end = max(0, len(self.target) - count)
        if end == len(self.target):
            return
        self.lost |= {offset for offset in self.target[end:] if offset is not None}
        self.ever_lost |= self.lost
        del self.target[end:]
        self._target_end = None
        self._anchors = [anchor for anchor in self._anchors if anchor[1] <= end]
        self._stored_anchors = [anchor for anchor in self._stored_anchors if anchor[1] <= end]
        place = self._writer.place_of(end)
        if place is not None:
            self._writer.lost_from(*place, self.next)
        elif self._anchors:
            self._writer.lost_from(*self._anchors[-1], self.next)
        else:
            self._writer.begin_anew()
            self.pages.clear()
        # A mirror that ends before this is written finds the loss again.
        self.flush(0)

    def explained(self) -> set[int]:
        """The target offsets that a page says something about."""
        return {
            offset
            for page in self.map_pages()
            for segment in page.segments
            for offset in range(segment.target, segment.target + segment.length)
        }

    # The truth.

    def map_pages(self) -> list[MapPage]:
        return [MapPage.decode(first, value) for first, value in self.pages.items()]

    def next_record(self, source: int) -> int | None:
        """The first record at or after `source` that was copied and not lost. One that is going to
        be copied again, as its position was lost in a crash, is not there yet."""
        return next(
            (
                offset
                for offset in range(source, self.next)
                if self.source[offset] and offset not in self.lost
            ),
            None,
        )

    def later_copy(self, record: int) -> int:
        """Where a record was copied to last."""
        return max(at for at, offset in enumerate(self.target) if offset == record)


def copied_logs(*, java: bool = False, losses: bool = False) -> st.SearchStrategy[CopiedLog]:
    """Logs after any course of events. With `losses` the map has segments of no length."""
    names = ["copy", "copy", "copy", "flush", "store", "crash", "foreign"]
    names += ["java"] * java + ["lose", "lose"] * losses
    ops = st.lists(st.tuples(st.sampled_from(names), st.integers(1, 12)), max_size=25)
    content = st.lists(st.sampled_from([True, True, True, False]), max_size=60)
    return st.builds(lambda source, steps: CopiedLog(source).play(steps), content, ops)
