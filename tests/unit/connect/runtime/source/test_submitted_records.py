"""Offsets are committable up to the first record that is not acknowledged, per partition."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from connect.errors import ConnectError
from connect.runtime.source.submitted_records import SubmittedRecord, SubmittedRecords

P, Q = {"file": "p"}, {"file": "q"}


def test_nothing_is_committable_before_the_first_acknowledgement() -> None:
    records = SubmittedRecords()
    records.submit(P, {"at": 1})
    assert records.take_committable() == []


def test_the_last_of_the_acknowledged_beginning_is_committable_once() -> None:
    records = SubmittedRecords()
    first, second, _ = (records.submit(P, {"at": at}) for at in (1, 2, 3))
    first.ack()
    second.ack()
    assert records.take_committable() == [(P, {"at": 2})]
    assert records.take_committable() == []


def test_a_gap_holds_back_what_comes_after_it() -> None:
    records = SubmittedRecords()
    first, second = (records.submit(P, {"at": at}) for at in (1, 2))
    second.ack()
    assert records.take_committable() == []
    first.ack()
    assert records.take_committable() == [(P, {"at": 2})]


def test_partitions_do_not_hold_each_other_back() -> None:
    records = SubmittedRecords()
    records.submit(P, {"at": 1})
    records.submit(Q, {"at": 7}).ack()
    assert records.take_committable() == [(Q, {"at": 7})]


def test_a_withdrawn_record_leaves_no_gap() -> None:
    records = SubmittedRecords()
    first = records.submit(P, {"at": 1})
    refused = records.submit(P, {"at": 2})
    records.withdraw(refused)
    first.ack()
    assert records.take_committable() == [(P, {"at": 1})]


def test_only_the_newest_record_can_be_withdrawn() -> None:
    records = SubmittedRecords()
    first = records.submit(P, {"at": 1})
    records.submit(P, {"at": 2})
    with pytest.raises(ConnectError, match="newest"):
        records.withdraw(first)


@given(
    partitions=st.lists(st.integers(0, 3), max_size=40),
    acks=st.lists(st.integers(0, 39), max_size=60),
    ask_every=st.integers(1, 7),
)
def test_the_committed_offset_is_always_that_of_the_acknowledged_beginning(
    partitions: list[int], acks: list[int], ask_every: int
) -> None:
    """Against the plain definition, whatever the order of acknowledgements and questions."""
    records = SubmittedRecords()
    sent: list[tuple[int, SubmittedRecord]] = [
        (partition, records.submit({"n": partition}, {"at": at}))
        for at, partition in enumerate(partitions)
    ]
    committed: dict[int, int] = {}
    for count, at in enumerate(acks):
        if at < len(sent):
            sent[at][1].ack()
        if count % ask_every == 0:
            _merge(committed, records)
    _merge(committed, records)
    expected: dict[int, int] = {}
    for partition in set(partitions):
        for at, (owner, record) in enumerate(sent):
            if owner != partition:
                continue
            if not record.acked:
                break
            expected[partition] = at
    assert committed == expected


def _merge(committed: dict[int, int], records: SubmittedRecords) -> None:
    for partition, offset in records.take_committable():
        assert offset is not None
        number, at = partition["n"], offset["at"]
        assert isinstance(number, int)
        assert isinstance(at, int)
        assert at > committed.get(number, -1)
        committed[number] = at
