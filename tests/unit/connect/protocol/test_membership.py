from contextlib import suppress
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from connect.errors import CorruptData
from connect.protocol.membership import (
    CONFIG_MISMATCH,
    Assignment,
    ConnectorTask,
    WorkerState,
    decode_assignment,
    decode_metadata,
    encode_assignment,
    encode_metadata,
    merge_assignment,
    offered_protocols,
)

URL = "http://h:8083/"
URL_HEX = "000e687474703a2f2f683a383038332f"
OFFSET_HEX = "0000000000000007"
ASSIGNMENT = Assignment(
    2, 0, "m1", URL, 7, (("c", -1), ("c", 0), ("d", 1)), (("r", -1),), delay_ms=300
)
ASSIGNMENT_HEX = (
    f"0002 0000 00026d31 {URL_HEX} {OFFSET_HEX} 00000002 000163 00000002 ffffffff 00000000"
    " 000164 00000001 00000001 00000001 000172 00000001 ffffffff 0000012c"
)
MISMATCH_HEX = f"0002 0001 00026d31 {URL_HEX} {OFFSET_HEX} 00000000 00000000 00000000"

names = st.text(max_size=8)
tasks = st.dictionaries(names, st.sets(st.integers(-1, 2**31 - 1)), max_size=5).map(
    lambda found: tuple((name, task) for name in found for task in sorted(found[name]))
)
assignments = st.builds(
    Assignment,
    st.sampled_from([1, 2]),
    st.integers(-(2**15), 2**15 - 1),
    names,
    names,
    st.integers(-(2**63), 2**63 - 1),
    tasks,
    tasks,
    st.integers(-(2**31), 2**31 - 1),
)


def octets(text: str) -> bytes:
    return bytes.fromhex(text)


# Bytes that Java wrote.


def test_metadata_without_an_allocation() -> None:
    state = WorkerState(URL, 7)
    for version, tail in ((0, ""), (1, "ffffffff"), (2, "ffffffff")):
        data = octets(f"000{version} {URL_HEX} {OFFSET_HEX} {tail}")
        assert encode_metadata(state, version) == data
        assert decode_metadata(data) == state


def test_an_assignment() -> None:
    data = octets(ASSIGNMENT_HEX)
    assert encode_assignment(ASSIGNMENT, 2) == data
    assert decode_assignment(data) == ASSIGNMENT


def test_metadata_carries_the_whole_assignment_as_allocation() -> None:
    state = WorkerState(URL, 7, ASSIGNMENT)
    data = octets(f"0002 {URL_HEX} {OFFSET_HEX} 00000051 {ASSIGNMENT_HEX}")
    assert encode_metadata(state, 2) == data
    assert decode_metadata(data) == state
    older = octets(f"0001 {URL_HEX} {OFFSET_HEX} 00000051 0001 {ASSIGNMENT_HEX[5:]}")
    assert encode_metadata(state, 1) == older


def test_an_assignment_that_failed() -> None:
    failed = Assignment(2, CONFIG_MISMATCH, "m1", URL, 7)
    assert failed.failed
    assert encode_assignment(failed, 2) == octets(MISMATCH_HEX)
    assert decode_assignment(octets(MISMATCH_HEX)) == failed


def test_the_eager_protocol_carries_neither_allocation_nor_revocations() -> None:
    data = encode_assignment(ASSIGNMENT, 0)
    assert decode_assignment(data) == replace(ASSIGNMENT, version=0, revoked=(), delay_ms=0)
    assert encode_metadata(WorkerState(URL, 7, ASSIGNMENT), 0) == encode_metadata(
        WorkerState(URL, 7), 0
    )


# Whatever else comes.


@given(assignments)
def test_what_is_encoded_is_decoded(assignment: Assignment) -> None:
    version = assignment.version
    assert decode_assignment(encode_assignment(assignment, version)) == assignment
    state = WorkerState(URL, 7, assignment)
    assert decode_metadata(encode_metadata(state, version)) == state


def test_the_connector_comes_before_its_tasks_and_connectors_stay_together() -> None:
    mixed = replace(ASSIGNMENT, assigned=(("d", 0), ("c", 1), ("d", 2), ("c", -1)))
    decoded = decode_assignment(encode_assignment(mixed, 2))
    assert decoded.assigned == (("d", 0), ("d", 2), ("c", -1), ("c", 1))


def test_missing_trailing_fields_are_empty() -> None:
    whole = octets(MISMATCH_HEX)
    expected = decode_assignment(whole)
    for cut in (4, 8, 12):
        assert decode_assignment(whole[:-cut]) == expected
    assert decode_metadata(encode_metadata(WorkerState(URL, 7), 2)[:-4]) == WorkerState(URL, 7)


def test_null_arrays_are_empty() -> None:
    data = octets(f"0002 0000 00026d31 {URL_HEX} {OFFSET_HEX} ffffffff ffffffff 00000000")
    assert decode_assignment(data) == Assignment(2, 0, "m1", URL, 7)


def test_newer_versions_are_read_as_far_as_we_know() -> None:
    data = bytearray(encode_assignment(ASSIGNMENT, 2) + b"future")
    data[1] = 9
    assert decode_assignment(bytes(data)) == replace(ASSIGNMENT, version=9)


def test_negative_versions_are_refused() -> None:
    for decode in (decode_assignment, decode_metadata):
        with pytest.raises(CorruptData, match="version -1"):
            decode(octets(f"ffff {URL_HEX} {OFFSET_HEX}"))


def test_an_array_longer_than_its_message_is_refused_before_it_is_made() -> None:
    with pytest.raises(CorruptData, match="2147483647"):
        decode_assignment(octets(f"0002 0000 00026d31 {URL_HEX} {OFFSET_HEX} 7fffffff"))


@given(st.binary(max_size=120), st.integers(0, 200), st.binary(max_size=3))
def test_damaged_messages_are_read_or_refused(data: bytes, at: int, other: bytes) -> None:
    good = encode_metadata(WorkerState(URL, 7, ASSIGNMENT), 2)
    for message in (data, good[:at] + other + good[at + len(other) :]):
        for decode in (decode_assignment, decode_metadata):
            with suppress(CorruptData):
                decode(message)


def test_a_name_longer_than_its_length_field_is_refused() -> None:
    with pytest.raises(CorruptData, match="32768 bytes"):
        encode_metadata(WorkerState("h" * 32_768, 7), 2)


# What the worker makes of it.


def incremental(assigned: list[ConnectorTask], revoked: list[ConnectorTask]) -> Assignment:
    return Assignment(2, 0, "m1", URL, 7, tuple(assigned), tuple(revoked))


def test_a_worker_keeps_what_it_ran_but_for_what_is_revoked() -> None:
    before = incremental([("a", -1), ("a", 0), ("b", 0)], [])
    new = incremental([("c", 0), ("b", 0)], [("a", 0)])
    merged = merge_assignment(before, new)
    assert merged.assigned == (("c", 0), ("b", 0), ("a", -1))
    assert merged.revoked == (("a", 0),)


def test_an_eager_assignment_replaces_everything() -> None:
    before = incremental([("a", -1)], [])
    new = replace(incremental([("c", 0)], []), version=0)
    assert merge_assignment(before, new) == new
    assert merge_assignment(None, new) == new


def test_offers_begin_with_the_newest_protocol() -> None:
    assert offered_protocols("sessioned") == ("sessioned", "compatible", "default")
    assert offered_protocols("compatible") == ("compatible", "default")
    assert offered_protocols("eager") == ("default",)
