"""The audit's comparison of two record streams: against a model, and by what it must name."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from connect.protocol import record_codec
from connectors.mirror.audit.alignment import Alignment, ComparisonLimits, Rules
from connectors.mirror.audit.findings import Difference, Kind, RangeResult
from connectors.mirror.compare.batch_runs import WireBatch
from connectors.mirror.compare.record_streams import digest_of
from tests.support.records.wire_runs import runs_of

Record = tuple[int, bytes | None, bytes | None]
"""Timestamp, key, value; lengths below 64."""


def tail(record: Record) -> bytes:
    def field(data: bytes | None) -> bytes:
        return b"\x01" if data is None else bytes([len(data) << 1]) + data

    return field(record[1]) + field(record[2]) + b"\x00"


def logged(records: Sequence[Record], start: int) -> list[record_codec.Record]:
    """At consecutive offsets."""
    return [record_codec.Record(start + n, *record) for n, record in enumerate(records)]


def audit(
    source: Sequence[Record],
    target: Sequence[Record],
    *,
    rules: Rules | None = None,
    limits: ComparisonLimits | None = None,
    cut: tuple[Sequence[int], Sequence[int]] = ((3,), (3,)),
    start: tuple[int, int] = (0, 0),
    scan: bool = True,
) -> RangeResult:
    result = RangeResult(start[0], start[0] + len(source), start[1], start[1] + len(target))
    ours = runs_of(logged(source, start[0]), cut[0], answers=2)
    theirs = runs_of(logged(target, start[1]), cut[1], answers=3, producer=7)
    alignment = Alignment(result, ours, theirs, rules, limits)
    alignment.run()
    wanted = {stray.digest for stray in alignment.extra}
    copied: dict[bytes, int] = {}
    if scan and wanted:
        for offset, record in enumerate(source, start[0]):
            digest = digest_of(record[0], tail(record))
            if digest in wanted:
                copied.setdefault(digest, offset)
    return alignment.finish(copied)


def numbered(count: int, start: int = 0) -> list[Record]:
    return [(1000 + n, b"k%d" % (n % 7), b"v%d" % n) for n in range(start, start + count)]


ALL = Rules(position=10**9)
"""Everything was copied."""

letters = st.lists(
    st.sampled_from([(n, b"k%d" % (n % 2), b"v%d" % n) for n in range(4)]), max_size=25
)
cuts = st.lists(st.integers(1, 5), min_size=1, max_size=4)


@given(letters, letters, cuts, cuts)
@settings(max_examples=100)
def test_every_record_of_both_sides_is_accounted_for(
    source: list[Record], target: list[Record], ours: list[int], theirs: list[int]
) -> None:
    result = audit(source, target, rules=ALL, cut=(ours, theirs))
    counts = {kind: result.counts.get(kind.value, 0) for kind in Kind}
    shared = result.equal + counts[Kind.CHANGED] + counts[Kind.MOVED]
    assert shared + counts[Kind.MISSING] == len(source) == result.source_records
    assert shared + counts[Kind.EXTRA] + counts[Kind.DUPLICATE] == len(target)
    assert result.target_records == len(target)
    assert (result.different == 0) == (source == target)
    assert (result.source_checksum == result.target_checksum) == (source == target)
    assert result.equal <= _longest_common(source, target)


@given(letters, letters, cuts, cuts)
@settings(max_examples=100)
def test_what_it_lists_is_true(
    source: list[Record], target: list[Record], ours: list[int], theirs: list[int]
) -> None:
    result = audit(source, target, rules=ALL, cut=(ours, theirs))
    for found in result.differences:
        for n in range(found.records):
            here = None if found.source is None else source[found.source + n]
            there = None if found.target is None else target[found.target + n]
            if found.kind in (Kind.MOVED, Kind.DUPLICATE):
                assert here == there
            elif found.kind is Kind.CHANGED:
                assert here is not None
                assert there is not None
                assert here != there
            elif found.kind is Kind.MISSING:
                assert here is not None
                assert there is None
            else:
                assert here is None
                assert there not in source


@given(st.integers(0, 199), st.integers(0, 198), cuts, cuts, st.sampled_from(list(Kind)))
@settings(max_examples=60)
def test_one_record_tampered_with_is_named_exactly(
    at: int, other: int, ours: list[int], theirs: list[int], kind: Kind
) -> None:
    source = numbered(200)
    target = list(source)
    if kind is Kind.MISSING:
        del target[at]
        expected = [Difference(kind, at + 50, None)]
    elif kind is Kind.CHANGED:
        target[at] = (source[at][0], source[at][1], b"other")
        expected = [Difference(kind, at + 50, at + 9)]
    elif kind is Kind.DUPLICATE:
        target.insert(at + 1, source[at])
        expected = [Difference(kind, at + 50, at + 10)]
    elif kind is Kind.EXTRA:
        target.insert(at, (5, None, b"foreign"))
        expected = [Difference(kind, None, at + 9)]
    else:
        target[other], target[other + 1] = source[other + 1], source[other]
        expected = [Difference(kind, other + 51, other + 9)]
    result = audit(source, target, rules=ALL, cut=(ours, theirs), start=(50, 9))
    assert result.differences == expected
    assert result.counts == {kind.value: 1}


def _longest_common(ours: Sequence[Record], theirs: Sequence[Record]) -> int:
    row = [0] * (len(theirs) + 1)
    for record in ours:
        above = row
        row = [0]
        for n, other in enumerate(theirs):
            row.append(above[n] + 1 if record == other else max(above[n + 1], row[n]))
    return row[-1]


def test_equal_batches_are_passed_without_their_records(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(WireBatch, "columns", lambda self: pytest.fail("taken apart"))
    result = audit(numbered(100), numbered(100))
    assert (result.equal, result.batches_at_a_glance, result.different) == (100, 34, 0)


def test_a_range_copied_again_is_told_from_foreign_records() -> None:
    source = numbered(5000)
    target = source[:3000] + source[1000:5000]
    result = audit(source, target, rules=ALL)
    assert result.differences == [Difference(Kind.DUPLICATE, 1000, 3000, 2000)]


def test_more_than_memory_holds_is_counted_and_the_sides_find_together_again() -> None:
    source = numbered(5000)
    limits = ComparisonLimits(window_records=100, strays=50)
    again = audit(source, source[:3000] + source[1000:5000], rules=ALL, limits=limits)
    assert (again.equal, again.different) == (5000, 2000)
    lost = audit(source, source[:1000] + source[3000:], rules=ALL, limits=limits)
    assert (lost.equal, lost.counts) == (3000, {"missing": 2000})
    assert lost.differences == [Difference(Kind.MISSING, 1000, None, 2000)], "all in one"
    foreign = audit(source, source + numbered(200, 9000), rules=ALL, limits=limits)
    assert foreign.differences == [Difference(Kind.EXTRA, None, 5000, 200)]


def test_what_the_mirror_has_not_reached_is_pending() -> None:
    source = numbered(100)
    known = audit(source, source[:80], rules=Rules(position=90))
    assert (known.pending, known.counts) == (10, {"missing": 10})
    unknown = audit(source, source[:80], rules=Rules(position=None))
    assert (unknown.pending, unknown.counts) == (20, {})
    assert audit(source, [], rules=Rules()).pending == 100


def test_without_a_position_what_has_nothing_in_common_is_no_copy() -> None:
    result = audit(numbered(100), numbered(40, 1000), rules=Rules(source_trimmed=True))
    assert result.pending == 0
    assert result.different > 0


def test_retention_explains_what_is_before_the_first_record_on_both_sides() -> None:
    source = numbered(100)
    trimmed = audit(source[30:], source, rules=Rules(100, source_trimmed=True), start=(30, 0))
    assert (trimmed.expired_on_source, trimmed.equal, trimmed.counts) == (30, 70, {})
    expired = audit(source, source[30:], rules=Rules(100, target_trimmed=True), start=(0, 30))
    assert (expired.expired_on_target, expired.equal, expired.counts) == (30, 70, {})
    emptied = audit(source, [], rules=Rules(100, target_trimmed=True))
    assert (emptied.expired_on_target, emptied.counts) == (100, {})
    unexplained = audit(source, source[30:], rules=Rules(100))
    assert unexplained.counts == {"missing": 30}


def test_a_newer_record_of_its_key_explains_what_compaction_took() -> None:
    source = numbered(21)
    rules = Rules(position=21, compacted=True)
    kept = source[:3] + source[6:]
    assert audit(source, kept, rules=rules).compacted == 3
    assert audit(kept, source, rules=rules).compacted == 3
    last = audit(source, source[:15] + source[16:], rules=rules)
    assert last.differences == [Difference(Kind.MISSING, 15, None)], "the newest of its key"


def test_a_tombstone_may_be_gone() -> None:
    source = [*numbered(5), (2000, b"k1", None)]
    rules = Rules(position=6, compacted=True)
    assert audit(source, source[:-1], rules=rules).compacted == 1
    assert audit(source[:-1], source, rules=rules).compacted == 1


def test_a_target_with_its_own_timestamps_is_compared_without() -> None:
    source = numbered(50)
    target = [(stamp + 7, key, value) for stamp, key, value in source]
    assert audit(source, target, rules=Rules(50, timestamps=False)).equal == 50
    assert audit(source, target, rules=Rules(50)).counts == {"changed": 50}


def test_a_result_survives_json() -> None:
    source = numbered(50)
    result = audit(source, source[:20] + source[21:], rules=ALL)
    assert RangeResult.from_json(result.to_json()) == result
