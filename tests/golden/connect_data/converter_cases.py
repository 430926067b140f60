"""The cases of converters, and of the texts that values are printed as and parsed from."""

from __future__ import annotations

import json
from collections.abc import Iterator

from tests.golden.connect_data.values import (
    ARRAY,
    MAP,
    MIXED_MAP,
    ORDER_SCHEMA,
    ORDER_VALUE,
    TIME_MS,
    Case,
    struct,
)

__all__ = ["from_bytes_cases", "parse_cases", "to_bytes_cases"]

_JSON, _STRING = "json.JsonConverter", "storage.StringConverter"
_HEADER = "storage.SimpleHeaderConverter"
_NUMBERS = ("Boolean", "Short", "Integer", "Long", "Float", "Double")
_PLAIN = tuple(f"converters.{name}Converter" for name in (*_NUMBERS, "ByteArray"))

_WRITERS: tuple[tuple[str, dict[str, str]], ...] = (
    (_JSON, {}),
    (_JSON, {"schemas.enable": "false"}),
    (_JSON, {"decimal.format": "numeric"}),
    (_JSON, {"replace.null.with.default": "false"}),
    *((name, {}) for name in (_STRING, _HEADER, *_PLAIN)),
)


def to_bytes_cases() -> Iterator[Case]:
    """Each value is written by each converter, and printed."""
    for schema, value in _WRITTEN:
        for name, config in _WRITERS:
            if name == "converters.LongConverter" and (schema, value) == _NOT_FOR_LONG:
                continue
            yield _to_bytes(name, config, schema, value)
        yield {"kind": "print", "schema": schema, "value": value}
    for encoding in ("UTF-16", "ISO-8859-1", "nope"):
        yield _to_bytes(_STRING, {"converter.encoding": encoding}, "string", "\u00e9\u20ac")
    for key, wrong in (
        ("decimal.format", "x"),
        ("schemas.enable", "x"),
        ("schema.content", "{"),
        ("schemas.cache.size", "x"),
    ):
        yield _to_bytes(_JSON, {key: wrong}, "string", "a")


def _to_bytes(name: str, config: dict[str, str], schema: object, value: object) -> Case:
    return {"kind": "to_bytes", "class": name, "config": config, "schema": schema, "value": value}


def from_bytes_cases() -> Iterator[Case]:
    """Texts and bytes that converters read."""
    for text in _JSON_TEXTS:
        yield _from_text(text, {"schemas.enable": "false"})
        yield _from_text(text)
    for kind in (
        "int8",
        "int16",
        "int32",
        "int64",
        "float",
        "double",
        "boolean",
        "string",
        "bytes",
    ):
        for payload in _PAYLOADS:
            yield _from_text(_envelope({"type": kind, "optional": False}, payload))
    for name, kind in (
        ("Date", "int32"),
        ("Time", "int32"),
        ("Timestamp", "int64"),
        ("Decimal", "bytes"),
    ):
        logical = {"name": f"org.apache.kafka.connect.data.{name}", "version": 1}
        scaled = {"type": kind, "optional": True, **logical, "parameters": {"scale": "2"}}
        for payload in _LOGICAL_PAYLOADS:
            yield _from_text(_envelope(scaled, payload))
    for schema, payload in _ENVELOPES:
        yield _from_text(_envelope(schema, payload))
        yield _from_text(_envelope(schema, payload), {"replace.null.with.default": "false"})
    yield _from_text('{"schema":null,"payload":1,"x":2}')
    content = {"schema.content": '{"type":"int32"}'}
    yield _from_text("5", content)
    yield _from_text("5", {**content, "schemas.enable": "false"})
    for name, *data in _BYTES:
        for each in (*data, None):
            yield _from_bytes(name, each)
    yield _from_bytes(_JSON, None)
    yield _from_bytes(_JSON, "ff")


def _from_text(text: str, config: dict[str, str] | None = None) -> Case:
    return {"kind": "from_bytes", "class": _JSON, "config": config or {}, "text": text}


def _from_bytes(name: str, data: str | None) -> Case:
    return {"kind": "from_bytes", "class": name, "config": {}, "bytes": data}


def _envelope(schema: object, payload: str) -> str:
    return f'{{"schema":{json.dumps(schema, separators=(",", ":"))},"payload":{payload}}}'


def parse_cases() -> Iterator[Case]:
    """Texts of header values."""
    for text in _PARSED:
        yield {"kind": "parse", "text": text}


_PAIR_OF_TYPES = struct(
    ("x", "int32"),
    ("y", "string?"),
    name="a.B",
    version=1,
    doc="d",
    parameters={"z": "1", "a": "2"},
    optional=True,
)
_DECIMAL_WITH_DEFAULT = {
    "type": "bytes",
    "name": "org.apache.kafka.connect.data.Decimal",
    "version": 1,
    "parameters": {"scale": "2"},
    "default": {"dec": "1.50"},
}

