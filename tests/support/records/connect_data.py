"""The cases of tests/golden/connect_data, run with our classes, and what Java made of them."""

from __future__ import annotations

import datetime
import decimal
import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from connect.data import logical
from connect.data.converters.base import Converter
from connect.data.java_numbers import Float32, double_text, float_text
from connect.data.record import Header, SourceRecord, as_header
from connect.data.schema import Schema, SchemaAndValue, Type
from connect.data.struct import Struct
from connect.data.transforms.base import Predicate, Transformation
from connect.data.values import parse, text_of
from connect.errors import ConfigError, ConnectError, DataError
from connect.runtime.plugins.builtin import builtin_plugins

__all__ = ["CASES", "EXPECTED", "agrees", "plain_numbers", "run_case"]

_FOLDER = Path(__file__).parents[2] / "golden" / "connect_data"
CASES: list[dict[str, Any]] = json.loads((_FOLDER / "cases.json").read_text())
EXPECTED: list[dict[str, Any]] = json.loads((_FOLDER / "results.json").read_text())

_CLASSES = {name.removeprefix("org.apache.kafka.connect."): cls for cls, name in builtin_plugins()}
_LOGICAL = {
    "Date": logical.DATE_SCHEMA,
    "Time": logical.TIME_SCHEMA,
    "Timestamp": logical.TIMESTAMP_SCHEMA,
    "Decimal": logical.decimal_schema(2),
}
# What Java tells apart and Python does not: the widths of integers, the kinds of lists and maps.
_SAME_CLASSES = {
    r"java\.lang\.(Byte|Short|Integer)": "java.lang.Long",
    r"java\.util\.LinkedHashMap": "java.util.HashMap",
}


def run_case(case: Mapping[str, Any]) -> dict[str, Any]:
    """What our class does with the case, in the words of the Java program."""
    try:
        return _RUN[case["kind"]](case)
    except DataError as error:
        return {"error": "DataException", "message": str(error)}
    except ConfigError as error:
        return {"error": "ConfigException", "message": str(error)}
    except ConnectError as error:
        # Bytes that do not parse are DataExceptions in Java as well.
        return {"error": "DataException", "message": str(error)}


def agrees(case: Mapping[str, Any], ours: Mapping[str, Any], java: Mapping[str, Any]) -> bool:
    """Whether ours is what Java did, or differs where it is meant to."""
    if _is_meant(case, ours):
        return True
    if "error" not in java:
        return bool(plain_numbers(ours) == plain_numbers(java))
    if java["error"] not in ("DataException", "ConfigException"):
        # An accident of Java, like a null pointer, is an error here with words of its own.
        return "error" in ours
    return ours.get("error") == java["error"] and _words(case, ours) == _words(case, java)


def _is_meant(case: Mapping[str, Any], ours: Mapping[str, Any]) -> bool:
    """The differences that are meant.

    - Python's instants end with the year 9999.
    - Java's StringConverter writes addresses for bytes; ours the bytes, or refuses them.
    - Numbers without schema have no width in Python; Java refuses those of another.
    - A wrong `schema.content` is a wrong config, not wrong data.
    """
    message = str(ours.get("message"))
    value = case.get("value", case.get("record", {}).get("value"))
    if case.get("class") == "storage.StringConverter" and case["kind"] == "to_bytes":
        if isinstance(value, dict) and ours.get("bytes") == value.get("bytes"):
            return True
        return "cannot write bytes inside" in message
    schema = case.get("schema", case.get("record", {}).get("valueSchema"))
    number = isinstance(value, int | float) or (
        isinstance(value, dict) and bool({"i32", "f64"} & value.keys())
    )
    narrow = case.get("class") in _NARROW and number and schema is None and "error" not in ours
    return (
        narrow
        or "is not between the years 1 and 9999" in message
        or "for configuration schema.content" in message
    )


_NARROW = {
    "converters.ShortConverter",
    "converters.IntegerConverter",
    "converters.FloatConverter",
    "transforms.TimestampConverter$Value",
}


