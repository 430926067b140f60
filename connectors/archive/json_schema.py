"""The Spark type of values that a JSON Schema describes. Pure.

A part of the schema that has no Spark type (alternatives, `enum` without a type, objects without
properties) becomes a string, which then holds the value's JSON text.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyspark  # noqa: F401 - before its parts
from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DataType,
    DoubleType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
)

from connect.errors import ConfigError

__all__ = ["struct_of"]

_SIMPLE: Mapping[str, DataType] = {
    "string": StringType(),
    "integer": LongType(),
    "number": DoubleType(),
    "boolean": BooleanType(),
}
_LOCAL = "#/"


def struct_of(schema: object, where: str) -> StructType:
    """Return the type of objects with this schema. `where`: the file, for errors. Raises
    `ConfigError` for what does not describe objects with properties."""
    found = _Reader(schema).type_of(schema, frozenset())
    if not isinstance(found, StructType):
        raise ConfigError(
            f"{where} is not the JSON Schema of objects: name its fields under `properties`, or "
            "give an Avro schema in a file whose name ends with .avsc"
        )
    _check_names(found, where)
    return found


class _Reader:
    def __init__(self, root: object) -> None:
        self._root = root

    def type_of(self, schema: object, within: frozenset[str]) -> DataType:
        """`within`: the references around this part, because a type cannot hold itself."""
        if not isinstance(schema, Mapping):
            return StringType()
        reference = schema.get("$ref")
        if isinstance(reference, str):
            if reference in within:
                return StringType()
            return self.type_of(self._named(reference), within | {reference})
        for key in ("anyOf", "oneOf"):
            choices = [each for each in schema.get(key, ()) if each != {"type": "null"}]
            if key in schema:
                return self.type_of(choices[0], within) if len(choices) == 1 else StringType()
        kinds = schema.get("type")
        kinds = [kinds] if isinstance(kinds, str) else list(kinds or ())
        kinds = [each for each in kinds if each != "null"]
        if sorted(kinds) == ["integer", "number"]:
            return DoubleType()
        if len(kinds) > 1:
            return StringType()
        kind = kinds[0] if kinds else "object" if "properties" in schema else ""
        if kind == "array":
            return ArrayType(self.type_of(schema.get("items"), within))
        if kind == "object":
            return self._object(schema, within)
        return _SIMPLE.get(kind, StringType())

    def _object(self, schema: Mapping[str, Any], within: frozenset[str]) -> DataType:
        properties = schema.get("properties")
        if isinstance(properties, Mapping) and properties:
            return StructType(
                [StructField(name, self.type_of(each, within)) for name, each in properties.items()]
            )
        others = schema.get("additionalProperties")
        if isinstance(others, Mapping):
            return MapType(StringType(), self.type_of(others, within))
        return StringType()

    def _named(self, reference: str) -> object:
        """Return the part of the schema that a reference within it names."""
        found: object = self._root if reference.startswith(_LOCAL) else None
        for step in reference.removeprefix(_LOCAL).split("/"):
            key = step.replace("~1", "/").replace("~0", "~")
            found = found.get(key) if isinstance(found, Mapping) else None
        return found


def _check_names(found: StructType, where: str) -> None:
    """Raise for fields that Spark, which ignores case, takes for one."""
    seen: dict[str, str] = {}
    for field in found.fields:
        other = seen.setdefault(field.name.lower(), field.name)
        if other != field.name:
            raise ConfigError(
                f"{where}: the properties {other} and {field.name} differ only in case, which "
                "Spark ignores: leave one of them out"
            )
        inner = field.dataType
        while isinstance(inner, ArrayType):
            inner = inner.elementType
        if isinstance(inner, StructType):
            _check_names(inner, where)