_NOT_FOR_LONG = ("string", 5)
"""Java's LongConverter writes a Long whatever the schema is; ours refuses this one."""

_WRITTEN: tuple[tuple[object, object], ...] = (
    (None, None),
    ("string?", None),
    ("string", None),
    ({"type": "string", "default": "d"}, None),
    ({"type": "int32", "optional": True, "default": 4}, None),
    ("string", '\u00e9\x01"\\/\U0001f600\n'),
    (None, "x"),
    (None, 5),
    ("int8", 5),
    ("int16", 5),
    ("int32", 5),
    ("int64", 1152921504606846976),
    (None, 1.5),
    ("float32", 0.1),
    ("float64", 0.1),
    ("float64", 10000000000.0),
    ("float32", 1e-05),
    ("float64", 100.0),
    ("float64", {"f64": "NaN"}),
    ("float32", {"f32": "-Infinity"}),
    (None, {"f64": "Infinity"}),
    (None, True),
    ("boolean", False),
    ("bytes", {"bytes": "00ff10"}),
    (None, {"bytes": "00ff10"}),
    ("bytes", {"bytes": ""}),
    ("Decimal", {"dec": "12.34"}),
    ("Decimal", {"dec": "-0.01"}),
    ("Decimal", {"dec": "12.345"}),
    ("Decimal", {"dec": "1234567890123456789.00"}),
    ("Decimal", {"dec": "-1.28"}),
    ("Decimal", {"dec": "1.27"}),
    ("Decimal", {"dec": "0.00"}),
    (None, {"dec": "1"}),
    ("Date", {"date": 86400000}),
    ("Date", {"date": 86400001}),
    ("Date", {"date": -86400000}),
    ("Time", {"date": 5}),
    ("Time", {"date": 86400001}),
    ("Timestamp", {"date": TIME_MS}),
    ("Timestamp", {"date": -5}),
    (None, {"date": 5}),
    ({"type": "array", "items": "string?"}, ["a", None]),
    (ARRAY, []),
    (None, ["a", 1, 1.5, None, [True]]),
    (None, MIXED_MAP),
    (MAP, {"map": [["a", 1]]}),
    (
        {"type": "map", "keys": "int32", "values": "string?", "optional": True},
        {"map": [[1, "a"], [2, "b"]]},
    ),
    (None, {"map": [[1, "a"], ["b", 2]]}),
    (None, {"map": []}),
    (None, {"map": [[None, 1]]}),
    (ORDER_SCHEMA, ORDER_VALUE),
    (ORDER_SCHEMA, {"struct": {"id": 1, "price": 2.0, "ok": False}}),
    ("int32", "x"),
    _NOT_FOR_LONG,
    ("boolean", "x"),
    ("bytes", "x"),
    ("Date", "x"),
    ("Decimal", "x"),
    (ARRAY, "x"),
    (_PAIR_OF_TYPES, {"struct": {"x": 1}}),
    (_DECIMAL_WITH_DEFAULT, None),
    ({"type": "int32", "default": 7, "optional": True}, 3),
)
"""Schemas and values."""

_JSON_TEXTS = (
    "",
    "null",
    "1",
    "1.5",
    "12345678901234567890",
    "1e400",
    '"x"',
    "true",
    '[1,2.5,null,"a"]',
    '{"a":1,"b":{"c":[]}}',
    "{",
    "nope",
    "1 2",
    " 5 ",
    '{"a":1,"a":2}',
    "NaN",
    '"\\u00e9"',
    "-0",
    "1E3",
    "100000000000",
)

_PAYLOADS = (
    "1",
    "300",
    "1.9",
    "-1.9",
    '"x"',
    '"AQI="',
    "true",
    "null",
    "[]",
    "1e10",
    "99999999999999999999",
)
_LOGICAL_PAYLOADS = (
    "1",
    "1.5",
    '"ew=="',
    '""',
    '"%%"',
    "null",
    "true",
    "99999999999",
    "-1",
    "86400000",
    "{}",
)

