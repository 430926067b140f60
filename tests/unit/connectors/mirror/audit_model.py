"""Logs of numbered records, one in each batch, for the audit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from connect.protocol.record_codec import Record
from connectors.mirror.audit.alignment import Alignment
from connectors.mirror.audit.findings import RangeResult
from connectors.mirror.audit.plan import AuditRange
from connectors.mirror.compare.record_streams import digest_of
from tests.support.records.wire_runs import runs_of

__all__ = ["Numbered", "audit_records"]


class Numbered(NamedTuple):
    """The record at `offset`. `number` None: of another program."""

    offset: int
    number: int | None

    @property
    def value(self) -> bytes:
        return b"foreign" if self.number is None else b"%d" % self.number

    @property
    def timestamp(self) -> int:
        return 0 if self.number is None else 1 + self.number

    @property
    def record(self) -> Record:
        return Record(self.offset, self.timestamp, None, self.value)

    @property
    def digest(self) -> bytes:
        tail = b"\x01" + bytes([len(self.value) << 1]) + self.value + b"\x00"
        return digest_of(self.timestamp, tail)


def audit_records(
    wanted: AuditRange,
    source: Sequence[Numbered],
    target: Sequence[Numbered],
    elsewhere: Sequence[Numbered] = (),
) -> RangeResult:
    """The audit of a range whose records are these; `elsewhere`: the source's other records."""
    result = RangeResult(
        wanted.source_start, wanted.source_end, wanted.target_start, wanted.target_end
    )
    ours, theirs = ([each.record for each in side] for side in (source, target))
    alignment = Alignment(result, runs_of(ours, [1]), runs_of(theirs, [1]), wanted.rules)
    alignment.run()
    return alignment.finish({each.digest: each.offset for each in [*source, *elsewhere]})
