"""Schemaless JSON, byte for byte as Connect's JsonConverter wrote it (Java 4.3.1)."""

from __future__ import annotations

import math
from decimal import Decimal
from types import MappingProxyType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from connect.data import json_codec
from connect.data.java_numbers import Float32
from connect.errors import ConnectError, CorruptData


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (
            ["MirrorSourceConnector", {"cluster": "A", "partition": 0, "topic": "t"}],
            b'["MirrorSourceConnector",{"cluster":"A","partition":0,"topic":"t"}]',
        ),
        (
            ["MirrorCheckpointConnector", {"partition": 2, "topic": "A.t", "group": "g1"}],
            b'["MirrorCheckpointConnector",{"partition":2,"topic":"A.t","group":"g1"}]',
        ),
        ({"offset": 42}, b'{"offset":42}'),
        (["conn", {"filename": "x"}], b'["conn",{"filename":"x"}]'),
        (["conn", None], b'["conn",null]'),
        (
            {"properties": {"name": 'é"/\x01', "x": None, "tasks.max": "2"}},
            '{"properties":{"name":"é\\"/\\u0001","x":null,"tasks.max":"2"}}'.encode(),
        ),
        (
            [True, False, -5, -(2**63), b"\x01\x02\x03"],
            b'[true,false,-5,-9223372036854775808,"AQID"]',
        ),
        ([{}, []], b"[{},[]]"),
    ],
)
def test_golden_bytes(value: json_codec.JsonValue, expected: bytes) -> None:
    assert json_codec.encode(value) == expected


@pytest.mark.parametrize(
    "other",
    [Float32(0.1), Decimal(1), (1, 2), {1: 2}, [{"a": bytearray(b"x")}], MappingProxyType({})],
)
def test_what_is_not_of_the_plain_types_is_left_to_the_caller(other: object) -> None:
    assert json_codec.encode_plain({"a": [1, 0.5, "x", b"y", None, True]}) is not None
    assert json_codec.encode_plain({"a": other}) is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("\x00\x07\x0b\x0e\x1f", b'"\\u0000\\u0007\\u000B\\u000E\\u001F"'),
        ("\b\t\n\f\r", b'"\\b\\t\\n\\f\\r"'),
        ("\"\\/'<", b'"\\"\\\\/\'<"'),
        ("\x7f\x80é\u2028\uffff", '"\x7f\x80é\u2028\uffff"'.encode()),
        ("\U0001f600", b'"\\uD83D\\uDE00"'),
        ("\ud83d", b'"\\uD83D"'),
    ],
)
def test_strings_are_escaped_as_jackson_does(text: str, expected: bytes) -> None:
    assert json_codec.encode(text) == expected
    assert json_codec.encode_plain({"a": [text]}) == b'{"a":[' + expected + b"]}"


@pytest.mark.parametrize(
    ("number", "expected"),
    [
        (0.0, "0.0"),
        (-0.0, "-0.0"),
        (1.0, "1.0"),
        (1.5, "1.5"),
        (0.1, "0.1"),
        (0.006, "0.006"),
        (0.001, "0.001"),
        (1e-5, "1.0E-5"),
        (9999999.0, "9999999.0"),
        (1e7, "1.0E7"),
        (123456789.125, "1.23456789125E8"),
        (9007199254740993.0, "9.007199254740992E15"),
        (1e21, "1.0E21"),
        (2e22, "2.0E22"),
        (-2.5e-10, "-2.5E-10"),
        (5e-324, "4.9E-324"),
        (2.0**-24, "5.960464477539063E-8"),
        (2.2250738585072014e-308, "2.2250738585072014E-308"),
        (1.7976931348623157e308, "1.7976931348623157E308"),
        (math.nan, '"NaN"'),
        (math.inf, '"Infinity"'),
        (-math.inf, '"-Infinity"'),
    ],
)
def test_doubles_are_written_as_java_writes_them(number: float, expected: str) -> None:
    assert json_codec.encode(number).decode() == expected


def test_order_of_fields_is_the_order_of_the_map() -> None:
    assert json_codec.encode({"b": 1, "a": 2}) == b'{"b":1,"a":2}'


def test_what_json_cannot_hold_is_refused() -> None:
    with pytest.raises(ConnectError, match="A set cannot be written as JSON"):
        json_codec.encode({"a": {1}})  # type: ignore[dict-item]
    with pytest.raises(ConnectError, match="names must be strings, not int"):
        json_codec.encode({1: "a"})  # type: ignore[dict-item]


@pytest.mark.parametrize("data", [b"", b"null"])
def test_nothing_and_null_are_null(data: bytes) -> None:
    assert json_codec.decode(data) is None


@pytest.mark.parametrize("data", [b"{", b"{'a':1}", b"NaN", b"\xff", b"[" * 100_000])
def test_what_is_not_json_is_corrupt(data: bytes) -> None:
    with pytest.raises(CorruptData):
        json_codec.decode(data)


def test_numbers_are_read_as_whole_or_not() -> None:
    decoded = json_codec.decode(b'{"a":1,"b":1.0,"c":1e3}')
    assert isinstance(decoded, dict)
    assert decoded == {"a": 1, "b": 1.0, "c": 1000.0}
    assert [type(value) for value in decoded.values()] == [int, float, float]


_scalars = st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.text()
_numbers = st.floats(allow_nan=False, allow_infinity=False)


@given(
    st.recursive(
        _scalars | _numbers,
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
        max_leaves=12,
    )
)
def test_what_was_written_reads_back(value: json_codec.JsonValue) -> None:
    written = json_codec.encode(value)
    assert json_codec.decode(written) == value
    assert json_codec.encode_plain(value) == written