_INT32 = {"type": "int32"}
_INT32_A = {"type": "int32", "field": "a"}
_INT32_MAP = {"type": "map", "keys": _INT32, "values": _INT32}
_STRING_MAP = {"type": "map", "keys": {"type": "string"}, "values": _INT32}
_OPTIONAL = {"type": "int32", "optional": True}
_NAMED_STRUCT = {
    "type": "struct",
    "fields": [
        _INT32_A,
        {"type": "string", "optional": True, "field": "b"},
        {"type": "int32", "default": 9, "field": "c"},
    ],
    "name": "n",
    "version": 2,
    "doc": "d",
}
_ENVELOPES: tuple[tuple[object, str], ...] = (
    ({"type": "zz"}, "1"),
    ({}, "1"),
    (5, "1"),
    ({"type": 5}, "1"),
    ({"type": "array"}, "[]"),
    ({"type": "array", "items": _INT32}, "[1,2]"),
    ({"type": "array", "items": _INT32}, "[null]"),
    ({"type": "array", "items": _INT32}, "5"),
    ({"type": "map", "keys": {"type": "string"}}, "{}"),
    (_STRING_MAP, '{"a":1}'),
    (_STRING_MAP, "[]"),
    (_INT32_MAP, "[[1,2]]"),
    (_INT32_MAP, '{"a":1}'),
    (_INT32_MAP, "[5]"),
    (_INT32_MAP, "[[1,2,3]]"),
    ({"type": "struct"}, "{}"),
    ({"type": "struct", "fields": [_INT32]}, "{}"),
    (_NAMED_STRUCT, '{"a":1,"zz":5}'),
    ({"type": "struct", "fields": [_INT32_A]}, "[]"),
    ({"type": "struct", "fields": [_INT32_A]}, "{}"),
    ({**_OPTIONAL, "default": 4}, "null"),
    ({**_OPTIONAL, "default": None}, "null"),
    ({"type": "int32", "parameters": {"a": 5}}, "1"),
    ({"type": "string", "optional": True, "default": "x"}, "null"),
    (None, "1"),
    (None, "null"),
)
"""Schemas and payloads of JSON with schemas."""

_BYTES = (
    ("converters.BooleanConverter", "", "00", "01", "02", "0001"),
    ("converters.ShortConverter", "0001", "ffff", "00"),
    ("converters.IntegerConverter", "00000001", "ffffffff", "00"),
    ("converters.LongConverter", "0000000000000001", "00"),
    ("converters.FloatConverter", "3dcccccd", "00"),
    ("converters.DoubleConverter", "3fb999999999999a", "00"),
    ("converters.ByteArrayConverter", "00ff", ""),
    (_STRING, "c3a9", "ff", ""),
    (_HEADER, "31", "ff", ""),
)
"""A converter, and bytes in hex that it reads; each reads null, too."""

_PARSED = (
    "",
    "a",
    "1",
    "-1",
    "+1",
    "127",
    "128",
    "32768",
    "2147483648",
    "9223372036854775807",
    "9223372036854775808",
    "1.0",
    "1.5",
    "-0.1",
    "1e3",
    "1e39",
    "1e400",
    "1E-50",
    ".5",
    "5.",
    "1.",
    "0x10",
    "1f",
    "NaN",
    "true",
    "True",
    "false",
    "null",
    "NULL",
    " true ",
    "true}",
    " 5 ",
    "5 6",
    "[]",
    "[1]",
    "[1,2,3]",
    "[1,300,70000]",
    "[1,2.5]",
    '[1,"a"]',
    '["a","b"]',
    "[a]",
    "[1,null]",
    "[null]",
    "[null,null]",
    "[1,,2]",
    "[1,]",
    "[1",
    "1]",
    "[[1],[2]]",
    "[true,false]",
    "{}",
    '{"a":1}',
    '{"a":1,"b":2}',
    '{"a":1 "b":2}',
    '{"a":"x","b":"y"}',
    "{1:2,3:4}",
    "{a:1}",
    '{"a":null}',
    "{null:1}",
    '{"a":[1,2],"b":[3]}',
    '{"a":1',
    '{"a"}',
    "{,}",
    '"quoted"',
    '"a\\"b"',
    "a\\b",
    "a:b",
    "12:34:56.789Z",
    "2020-01-02",
    "2020-01-02T03:04:05.678Z",
    "2020-13-45",
    "[2020-01-02]",
    '["2020-01-02","2021-01-02"]',
    "[12:34:56.789Z]",
    "12:34",
    "1:2:3:4:5:6",
    '{"t":"2020-01-02T03:04:05.678Z"}',
    "2020-1-2",
    "  ",
    "\t",
    "[ 1 , 2 ]",
    '{ "a" : 1 }',
    "1_000",
    "\uff11",
    "a,b",
    "a]",
    "\\[1]",
    "[1,2]x",
    "-",
    "+",
    "--1",
    "1-2",
    "12345678901234567890.5",
    "0.1000000000000000055511151231257827",
    "[1.5,12345678901234567890]",
    '[128,"128"]',
    "[true,null]",
    "[1,9223372036854775807]",
    '{"a":1,"a":2}',
)
"""Texts of header values."""
