"""Offset syncs are due exactly when MirrorMaker 2 sends them (mirrormaker2.md section 6)."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from connectors.mirror.offsets.offset_syncs import OffsetSyncRule


class JavaRule:
    """The rule as the reference states it, one record at a time."""

    def __init__(self, lag_max: int) -> None:
        self.lag_max = lag_max
        self.up = self.down = self.synced = -1

    def emits(self, up: int, down: int) -> bool:
        emit = (
            self.synced == -1
            or down - (self.synced + 1) >= self.lag_max
            or up - self.up != 1
            or down < self.down
        )
        if emit:
            self.synced = down
        self.up, self.down = up, down
        return emit


GOLDEN = [
    ((0, 100), True),
    ((1, 101), False),
    ((2, 150), False),
    ((3, 151), True),
    ((4, 152), False),
    ((6, 153), True),
    ((7, 152), True),
    ((8, 153), False),
    ((9, 203), True),
    ((10, 204), False),
]


def test_the_reference_sequence() -> None:
    rule = OffsetSyncRule(50)
    java = JavaRule(50)
    for (up, down), emit in GOLDEN:
        assert java.emits(up, down) is emit
        assert rule.copied(up, 1, down) == ([(up, down)] if emit else [])


def test_what_was_not_synced_waits_until_the_commit() -> None:
    rule = OffsetSyncRule(100)
    assert rule.copied(0, 10, 0) == [(0, 0)]
    assert rule.take_delayed() == (9, 9)
    assert rule.take_delayed() is None


@given(
    st.integers(-1, 12),
    st.lists(
        st.tuples(st.integers(0, 3), st.integers(1, 40), st.integers(-3, 5)),
        min_size=1,
        max_size=12,
    ),
)
def test_ranges_give_javas_newest_sync_for_each_range(
    lag_max: int, moves: list[tuple[int, int, int]]
) -> None:
    rule, java = OffsetSyncRule(lag_max), JavaRule(lag_max)
    up, down = 0, 50
    for gap, count, shift in moves:
        up, down = up + gap, max(0, down + shift)
        emitted = [(up + n, down + n) for n in range(count) if java.emits(up + n, down + n)]
        due = rule.copied(up, count, down)
        assert due[-1:] == emitted[-1:]
        assert set(due) <= set(emitted)
        if (up, down) in emitted:
            assert due[0] == (up, down)
        last = (up + count - 1, down + count - 1)
        assert rule.delayed == (None if last in emitted else last)
        up, down = up + count, down + count
