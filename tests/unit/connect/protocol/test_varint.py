import pytest
from hypothesis import given
from hypothesis import strategies as st

from connect.errors import CorruptData
from connect.protocol.varint import (
    SHORT_LIMIT,
    encode_varint,
    read_varint,
    read_varlong,
    short_varints,
)

INT32 = st.integers(-(1 << 31), (1 << 31) - 1)
INT64 = st.integers(-(1 << 63), (1 << 63) - 1)


@pytest.mark.parametrize(
    ("value", "encoded"),
    [
        (0, "00"),
        (-1, "01"),
        (1, "02"),
        (63, "7e"),
        (-64, "7f"),
        (64, "8001"),
        (-65, "8101"),
        (8191, "fe7f"),
        (8192, "808001"),
        ((1 << 31) - 1, "feffffff0f"),
        (-(1 << 31), "ffffffff0f"),
        ((1 << 63) - 1, "feffffffffffffffff01"),
        (-(1 << 63), "ffffffffffffffffff01"),
    ],
)
def test_golden_encodings(value: int, encoded: str) -> None:
    assert encode_varint(value).hex() == encoded
    assert read_varlong(bytes.fromhex(encoded), 0) == (value, len(encoded) // 2)


@given(INT32, st.binary(max_size=3), st.binary(max_size=3))
def test_a_varint_is_read_where_it_was_written(value: int, before: bytes, after: bytes) -> None:
    encoded = encode_varint(value)
    data = before + encoded + after
    assert read_varint(data, len(before)) == (value, len(before) + len(encoded))


@given(INT64)
def test_a_varlong_is_read_as_it_was_written(value: int) -> None:
    encoded = encode_varint(value)
    assert read_varlong(memoryview(encoded), 0) == (value, len(encoded))


def test_the_table_holds_both_signs() -> None:
    for value in range(-SHORT_LIMIT, SHORT_LIMIT):
        assert short_varints()[value] == encode_varint(value)


@pytest.mark.parametrize("data", ["", "80", "ffffffffff", "808080808000", "ffffffff10"])
def test_a_malformed_varint_is_corrupt_data(data: str) -> None:
    with pytest.raises(CorruptData, match="varint at byte 0"):
        read_varint(bytes.fromhex(data), 0)


@pytest.mark.parametrize("data", ["", "80" * 9, "80" * 10 + "00", "ff" * 9 + "02"])
def test_a_malformed_varlong_is_corrupt_data(data: str) -> None:
    with pytest.raises(CorruptData, match="byte 0"):
        read_varlong(bytes.fromhex(data), 0)
