"""The compiled part of `connect.data` answers as Python does, or leaves the answer to Python."""

from __future__ import annotations

import json
from collections.abc import Callable
from decimal import Decimal
from typing import TypeVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from connect.data import json_codec
from connect.data.compiled import native
from connect.data.converters.json import JsonConverter
from connect.data.java_map import copied_order, hash_order
from connect.data.java_numbers import Float32
from connect.errors import CorruptData

pytestmark = pytest.mark.skipif(native is None, reason="the compiled part was not built")

T = TypeVar("T")

_MODULES = ("json_codec", "java_map", "converters.json")

_names = st.text(max_size=8) | st.sampled_from(
    ["id", "name", "event", "a" * 64, "a" * 65, "Aa", "BB"]
)
_scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(-(2**64), 2**64)
    | st.floats()
    | st.text()
    | st.binary()
)
_values = st.recursive(
    _scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_names, inner, max_size=6),
    max_leaves=20,
)


def in_python(run: Callable[[], T]) -> T:
    """Return what the function returns without the compiled part."""
    with pytest.MonkeyPatch.context() as patch:
        for module in _MODULES:
            patch.setattr(f"connect.data.{module}.native", None)
        return run()


def _read(data: bytes) -> str:
    """Return what JSON bytes mean to a sink, with types and order, or that they are corrupt."""
    converter = JsonConverter()
    converter.configure({"schemas.enable": "false"}, "value")
    try:
        return repr(converter.from_bytes("t", data))
    except CorruptData as error:
        return str(error)


@given(_values)
def test_values_are_written_alike(value: object) -> None:
    assert json_codec.encode_plain(value) == in_python(lambda: json_codec.encode_plain(value))
    assert json_codec.encode(value) == in_python(lambda: json_codec.encode(value))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "value", [Float32(0.1), Decimal(1), (1,), {1: 2}, [{"a": bytearray(b"x")}]]
)
def test_what_is_not_plain_is_not_written(value: object) -> None:
    assert native is not None
    assert native.write_json({"a": 1, "b": value}, repr) is None


def test_a_large_value_is_written() -> None:
    value = {str(number): "x\n\U0001f600" * number for number in range(300)}
    assert json_codec.encode_plain(value) == in_python(lambda: json_codec.encode_plain(value))


def test_what_is_nested_too_deep_is_refused_as_in_python() -> None:
    value: list[object] = []
    for _ in range(100_000):
        value = [value]
    with pytest.raises(RecursionError):
        json_codec.encode_plain(value)


@given(_values, st.sampled_from([None, 1]), st.booleans())
def test_documents_are_read_alike(value: object, indent: int | None, ascii_only: bool) -> None:
    text = json.dumps(value, indent=indent, ensure_ascii=ascii_only, default=lambda _: 1.5e300)
    data = text.encode("utf-8", "surrogatepass")
    assert _read(data) == in_python(lambda: _read(data))


@given(st.lists(st.sampled_from('{}[]:,"\\ \n\t0123456789-+.eEtruefalsn\x00é/bu'), max_size=24))
def test_texts_that_are_hardly_json_are_read_alike(parts: list[str]) -> None:
    for text in ("".join(parts), f'{{"a":{"".join(parts)}}}', f'["{"".join(parts)}"]'):
        data = text.encode()
        assert _read(data) == in_python(lambda data=data: _read(data))  # type: ignore[misc]


@pytest.mark.parametrize(
    "text",
    [
        "999999999999999999",
        "9223372036854775808",
        "-9223372036854775809",
        "18446744073709551616",
        "-0",
        "-0.0",
        "01",
        "1.",
        "1e5",
        "1e999",
        "0.1234567890123456789012345678901234567890123",
        "12345678901234567890.5",
        '{"a":1,"b":2,"a":3}',
        '"\\u00e9"',
        '"\\ud800"',
        '"\\"\\\\\\/\\b\\f\\n\\r\\t"',
        '"\\',
        '"\\q"',
        '"\x1f"',
        "1 x",
        '{"a":1} \x00',
        "NaN",
        "-Infinity",
        "\ufeff1",
        " \t\r\n",
        "",
        "[" * 64 + "]" * 64,
        "[" * 65 + "]" * 65,
        "[[],{},[{}]]",
        '{"a"}',
        "[1,]",
        "{,}",
        "tru",
    ],
)
def test_edges_are_read_alike(text: str) -> None:
    data = text.encode()
    assert _read(data) == in_python(lambda: _read(data))


@pytest.mark.parametrize("data", [b'"\xff"', b'{"\xed\xa0\x80":1}', b'{"a":1}\xff', b'"\xc3'])
def test_what_is_not_utf_8_is_corrupt(data: bytes) -> None:
    assert "serialization error" in _read(data)
    assert _read(data) == in_python(lambda: _read(data))


def test_a_usual_document_is_read_by_the_compiled_part() -> None:
    assert native is not None
    text = '{"id": -12, "x": [1.5e3, true, false, null], "ä": "line\\n", "b": {}}'
    assert native.read_json(text.encode()) == json.loads(text)
    assert native.read_json(b'"\\u0041"') is NotImplemented


def test_many_names_are_read_right_when_they_share_a_place() -> None:
    for round_ in range(3):
        names = {f"name {number} {round_}": number for number in range(2_000)}
        assert _read(json.dumps(names).encode()) == repr((None, names)).replace(
            "(None, ", "SchemaAndValue(schema=None, value="
        )


@given(
    st.dictionaries(
        _names | st.integers() | st.booleans() | st.none() | st.floats(allow_nan=False),
        st.integers(),
        max_size=80,
    ),
    st.integers(0, 1 << 21),
)
def test_maps_have_one_order(entries: dict[object, int], capacity: int) -> None:
    def both() -> tuple[list[object], list[object]]:
        return list(hash_order(entries, capacity)), list(copied_order(len(entries), entries))

    assert both() == in_python(both)
    assert hash_order(entries, capacity) == entries
