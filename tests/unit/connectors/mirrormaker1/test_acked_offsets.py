"""Which offset may be committed while records are acknowledged in any order."""

from __future__ import annotations

from connectors.mirrormaker1.record_copier import AckedOffsets


def test_the_position_waits_for_the_oldest_record() -> None:
    acked = AckedOffsets(5)
    pending = [acked.begin(offset) for offset in (5, 6, 9)]
    acked.done(pending[1])
    assert acked.position == 5
    acked.done(pending[0])
    assert acked.position == 9
    acked.done(pending[2])
    assert acked.position == 10


def test_an_offset_with_several_records_waits_for_all() -> None:
    acked = AckedOffsets(0)
    pending = acked.begin(0)
    pending.waiting += 2
    acked.done(pending)
    acked.done(pending)
    assert acked.position == 0
    acked.done(pending)
    assert acked.position == 1


def test_an_offset_that_is_never_acknowledged_holds_the_position() -> None:
    acked = AckedOffsets(3)
    acked.begin(3)
    acked.done(acked.begin(4))
    assert acked.position == 3
