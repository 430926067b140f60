"""What is kept of both logs between runs, and when it holds."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from connect.errors import CorruptData
from connectors.mirror.offsets.log_identity import LogIdentity, joined_by, noted_facts
from connectors.mirror.offsets.map_notes import Note, is_note_key, note_key, parse_note_key
from connectors.mirror.offsets.offset_map_pages import page_key, parse_page_key

offsets = st.integers(0, 2**62)
pairs = st.lists(st.tuples(offsets, offsets), max_size=24).map(tuple)
ids = st.none() | st.uuids(version=4)
former_ids = st.lists(st.uuids(version=4), max_size=4).map(tuple)


def test_the_bytes_are_those_of_the_docs() -> None:
    facts = LogIdentity(5, 9, -1, UUID(int=1), None, ((3, 0),), ((9, 300),))
    assert note_key(Note.FACTS, ("t", 3)).hex() == "ffff" + "0001" + "74" + "00000003"
    assert facts.encode().hex() == (
        "0000"
        + f"{5:016x}"
        + f"{9:016x}"
        + "f" * 16
        + f"{1:032x}"
        + "0" * 32
        + "010300"
        + "0109ac02"
    )
    former = replace(facts, former_source_ids=(UUID(int=2), UUID(int=3)))
    assert former.encode().hex() == (facts.encode().hex() + "02" + f"{2:032x}" + f"{3:032x}" + "00")


def test_the_oldest_former_id_is_forgotten_first() -> None:
    former: tuple[UUID, ...] = ()
    for n in range(1, 7):
        former = joined_by(former, UUID(int=n))
    assert former == tuple(UUID(int=n) for n in (3, 4, 5, 6))


@given(
    st.builds(
        LogIdentity,
        offsets,
        offsets,
        st.integers(-1, 2**62),
        ids,
        ids,
        pairs,
        pairs,
        former_ids,
        former_ids,
    )
)
def test_facts_come_back(facts: LogIdentity) -> None:
    assert LogIdentity.decode(facts.encode()) == facts


@given(st.binary(max_size=120))
def test_other_bytes_are_refused(data: bytes) -> None:
    with contextlib.suppress(CorruptData):
        LogIdentity.decode(data)


def test_pages_and_facts_are_told_apart() -> None:
    assert is_note_key(note_key(Note.FACTS, ("größe", 7)))
    assert parse_note_key(Note.FACTS, note_key(Note.FACTS, ("größe", 7))) == ("größe", 7)
    assert not is_note_key(page_key("t", 0, 0))
    assert not is_note_key(None)
    with pytest.raises(CorruptData):
        parse_page_key(note_key(Note.FACTS, ("a-name-long-enough-to-look-like-a-page", 7)))


def test_they_hold_for_what_was_stored_with_them_only() -> None:
    facts = LogIdentity(50, 80, 80, None, None, (), ())
    assert [position for position in (49, 50, 51, 80, 81) if facts.hold_for(position)] == [50, 80]


def test_a_note_holds_for_the_offset_that_it_is_with_only() -> None:
    facts = LogIdentity(50, 80, 80, None, None, (), ())
    assert noted_facts(facts.encode(), 80) == facts
    assert noted_facts(facts.encode(), 50) is None
    assert noted_facts(None, 80) is noted_facts(b"not ours", 80) is None


def test_a_note_has_the_newest_of_epochs_and_anchors() -> None:
    pairs = tuple((n, n) for n in range(30))
    newest = LogIdentity(50, 80, 80, None, None, pairs, pairs).newest
    assert newest.epochs == newest.anchors == pairs[-4:]
