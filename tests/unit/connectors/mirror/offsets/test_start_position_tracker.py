"""Partitions without a stored offset go on where they were begun, and begin nowhere unkept."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterable, Mapping
from concurrent.futures import Future
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from connect.errors import BrokerError, CorruptData
from connectors.mirror.offsets import start_position_tracker as beginnings
from connectors.mirror.offsets.map_notes import Note, is_note_key, note_key, parse_note_key
from connectors.mirror.offsets.offset_map_pages import page_key
from connectors.mirror.offsets.start_position_tracker import WITHIN_S, StartPositionTracker
from connectors.mirror.offsets.start_positions import FORGET_ALL, FirstPosition
from tests.support.fake_clock import FakeClock

ID = UUID(int=7)
ONE, TWO = ("t", 0), ("t", 1)
Key = tuple[str, int]


def test_the_bytes_are_those_of_the_docs() -> None:
    assert note_key(Note.START, ("t", 3)).hex() == "fffe" + "0001" + "74" + "00000003"
    assert FORGET_ALL.hex() == "fffe" + "0000" + "ffffffff"
    first = FirstPosition(9, -1, UUID(int=1), "mirror")
    assert first.encode().hex() == (
        "0000" + f"{9:016x}" + "f" * 16 + f"{1:032x}" + "0006" + b"mirror".hex()
    )


@given(
    st.builds(
        FirstPosition,
        st.integers(0, 2**62),
        st.integers(-1, 2**62),
        st.none() | st.uuids(version=4),
        st.text(max_size=20),
    )
)
def test_first_positions_come_back(first: FirstPosition) -> None:
    assert FirstPosition.decode(first.encode()) == first


@given(st.binary(max_size=80))
def test_other_bytes_are_refused(data: bytes) -> None:
    with contextlib.suppress(CorruptData):
        FirstPosition.decode(data)
    with contextlib.suppress(CorruptData):
        parse_note_key(Note.START, b"\xff\xfe" + data)


def test_their_keys_are_no_pages_and_no_facts() -> None:
    assert parse_note_key(Note.START, note_key(Note.START, ("größe", 7))) == ("größe", 7)
    assert is_note_key(note_key(Note.START, ONE))
    for other in (None, note_key(Note.FACTS, ONE), page_key("t", 0, 0)):
        assert parse_note_key(Note.START, other) is None


def test_one_holds_until_anybody_stores_or_deletes_an_offset() -> None:
    first = FirstPosition(5, 10, None, "mirror")
    assert [mark for mark in (-1, 9, 10, 11) if first.holds("mirror", mark)] == [-1, 9, 10]
    assert not first.holds("another", 10)


class FirstPositions:
    """What the topic has, and what is written to it."""

    def __init__(self) -> None:
        self.kept: dict[Key, FirstPosition] | None = None
        self.keeps_first_positions = True
        self.written: list[tuple[dict[Key, FirstPosition], Future[None]]] = []
        self.forgotten: list[Key] = []

    def first_positions(self) -> Mapping[Key, FirstPosition] | None:
        return self.kept

    def keep_first(self, firsts: Mapping[Key, FirstPosition]) -> Future[None]:
        self.written.append((dict(firsts), Future()))
        return self.written[-1][1]

    def forget_first(self, keys: Collection[Key]) -> None:
        self.forgotten += [key for key in keys if (self.kept or {}).pop(key, None)]


class Bench:
    """A task whose log begins at `start`."""

    def __init__(self, start: int = 3) -> None:
        self.start = start
        self.store = FirstPositions()
        self.clock = FakeClock()
        self.begun: dict[Key, int] = {}
        self.copying: set[Key] = set()
        self.late: list[tuple[Key, int, int]] = []
        self.beginnings = StartPositionTracker(self.store, "mirror", self, self.clock)

    def begin(self, key: Key, position: int | None, topic_id: UUID | None) -> None:
        self.begun[key] = self.start if position is None else position
        self.beginnings.begun(key, self.begun[key], topic_id or ID)

    def let_copy(self, keys: Iterable[Key]) -> None:
        self.copying.update(keys)

    def was_begun_before(self, key: Key, position: int, begun: int) -> None:
        self.late.append((key, position, begun))

    def turn(self, seconds: float = 0.0) -> None:
        self.clock.advance(seconds)
        self.beginnings.turn()
        self.beginnings.turn()


def test_nothing_is_copied_before_it_is_kept_where_it_begins() -> None:
    bench = Bench()
    bench.beginnings.expect({ONE: 4, TWO: -1})
    bench.turn()
    assert bench.begun == {}
    bench.store.kept = {}
    bench.turn()
    assert bench.begun == {ONE: 3, TWO: 3}
    ((written, done),) = bench.store.written
    assert written == {
        ONE: FirstPosition(3, 4, ID, "mirror"),
        TWO: FirstPosition(3, -1, ID, "mirror"),
    }
    bench.turn()
    assert bench.copying == set()
    assert bench.beginnings.waiting
    done.set_result(None)
    bench.turn()
    assert bench.copying == {ONE, TWO}
    assert not bench.beginnings.waiting


def test_what_was_begun_before_goes_on_from_there_and_is_not_kept_again() -> None:
    bench = Bench()
    bench.store.kept = {ONE: FirstPosition(0, 4, ID, "mirror")}
    bench.beginnings.expect({ONE: 4})
    bench.turn()
    assert bench.begun == {ONE: 0}
    assert bench.copying == {ONE}
    assert bench.store.written == []


@pytest.mark.parametrize(
    "stale", [FirstPosition(0, 3, ID, "mirror"), FirstPosition(0, 4, ID, "renamed")]
)
def test_one_that_does_not_hold_is_replaced(stale: FirstPosition) -> None:
    bench = Bench()
    bench.store.kept = {ONE: stale}
    bench.beginnings.expect({ONE: 4})
    bench.turn()
    assert bench.begun == {ONE: 3}
    assert bench.store.written[0][0] == {ONE: FirstPosition(3, 4, ID, "mirror")}


def test_it_is_waited_for_but_not_for_long() -> None:
    bench = Bench()
    bench.beginnings.expect({ONE: -1})
    bench.turn(WITHIN_S - 0.1)
    assert bench.begun == {}
    bench.turn(0.2)
    assert bench.copying == {ONE}
    assert bench.store.written == []
    bench.store.kept = {}
    bench.turn()
    assert bench.store.written[0][0].keys() == {ONE}
    bench.beginnings.expect({TWO: -1})
    bench.turn()
    assert TWO not in bench.copying
    bench.turn(WITHIN_S)
    assert TWO in bench.copying
    bench.store.written[0][1].set_result(None)
    bench.turn()
    assert bench.store.written[1][0].keys() == {TWO}


def test_a_write_that_fails_is_not_waited_for() -> None:
    bench = Bench()
    bench.store.kept = {}
    bench.beginnings.expect({ONE: -1})
    bench.turn()
    bench.store.written[0][1].set_exception(BrokerError("not allowed", 29))
    bench.turn()
    assert bench.copying == {ONE}


def test_a_partition_that_returns_with_a_stored_offset_is_not_started() -> None:
    """It left while start positions were read. Another worker stored its offset meanwhile. To start
    it as a new one would find its position out of range, report a loss and copy it again."""
    bench = Bench()
    bench.beginnings.expect({ONE: -1, TWO: -1})
    bench.beginnings.expect({})
    bench.beginnings.stored([ONE])
    bench.store.kept = {}
    bench.turn()
    assert bench.begun == {TWO: 3}


@pytest.mark.parametrize("stored", [False, True])
def test_what_is_known_too_late_is_compared_then(stored: bool) -> None:
    bench = Bench(start=40)
    bench.beginnings.expect({ONE: 4, TWO: 4})
    bench.turn(WITHIN_S)
    if stored:
        bench.beginnings.stored([ONE])
    bench.store.kept = {
        ONE: FirstPosition(0, 4, ID, "mirror"),
        TWO: FirstPosition(0, 3, ID, "mirror"),
    }
    bench.turn()
    assert bench.late == [(ONE, 0, 40)]
    written = {key for lot, _ in bench.store.written for key in lot}
    assert written == ({TWO} if stored else {ONE, TWO})
    assert bench.store.forgotten == ([ONE] if stored else [])


def test_it_is_forgotten_once_an_offset_is_stored_also_by_another_run() -> None:
    bench = Bench()
    bench.beginnings.stored([ONE])
    bench.beginnings.expect({TWO: -1})
    first = FirstPosition(0, -1, ID, "mirror")
    bench.store.kept = {ONE: first, TWO: first}
    bench.turn()
    assert bench.store.forgotten == [ONE]
    bench.beginnings.stored([TWO])
    assert bench.store.forgotten == [ONE, TWO]


def test_one_that_is_stored_before_it_is_written_is_written_no_more() -> None:
    bench = Bench()
    bench.store.kept = {}
    bench.beginnings.expect({ONE: -1})
    bench.turn()
    bench.beginnings.expect({TWO: -1})
    bench.turn()
    bench.beginnings.stored([TWO])
    assert bench.copying == {TWO}
    bench.store.written[0][1].set_result(None)
    bench.turn()
    assert len(bench.store.written) == 1


def test_where_nothing_can_be_kept_copying_begins_at_once() -> None:
    bench = Bench()
    bench.store.kept, bench.store.keeps_first_positions = {}, False
    bench.beginnings.expect({ONE: -1})
    bench.turn()
    assert bench.copying == {ONE}
    assert bench.store.written == []


def test_many_are_written_lot_by_lot(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(beginnings, "_CHUNK", 2)
    bench = Bench()
    bench.store.kept = {}
    bench.beginnings.expect({("t", number): -1 for number in range(5)})
    for expected in (2, 4, 5):
        bench.turn()
        bench.store.written[-1][1].set_result(None)
        bench.turn()
        assert len(bench.copying) == expected


def test_one_that_left_and_came_back_begins_anew() -> None:
    bench = Bench()
    bench.store.kept = {}
    bench.beginnings.expect({ONE: -1})
    bench.turn()
    bench.store.kept = {ONE: bench.store.written[0][0][ONE]}
    bench.start = 9
    bench.beginnings.expect({ONE: -1})
    bench.turn()
    assert bench.begun == {ONE: 3}
    assert bench.copying == {ONE}
