"""Compares both sides of a range in step, and finds records that are missing or misplaced.

Equal batches are skipped as a whole; otherwise records are compared one by one. At a mismatch, both
sides are read ahead until a record of one side is also found on the other. The records before it
have no counterpart. If two matches are possible, the one that skips fewer records is taken. If no
match is found within the memory limit, the side with the older records is read ahead alone, because
it is behind: its range was copied again, or is missing on the other side.

This module does not read from Kafka. An `Alignment` is for one thread.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from connect.protocol.compression import Data
from connectors.mirror.audit.findings import LISTED, Kind, RangeResult, Stray, settle
from connectors.mirror.compare.batch_runs import BatchRun
from connectors.mirror.compare.record_streams import (
    Gap,
    RecordStream,
    checksum,
    common,
    digest_of,
    is_tombstone,
    key_of,
    mixed,
    nearest,
    older,
)

__all__ = ["Alignment", "ComparisonLimits", "Rules"]

FIRST_WINDOW = 64
WINDOW_GROWTH = 8


@dataclass(frozen=True, slots=True)
class ComparisonLimits:
    """Memory limits: records and bytes of the look-ahead per side, and differing records that are
    examined one by one.
    """

    window_records: int = 65_536
    window_bytes: int = 64 * 1024 * 1024
    strays: int = 20_000
    keys: int = 200_000
    """In compacted topics: the number of keys for which a newer record is awaited."""


@dataclass(frozen=True, slots=True)
class Rules:
    """Facts about the range besides its records."""

    position: int | None = None
    """The mirror's stored offset: all source offsets before it have been copied. None: unknown;
    then records after the last match may simply not be copied yet."""
    compacted: bool = False
    """Either topic is compacted."""
    source_trimmed: bool = False
    """The range starts at the source's log start offset, which retention has moved."""
    target_trimmed: bool = False
    timestamps: bool = True
    """The target keeps the source's timestamps."""


