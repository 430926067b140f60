"""Convert schemas to JSON and back like Kafka's JsonConverter. Pure functions.

    {"type":..., ("items" | "keys","values" | "fields"), "optional":..., "name":..., "version":...,
     "doc":..., "parameters":..., "default":...}

in this order; a field of a struct has its name at the end, as "field".
"""

from __future__ import annotations

from typing import Final

from connect.data.json_codec import JsonValue
from connect.data.json_values import JsonOptions, from_json, to_json
from connect.data.schema import Schema, Type
from connect.data.schema_builder import SchemaBuilder
from connect.errors import DataError

__all__ = ["schema_from_json", "schema_to_json"]

# Types whose JSON name differs from their own.
_NAMES: Final = {Type.FLOAT32: "float", Type.FLOAT64: "double"}
_TYPES: Final = {_NAMES.get(kind, kind.value): kind for kind in Type}


def schema_to_json(schema: Schema | None, options: JsonOptions) -> JsonValue:
    """Return a schema as a JSON object, or null for None."""
    return None if schema is None else _object(schema, options)


def _object(schema: Schema, options: JsonOptions) -> dict[str, JsonValue]:
    kind = schema.type
    json: dict[str, JsonValue] = {"type": _NAMES.get(kind, kind.value)}
    if kind is Type.ARRAY:
        json["items"] = schema_to_json(schema.value_schema, options)
    elif kind is Type.MAP:
        json["keys"] = schema_to_json(schema.key_schema, options)
        json["values"] = schema_to_json(schema.value_schema, options)
    elif kind is Type.STRUCT:
        json["fields"] = [
            {**_object(field.schema, options), "field": field.name} for field in schema.fields
        ]
    json["optional"] = schema.optional
    for name, value in (("name", schema.name), ("version", schema.version), ("doc", schema.doc)):
        if value is not None:
            json[name] = value
    if schema.parameters is not None:
        json["parameters"] = dict(schema.parameters)
    if schema.default is not None:
        json["default"] = to_json(schema, schema.default, options)
    return json


def schema_from_json(json: JsonValue, options: JsonOptions) -> Schema | None:
    """Return the schema of a JSON object, or None for null. Raises `DataError`."""
    if json is None:
        return None
    kind = json.get("type") if isinstance(json, dict) else None
    if not isinstance(json, dict) or not isinstance(kind, str):
        raise DataError("Schema must contain 'type' field")
    builder = _builder(kind, json, options)
    builder.optional(json.get("optional") is True)
    name, version, doc = json.get("name"), json.get("version"), json.get("doc")
    if isinstance(name, str):
        builder.name(name)
    if isinstance(version, int) and not isinstance(version, bool):
        builder.version(version)
    if isinstance(doc, str):
        builder.doc(doc)
    builder.parameters(_parameters(json.get("parameters")))
    if "default" in json:
        default = from_json(builder.build(), json["default"], options)
        if default is not None:
            builder.default(default)
    return builder.build()


def _builder(kind: str, json: dict[str, JsonValue], options: JsonOptions) -> SchemaBuilder:
    if kind == "array":
        if json.get("items") is None:
            raise DataError("Array schema did not specify the element type")
        return SchemaBuilder.array(schema_from_json(json["items"], options))
    if kind == "map":
        for part, what in (("keys", "key"), ("values", "value")):
            if part not in json:
                raise DataError(f"Map schema did not specify the {what} type")
        keys = schema_from_json(json["keys"], options)
        return SchemaBuilder.map(keys, schema_from_json(json["values"], options))
    if kind == "struct":
        return _struct_builder(json.get("fields"), options)
    known = _TYPES.get(kind)
    if known is None:
        raise DataError(f"Unknown schema type: {kind}")
    return SchemaBuilder(known)


def _struct_builder(fields: JsonValue, options: JsonOptions) -> SchemaBuilder:
    if not isinstance(fields, list):
        raise DataError('Struct schema\'s "fields" argument is not an array.')
    builder = SchemaBuilder.struct()
    for field in fields:
        name = field.get("field") if isinstance(field, dict) else None
        if not isinstance(name, str):
            raise DataError("Struct schema's field name not specified properly")
        schema = schema_from_json(field, options)
        assert schema is not None
        builder.field(name, schema)
    return builder


def _parameters(json: JsonValue) -> dict[str, str]:
    parameters = {}
    for name, value in json.items() if isinstance(json, dict) else ():
        if not isinstance(value, str):
            raise DataError("Schema parameters must have string values.")
        parameters[name] = value
    return parameters