def plain_numbers(node: Any) -> Any:
    """Floats by their value: JDKs before 19 write some with more digits than needed."""
    if isinstance(node, list):
        return [plain_numbers(element) for element in node]
    if not isinstance(node, dict):
        return node
    if node.keys() == {"f32"}:
        return {"f32": float_text(float(node["f32"]))}
    return {name: plain_numbers(member) for name, member in node.items()}


def _words(case: Mapping[str, Any], result: Mapping[str, Any]) -> str:
    message = str(result.get("message"))
    if case.get("class") == "converters.ByteArrayConverter" and "schema" not in message:
        return "another class"
    # Java adds the pattern and another position to what is wrong with it ...
    message = re.sub(r"(?s)(Invalid regex: ).*", r"\1", message)
    # ... and takes its own exception for the value.
    message = re.sub(
        r"Invalid value java\S+Exception: .* for configuration (?=Invalid type|Timestamp)",
        "",
        message,
    )
    # Java prints objects where ours says what they stand for.
    message = re.sub(r"(static field: |missing on record: ).*", r"\1", message)
    for pattern, name in _SAME_CLASSES.items():
        message = re.sub(pattern, name, message)
    return message


def _transform(case: Mapping[str, Any]) -> dict[str, Any]:
    transformation = _make(case)
    assert isinstance(transformation, Transformation)
    transformation.configure(_config(case))
    record = transformation.apply(_record(case["record"]))
    if record is None:
        return {"record": None}
    return {
        "record": {
            "topic": record.topic,
            "partition": record.partition,
            "timestamp": record.timestamp_ms,
            "keySchema": _schema_json(record.key_schema),
            "key": _json(record.key, record.key_schema),
            "valueSchema": _schema_json(record.value_schema),
            "value": _json(record.value, record.value_schema),
            "headers": [
                [name, _json(value, schema), _schema_json(schema)]
                for name, value, schema in map(as_header, record.headers)
            ],
        }
    }


def _predicate(case: Mapping[str, Any]) -> dict[str, Any]:
    predicate = _make(case)
    assert isinstance(predicate, Predicate)
    predicate.configure(_config(case))
    return {"result": predicate.test(_record(case["record"]))}


def _to_bytes(case: Mapping[str, Any]) -> dict[str, Any]:
    schema = _schema(case["schema"])
    data = _converter(case).to_bytes("orders", _value(schema, case["value"]), schema)
    if data is None:
        return {"bytes": None}
    return {"bytes": data.hex(), "text": data.decode("utf-8", "replace")}


def _from_bytes(case: Mapping[str, Any]) -> dict[str, Any]:
    if case.get("text") is not None:
        data = case["text"].encode()
    else:
        data = None if case.get("bytes") is None else bytes.fromhex(case["bytes"])
    return _found(_converter(case).from_bytes("orders", data))


def _parse(case: Mapping[str, Any]) -> dict[str, Any]:
    return _found(parse(case["text"]))


def _print(case: Mapping[str, Any]) -> dict[str, Any]:
    schema = _schema(case["schema"])
    return {"text": text_of(schema, _value(schema, case["value"]))}


_RUN = {
    "transform": _transform,
    "predicate": _predicate,
    "to_bytes": _to_bytes,
    "from_bytes": _from_bytes,
    "parse": _parse,
    "print": _print,
}


def _make(case: Mapping[str, Any]) -> object:
    return _CLASSES[case["class"]]()


def _config(case: Mapping[str, Any]) -> dict[str, str]:
    return dict(case["config"])


def _converter(case: Mapping[str, Any]) -> Converter:
    converter = _make(case)
    assert isinstance(converter, Converter)
    converter.configure(_config(case), "header" if "Header" in case["class"] else "value")
    return converter


def _found(found: SchemaAndValue) -> dict[str, Any]:
    return {"schema": _schema_json(found.schema), "value": _json(found.value, found.schema)}


def _record(node: Mapping[str, Any]) -> SourceRecord:
    key_schema, value_schema = _schema(node.get("keySchema")), _schema(node.get("valueSchema"))
    headers = [
        Header(name, _value(_schema(schema), value), _schema(schema))
        for name, value, schema in node.get("headers", ())
    ]
    return SourceRecord(
        {"p": 1},
        {"o": 2},
        node["topic"],
        node.get("partition"),
        _value(key_schema, node.get("key")),
        _value(value_schema, node.get("value")),
        node.get("timestamp"),
        headers,
        key_schema,
        value_schema,
    )