class Alignment:
    """Aligns one range. Construct it, call `run`, then `finish`."""

    def __init__(
        self,
        result: RangeResult,
        source: Iterable[BatchRun],
        target: Iterable[BatchRun],
        rules: Rules | None = None,
        limits: ComparisonLimits | None = None,
    ) -> None:
        """`result` holds the range's offsets and receives the findings. Both iterables yield
        batches in offset order."""
        self._result = result
        self._rules = rules or Rules()
        self._limits = limits or ComparisonLimits()
        self._source = RecordStream(source, self._rules.timestamps)
        self._target = RecordStream(target, self._rules.timestamps)
        self._block = 0
        self._waiting: dict[bytes, list[tuple[Kind, Stray]]] = {}
        self._waiting_strays = 0
        self._missing: list[Stray] = []
        self._extra: list[Stray] = []
        self._tail: list[Stray] = []
        """Missing records after the last match, which may not have been copied yet."""
        self._tail_uncounted = 0
        self._uncounted = {Kind.MISSING: 0, Kind.EXTRA: 0}
        self._spans: dict[Kind, list[list[int]]] = {Kind.MISSING: [], Kind.EXTRA: []}
        """The first offset of those records and their number."""

    @property
    def extra(self) -> list[Stray]:
        """After `run`: target records whose originals still have to be searched for in the
        source."""
        moved = Counter(stray.digest for stray in self._missing)
        found = []
        for stray in self._extra:
            if moved[stray.digest]:
                moved[stray.digest] -= 1
            else:
                found.append(stray)
        return found

    def run(self) -> None:
        """Read both sides to their ends. Raises the errors of reading."""
        while self._step():
            pass
        self._rest()
        result = self._result
        result.bytes = self._source.read_bytes + self._target.read_bytes

    def finish(self, copied: Mapping[bytes, int]) -> RangeResult:
        """Return the result. `copied`: the source offsets of matching records by digest, for the
        digests of `extra`."""
        result = self._result
        if not result.equal:
            self._settle_one_sided()
        self._settle_tail()
        for waiting in self._waiting.values():
            for kind, stray in waiting:
                self._keep(kind, stray)
        self._waiting = {}
        result.add(settle(sorted(self._missing), sorted(self._extra), copied))
        for kind, records in self._uncounted.items():
            result.add_more(kind, records, self._spans[kind])
        return result

    def _step(self) -> bool:
        source, target = self._source, self._target
        if not source.waiting and not target.waiting:
            if not source.more() or not target.more():
                return False
            if self._equal_batches():
                return True
        most = self._limits.window_bytes
        source.fill(1, most)
        target.fill(1, most)
        count = min(source.waiting, target.waiting)
        if not count:
            return False
        same = common(source.window(count), target.window(count))
        if same:
            self._equal_records(same)
        if same < count:
            self._differ(self._gap())
        return True

    def _equal_batches(self) -> bool:
        if self._waiting or not self._rules.timestamps:
            return False
        found = self._source.equal_batches(self._target)
        if not found.batches:
            return False
        self._note_equal(lambda before: mixed(found.marks, before))
        self._result.batches_at_a_glance += found.batches
        self._matched(found.records, found.last_source, found.last_target)
        self._source.pass_batches(found.batches)
        self._target.pass_batches(found.batches)
        return True

    def _equal_records(self, count: int) -> None:
        source, target = self._source, self._target
        offsets, stamps, tails = source.window(count)
        target_offsets = target.window(count)[0]
        self._note_equal(lambda before: checksum(stamps, tails, before))
        if self._waiting:
            for tail in tails:
                self._newer(key_of(tail))
        source.drop(count)
        target.drop(count)
        self._matched(count, offsets[-1], target_offsets[-1])

    def _note_equal(self, add: Callable[[int], int]) -> None:
        """Count equal records. As long as all records are equal, one checksum serves both sides."""
        result = self._result
        before, theirs = result.source_checksum, result.target_checksum
        result.source_checksum = add(before)
        result.target_checksum = result.source_checksum if theirs == before else add(theirs)

    def _matched(self, records: int, last_source: int, last_target: int) -> None:
        if not self._result.equal:
            self._settle_head()
        self._settle_tail(copied=True)
        self._block += 1
        result = self._result
        result.source_records += records
        result.target_records += records
        result.equal += records
        result.last_source, result.last_target = last_source, last_target

    # Differences.

    def _gap(self) -> Gap:
        """Decide how to continue after a mismatch; skips at least one record."""
        size = FIRST_WINDOW
        most = self._limits.window_bytes
        while True:
            more = self._source.fill(size, most) | self._target.fill(size, most)
            ours, theirs = self._source.window(size), self._target.window(size)
            gap = nearest(ours, theirs)
            last = size >= self._limits.window_records or not more
            full = len(ours[0]) < size and len(theirs[0]) < size
            if gap is not None and (sum(gap) < size or last or full):
                return gap
            if last or full:
                return gap or older(ours[1], theirs[1])
            size = min(size * WINDOW_GROWTH, self._limits.window_records)

    def _differ(self, gap: Gap) -> None:
        result, rules = self._result, self._rules
        _, stamps, tails = self._target.window(gap.target)
        result.target_checksum = checksum(stamps, tails, result.target_checksum)
        for stray, tail in self._strays(self._target, gap.target):
            if not rules.compacted:
                self._keep(Kind.EXTRA, stray)
            elif is_tombstone(tail):
                result.compacted += 1
            else:
                self._wait(Kind.EXTRA, stray)
        _, stamps, tails = self._source.window(gap.source)
        result.source_checksum = checksum(stamps, tails, result.source_checksum)
        for stray, tail in self._strays(self._source, gap.source):
            self._newer(stray.key)
            if self._maybe_pending(stray):
                self._tail.append(stray)
            elif rules.compacted and is_tombstone(tail):
                result.compacted += 1
            elif rules.compacted:
                self._wait(Kind.MISSING, stray)
            else:
                self._keep(Kind.MISSING, stray)
        self._source.drop(gap.source)
        self._target.drop(gap.target)
        result.source_records += gap.source
        result.target_records += gap.target

    def _strays(self, side: RecordStream, count: int) -> Iterator[tuple[Stray, Data]]:
        offsets, stamps, tails = side.window(count)
        for offset, stamp, tail in zip(offsets, stamps, tails, strict=True):
            yield Stray(offset, digest_of(stamp, tail), key_of(tail), self._block), tail

    def _keep(self, kind: Kind, stray: Stray) -> None:
        strays = self._missing if kind is Kind.MISSING else self._extra
        if len(strays) < self._limits.strays:
            strays.append(stray)
        else:
            self._uncounted[kind] += 1
            self._span(kind, stray.offset)

    def _span(self, kind: Kind, offset: int) -> None:
        spans = self._spans[kind]
        if spans and sum(spans[-1]) == offset:
            spans[-1][1] += 1
        elif len(spans) < LISTED:
            spans.append([offset, 1])

    def _wait(self, kind: Kind, stray: Stray) -> None:
        """Record that a newer record with the same key may explain this one."""
        if stray.key is None or self._waiting_strays >= self._limits.keys:
            self._keep(kind, stray)
            return
        self._waiting_strays += 1
        self._waiting.setdefault(stray.key, []).append((kind, stray))

    def _newer(self, key: bytes | None) -> None:
        explained = self._waiting.pop(key, None) if self._waiting and key is not None else None
        if explained:
            self._waiting_strays -= len(explained)
            self._result.compacted += len(explained)

    def _rest(self) -> None:
        """Handle the remaining records of one side after the other has ended."""
        size, most = 4096, self._limits.window_bytes
        for side in (self._target, self._source):
            while side.waiting or side.more():
                side.fill(size, most)
                count = side.waiting
                self._differ(Gap(count, 0) if side is self._source else Gap(0, count))

    # Records that are on one side only for a known reason.

    def _maybe_pending(self, stray: Stray) -> bool:
        if self._rules.position is not None and stray.offset < self._rules.position:
            return False
        if len(self._tail) < self._limits.strays:
            return True
        self._tail_uncounted += 1
        self._tail.pop()
        return True

    def _settle_tail(self, *, copied: bool = False) -> None:
        """Classify the records after the last match. `copied`: a later record is on the target, so
        these should be there too."""
        if not self._tail:
            return
        result = self._result
        nothing_common = self._rules.position is None and not result.equal
        if copied or (nothing_common and result.target_records):
            for stray in self._tail:
                self._keep_or_wait(stray)
            self._uncounted[Kind.MISSING] += self._tail_uncounted
        else:
            result.pending += len(self._tail) + self._tail_uncounted
        self._tail, self._tail_uncounted = [], 0

    def _keep_or_wait(self, stray: Stray) -> None:
        if self._rules.compacted:
            self._wait(Kind.MISSING, stray)
        else:
            self._keep(Kind.MISSING, stray)

    def _settle_head(self) -> None:
        """Exclude records before the first match that retention explains."""
        if self._rules.source_trimmed:
            self._result.expired_on_source += self._forget(Kind.EXTRA)
        if self._rules.target_trimmed:
            tail = len(self._tail) + self._tail_uncounted
            self._result.expired_on_target += self._forget(Kind.MISSING) + tail
            self._tail, self._tail_uncounted = [], 0

    def _settle_one_sided(self) -> None:
        """If there is no match: exclude records of a side that retention may have emptied."""
        result = self._result
        if self._rules.source_trimmed and not result.source_records:
            result.expired_on_source += self._forget(Kind.EXTRA)
        if self._rules.target_trimmed and not result.target_records:
            result.expired_on_target += self._forget(Kind.MISSING)

    def _forget(self, kind: Kind) -> int:
        """Drop the differing records of one side and return their number."""
        count = self._uncounted[kind]
        self._uncounted[kind] = 0
        self._spans[kind] = []
        if kind is Kind.MISSING:
            count += len(self._missing)
            self._missing = []
        else:
            count += len(self._extra)
            self._extra = []
        for key, waiting in list(self._waiting.items()):
            left = [entry for entry in waiting if entry[0] is not kind]
            count += len(waiting) - len(left)
            self._waiting_strays -= len(waiting) - len(left)
            if left:
                self._waiting[key] = left
            else:
                del self._waiting[key]
        return count
