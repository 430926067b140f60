"""Logs of numbered records, one in each batch, for the audit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from connect.protocol.record_columns import Columns
from connectors.mirror.audit.alignment import Alignment
from connectors.mirror.audit.batches import Fingerprint
from connectors.mirror.audit.findings import RangeResult
from connectors.mirror.audit.plan import AuditRange
from connectors.mirror.audit.streams import digest_of

__all__ = ["NumberedBatch", "audit_batches"]


@dataclass
class NumberedBatch:
    """A batch of one record at `first_offset`. `number` None: of another program."""

    first_offset: int
    number: int | None

    @property
    def last_offset(self) -> int:
        return self.first_offset

    @property
    def size(self) -> int:
        return 1

    @property
    def fingerprint(self) -> Fingerprint | None:
        return None

    @property
    def tail(self) -> bytes:
        text = b"foreign" if self.number is None else b"%d" % self.number
        return b"\x01" + bytes([len(text) << 1]) + text + b"\x00"

    @property
    def timestamp(self) -> int:
        return 0 if self.number is None else 1 + self.number

    def columns(self) -> Columns:
        found = Columns()
        found.offsets = [self.first_offset]
        found.timestamps = [self.timestamp]
        found.tails = [self.tail]
        return found


def audit_batches(
    wanted: AuditRange,
    source: Sequence[NumberedBatch],
    target: Sequence[NumberedBatch],
    elsewhere: Sequence[NumberedBatch] = (),
) -> RangeResult:
    """The audit of a range whose batches are these; `elsewhere`: the source's other records."""
    result = RangeResult(
        wanted.source_start, wanted.source_end, wanted.target_start, wanted.target_end
    )
    alignment = Alignment(result, source, target, wanted.rules)
    alignment.run()
    return alignment.finish(
        {digest_of(each.timestamp, each.tail): each.first_offset for each in [*source, *elsewhere]}
    )
