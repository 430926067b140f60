"""Values, schemas and records that several cases use, in the notation of ConnectData.java."""

from __future__ import annotations

from typing import Any

__all__ = [
    "ARRAY",
    "BARE_KEY",
    "BARE_MAP",
    "BARE_TEXT",
    "MANY_FIELDS",
    "MAP",
    "MIXED_MAP",
    "NO_VALUE",
    "NULL_STRUCT",
    "ORDER",
    "ORDER_SCHEMA",
    "ORDER_VALUE",
    "STRUCT_KEY",
    "TEXT",
    "TIME_MS",
    "Case",
    "record",
    "struct",
]

Case = dict[str, Any]

TIME_MS = 1_700_000_000_123

_RECORD = {
    "topic": "orders",
    "partition": 2,
    "timestamp": TIME_MS,
    "headers": [["h1", "one", "string"], ["h2", 2, "int32"], ["h1", {"bytes": "01"}, None]],
}


def record(**parts: object) -> Case:
    """A record with these parts, and the usual topic, partition, timestamp and headers."""
    return {**_RECORD, **parts}


def struct(*fields: tuple[str, object], **attributes: object) -> Case:
    """A struct's schema."""
    return {"type": "struct", "fields": [list(field) for field in fields], **attributes}


ARRAY = {"type": "array", "items": "string"}
MAP = {"type": "map", "keys": "string", "values": "int32"}

ORDER_SCHEMA = {
    "type": "struct",
    "name": "com.x.Order",
    "version": 3,
    "doc": "an order",
    "fields": [
        ["id", "int64"],
        ["name", "string?"],
        ["qty", {"type": "int32", "optional": True, "default": 7}],
        ["price", "float64"],
        ["ratio", "float32?"],
        ["ok", "boolean"],
        ["raw", "bytes?"],
        ["amount", "Decimal?"],
        ["day", "Date?"],
        ["at", "Timestamp?"],
        ["tod", "Time?"],
        ["tags", {"type": "array", "items": "string", "optional": True}],
        [
            "inner",
            {
                "type": "struct",
                "optional": True,
                "fields": [
                    ["a", "string"],
                    ["b", {"type": "struct", "optional": True, "fields": [["c", "int16?"]]}],
                ],
            },
        ],
    ],
}
ORDER_VALUE = {
    "struct": {
        "id": 5,
        "name": "Ann",
        "price": 9.5,
        "ratio": 0.1,
        "ok": True,
        "raw": {"bytes": "00ff"},
        "amount": {"dec": "12.34"},
        "day": {"date": 1641600000000},
        "at": {"date": TIME_MS},
        "tod": {"date": 3723004},
        "tags": ["a", "b"],
        "inner": {"struct": {"a": "x"}},
    }
}
MIXED_MAP = {
    "map": [
        ["id", 5],
        ["name", "Ann"],
        ["price", 9.5],
        ["ok", True],
        ["none", None],
        ["tags", ["a", 1]],
        ["inner", {"map": [["a", "x"], ["deep", {"map": [["c", 3]]}]]}],
    ]
}
_ORDER_OF_MANY = (9, 1, 8, 2, 7, 3, 6, 4, 5, 0, 11, 10, 13, 12)

ORDER = record(valueSchema=ORDER_SCHEMA, value=ORDER_VALUE, keySchema="string", key="k1")
BARE_MAP = record(value=MIXED_MAP, key="k1")
NO_VALUE = record(valueSchema=None, value=None, key="k1")
NULL_STRUCT = record(valueSchema={**ORDER_SCHEMA, "optional": True}, value=None)
MANY_FIELDS = record(value={"map": [[f"field{n}", n] for n in _ORDER_OF_MANY]})
"""More than Java's HashMap keeps in the order of the names' hashes without growing."""
BARE_TEXT = record(value="text")
TEXT = record(value="text", valueSchema="string")
STRUCT_KEY = record(keySchema=ORDER_SCHEMA, key=ORDER_VALUE, valueSchema="string", value="v1")
BARE_KEY = record(key=MIXED_MAP, value="v1")