def _schema(node: Any) -> Schema | None:
    if node is None:
        return None
    if isinstance(node, str):
        name = node.removesuffix("?")
        base = _LOGICAL.get(name) or Schema(Type(name))
        return Schema(
            base.type,
            optional=node.endswith("?"),
            name=base.name,
            version=base.version,
            parameters=base.parameters,
        )
    parts = {
        "name": node.get("name"),
        "version": node.get("version"),
        "doc": node.get("doc"),
        "parameters": node.get("parameters"),
        "optional": node.get("optional", False),
        "key_schema": _schema(node.get("keys")),
        "value_schema": _schema(node.get("items", node.get("values"))),
        "fields": [(name, _schema(schema)) for name, schema in node.get("fields", ())],
    }
    schema = Schema(Type(node["type"]), **parts)
    if "default" not in node:
        return schema
    return Schema(Type(node["type"]), **parts, default=_value(schema, node["default"]))


def _value(schema: Schema | None, node: Any) -> Any:
    if node is None or isinstance(node, bool | str):
        return node
    if isinstance(node, int | float):
        is_float = schema is not None and schema.type is Type.FLOAT32
        return Float32(node) if is_float else node
    if isinstance(node, list):
        return [_value(schema and schema.value_schema, element) for element in node]
    ((kind, content),) = node.items()
    if kind == "map":
        return {
            _value(schema and schema.key_schema, key): _value(
                schema and schema.value_schema, member
            )
            for key, member in content
        }
    if kind == "struct":
        assert schema is not None
        struct = Struct(schema)
        for name, member in content.items():
            field = schema.field(name)
            assert field is not None
            struct.put(name, _value(field.schema, member))
        return struct
    plain: dict[str, Callable[[Any], object]] = {
        "i8": int,
        "i16": int,
        "i32": int,
        "f32": lambda text: Float32(float(text)),
        "f64": float,
        "dec": decimal.Decimal,
        "date": logical.from_ms,
        "bytes": bytes.fromhex,
    }
    return plain[kind](content)


def _schema_json(schema: Schema | None) -> Any:
    if schema is None:
        return None
    node: dict[str, Any] = {"type": schema.type.name}
    if schema.optional:
        node["optional"] = True
    for name, value in (("name", schema.name), ("version", schema.version), ("doc", schema.doc)):
        if value is not None:
            node[name] = value
    if schema.parameters is not None:
        node["parameters"] = [[name, value] for name, value in schema.parameters.items()]
    if schema.default is not None:
        node["default"] = _json(schema.default, schema)
    if schema.type is Type.STRUCT:
        node["fields"] = [[field.name, _schema_json(field.schema)] for field in schema.fields]
    if schema.type is Type.MAP:
        node["keys"] = _schema_json(schema.key_schema)
    if schema.type in (Type.MAP, Type.ARRAY):
        node["values"] = _schema_json(schema.value_schema)
    return node


def _json(value: object, schema: Schema | None) -> Any:
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, int):
        return {"int": value}
    if isinstance(value, float):
        if isinstance(value, Float32) or (schema is not None and schema.type is Type.FLOAT32):
            return {"f32": float_text(value)}
        return {"f64": double_text(value)}
    if isinstance(value, decimal.Decimal):
        return {"dec": str(value)}
    if isinstance(value, datetime.datetime):
        return {"date": logical.to_ms(value)}
    if isinstance(value, bytes):
        return {"bytes": value.hex()}
    if isinstance(value, list):
        return {"list": [_json(element, schema and schema.value_schema) for element in value]}
    if isinstance(value, dict):
        return {
            "map": [
                [
                    _json(key, schema and schema.key_schema),
                    _json(member, schema and schema.value_schema),
                ]
                for key, member in value.items()
            ]
        }
    assert isinstance(value, Struct)
    return {
        "struct": [[field.name, _json(member, field.schema)] for field, member in value.items()]
    }
