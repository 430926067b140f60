"""JSON Schemas as Spark's types."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from connect.errors import ConfigError
from connectors.archive.json_schema import struct_of
from connectors.archive.unpacking import read_schema


def types(properties: object, **more: object) -> dict[str, str]:
    struct = struct_of({"type": "object", "properties": properties, **more}, "file.json")
    return {field.name: field.dataType.simpleString() for field in struct.fields}


def test_simple_values_have_spark_s_types() -> None:
    assert types(
        {
            "a": {"type": "string", "format": "date-time"},
            "b": {"type": "integer"},
            "c": {"type": "number"},
            "d": {"type": "boolean"},
            "e": {"type": ["integer", "null"]},
            "f": {"type": ["integer", "number"]},
        }
    ) == {"a": "string", "b": "bigint", "c": "double", "d": "boolean", "e": "bigint", "f": "double"}


def test_objects_arrays_and_maps_nest() -> None:
    inner = {"type": "object", "properties": {"x": {"type": "integer"}}}
    assert types(
        {
            "one": inner,
            "many": {"type": "array", "items": inner},
            "named": {"type": "object", "additionalProperties": {"type": "number"}},
        }
    ) == {
        "one": "struct<x:bigint>",
        "many": "array<struct<x:bigint>>",
        "named": "map<string,double>",
    }


def test_references_into_the_schema_are_followed() -> None:
    node = {
        "type": "object",
        "properties": {"n": {"type": "integer"}, "next": {"$ref": "#/$defs/node"}},
    }
    assert types({"first": {"$ref": "#/$defs/node"}}, **{"$defs": {"node": node}}) == {
        "first": "struct<n:bigint,next:string>"
    }


@pytest.mark.parametrize(
    "schema",
    [
        {"type": ["string", "integer"]},
        {"enum": ["a", 1]},
        {"oneOf": [{"type": "string"}, {"type": "integer"}]},
        {"type": "object"},
        {"$ref": "https://example.org/other.json"},
        True,
        {},
    ],
)
def test_what_has_no_type_of_spark_is_kept_as_text(schema: object) -> None:
    assert types({"a": schema}) == {"a": "string"}


def test_a_choice_with_null_is_the_other_one() -> None:
    assert types({"a": {"anyOf": [{"type": "null"}, {"type": "integer"}]}}) == {"a": "bigint"}


@pytest.mark.parametrize("schema", [{"type": "string"}, {"type": "object"}, [1], {}])
def test_a_schema_of_something_else_than_objects_is_refused(schema: object) -> None:
    with pytest.raises(ConfigError, match=r"file\.json is not the JSON Schema of objects"):
        struct_of(schema, "file.json")


def test_names_that_spark_takes_for_one_are_refused() -> None:
    with pytest.raises(ConfigError, match="id and ID differ only in case"):
        types({"one": {"properties": {"id": {}, "ID": {}}}})


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"Cannot read .*none\.avsc"):
        read_schema(tmp_path / "none.avsc")
    (tmp_path / "text.json").write_text("type: object")
    with pytest.raises(ConfigError, match=r"text\.json is not JSON"):
        read_schema(tmp_path / "text.json")
    (tmp_path / "fine.avsc").write_text(json.dumps("string"))
    assert read_schema(tmp_path / "fine.avsc").needs_avro
