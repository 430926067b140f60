"""Schemas of Connect data, and validation of values against them.

A value is a plain Python object; see `Type`. Without a schema, an `int` is Java's Long and a
`float` its Double (`java_numbers.Float32` is its Float). Java's logical types are recognised by the
schema's name; see `connect.data.logical`. Error texts are Java's, because users search for them.
Schemas are immutable; everything here may be used from any thread.
"""

from __future__ import annotations

import datetime
import decimal
import enum
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from connect.data.java_numbers import Float32
from connect.errors import DataError

__all__ = [
    "LOGICAL_TYPES",
    "Field",
    "Schema",
    "SchemaAndValue",
    "Type",
    "java_class",
    "type_of",
    "validate",
]


class Type(enum.Enum):
    """The schema types, each with the Python class of its values. `str()` gives Java's name."""

    INT8 = "int8"
    INT16 = "int16"
    INT32 = "int32"
    INT64 = "int64"
    FLOAT32 = "float32"
    FLOAT64 = "float64"
    BOOLEAN = "boolean"
    STRING = "string"
    BYTES = "bytes"
    ARRAY = "array"
    MAP = "map"
    STRUCT = "struct"

    def __str__(self) -> str:
        return self.name

    __hash__ = object.__hash__


INTEGER_BITS: Final[Mapping[Type, int]] = {
    Type.INT8: 8,
    Type.INT16: 16,
    Type.INT32: 32,
    Type.INT64: 64,
}
"""The size in bits of each signed integer type."""

_CLASSES: Final[Mapping[Type, type | tuple[type, ...]]] = {
    Type.INT8: int,
    Type.INT16: int,
    Type.INT32: int,
    Type.INT64: int,
    Type.FLOAT32: float,
    Type.FLOAT64: float,
    Type.BOOLEAN: bool,
    Type.STRING: str,
    Type.BYTES: (bytes, bytearray, memoryview),
    Type.ARRAY: (list, tuple),
    Type.MAP: dict,
}

_PLAIN_CLASSES: Final[Mapping[Type, type]] = {
    Type.FLOAT64: float,
    Type.BOOLEAN: bool,
    Type.STRING: str,
    Type.BYTES: bytes,
}

LOGICAL_TYPES: Final[Mapping[str, type]] = {
    "org.apache.kafka.connect.data.Decimal": decimal.Decimal,
    "org.apache.kafka.connect.data.Date": datetime.datetime,
    "org.apache.kafka.connect.data.Time": datetime.datetime,
    "org.apache.kafka.connect.data.Timestamp": datetime.datetime,
}
"""The Python class of each logical type, by schema name."""


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a struct; `index` is its position."""

    name: str
    index: int
    schema: Schema


class Schema:
    """The type of a value and its metadata. Equal and hashable by content.

    Structs have `fields`, maps a `key_schema`, and maps and arrays a `value_schema`. `default` None
    means no default. Use `schema_builder.SchemaBuilder`, or this constructor for plain types.
    """

    __slots__ = (
        "_by_name",
        "_hash",
        "default",
        "doc",
        "fields",
        "key_schema",
        "name",
        "optional",
        "parameters",
        "plain_class",
        "type",
        "value_schema",
        "version",
    )

    def __init__(
        self,
        type: Type,
        *,
        optional: bool = False,
        default: object = None,
        name: str | None = None,
        version: int | None = None,
        doc: str | None = None,
        parameters: Mapping[str, str] | None = None,
        fields: Iterable[tuple[str, Schema]] = (),
        key_schema: Schema | None = None,
        value_schema: Schema | None = None,
    ) -> None:
        self.type = type
        self.optional = optional
        self.default = default
        self.name = name
        self.version = version
        self.doc = doc
        self.parameters = dict(parameters) if parameters is not None else None
        self.fields = tuple(
            Field(field_name, index, schema) for index, (field_name, schema) in enumerate(fields)
        )
        self.key_schema = key_schema
        self.value_schema = value_schema
        self._by_name = {field.name: field for field in self.fields}
        self.plain_class = _PLAIN_CLASSES.get(type) if name is None else None
        """Every value of exactly this class is valid, and its own JSON payload. None: none is."""
        self._hash: int | None = None

    def field(self, name: str) -> Field | None:
        """Return the field of this name. Raises `DataError` if this is not a struct schema."""
        if self.type is not Type.STRUCT:
            raise DataError("Cannot look up fields on non-struct type")
        return self._by_name.get(name)

    def struct_fields(self) -> tuple[Field, ...]:
        """Return the fields. Raises `DataError` if this is not a struct schema."""
        if self.type is not Type.STRUCT:
            raise DataError("Cannot list fields on non-struct type")
        return self.fields

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, Schema) or hash(self) != hash(other):
            return False
        return (
            self.type is other.type
            and self.optional == other.optional
            and self.name == other.name
            and self.version == other.version
            and self.doc == other.doc
            and self.parameters == other.parameters
            and self.fields == other.fields
            and self.key_schema == other.key_schema
            and self.value_schema == other.value_schema
            and bool(self.default == other.default)
        )

    def __hash__(self) -> int:
        if self._hash is None:
            self._hash = hash(
                (
                    self.type,
                    self.optional,
                    self.name,
                    self.version,
                    self.doc,
                    self.fields,
                    self.key_schema,
                    self.value_schema,
                )
            )
        return self._hash

    def __repr__(self) -> str:
        return f"Schema{{{self.name}:{self.type}}}" if self.name else f"Schema{{{self.type}}}"


class SchemaAndValue(NamedTuple):
    """A value with its schema; None means that the value has no schema."""

    schema: Schema | None
    value: object


def validate(schema: Schema, value: object, location: str = "value") -> None:
    """Raise `DataError` if the value does not match the schema. `location` names it in errors."""
    if type(value) is schema.plain_class:
        return
    if value is None:
        if schema.optional:
            return
        raise DataError(
            f"Invalid value: null used for required {location}, schema type: {schema.type}"
        )
    if not _is_of(schema, value):
        name = f' "{schema.name}"' if schema.name is not None else ""
        raise DataError(
            f"Invalid Java object for schema{name} with type {schema.type}:"
            f" class {java_class(value)} for {location}"
        )
    kind = schema.type
    if kind is Type.STRUCT:
        from connect.data.struct import Struct

        assert isinstance(value, Struct)
        if value.schema != schema:
            raise DataError("Struct schemas do not match.")
        value.validate()
    elif kind is Type.ARRAY and isinstance(value, list | tuple):
        place = f"element of array {location}"
        of_elements = _needed(schema.value_schema, place)
        for element in value:
            validate(of_elements, element, place)
    elif kind is Type.MAP and isinstance(value, dict):
        of_keys = _needed(schema.key_schema, f"key of map {location}")
        of_values = _needed(schema.value_schema, f"value of map {location}")
        for key, member in value.items():
            validate(of_keys, key, f"key of map {location}")
            validate(of_values, member, f"value of map {location}")


def _needed(schema: Schema | None, location: str) -> Schema:
    if schema is None:
        raise DataError(f"No schema defined for {location}")
    return schema


def _is_of(schema: Schema, value: object) -> bool:
    logical = LOGICAL_TYPES.get(schema.name) if schema.name is not None else None
    if logical is not None:
        return isinstance(value, logical)
    kind = schema.type
    if kind is Type.STRUCT:
        from connect.data.struct import Struct

        return isinstance(value, Struct)
    if not isinstance(value, _CLASSES[kind]):
        return False
    bits = INTEGER_BITS.get(kind)
    if bits is None:
        return True
    assert isinstance(value, int)
    return not isinstance(value, bool) and -(1 << bits - 1) <= value < 1 << bits - 1


_TYPES_OF: Final[tuple[tuple[type | tuple[type, ...], Type], ...]] = (
    (str, Type.STRING),
    (bool, Type.BOOLEAN),
    (int, Type.INT64),
    (Float32, Type.FLOAT32),
    (float, Type.FLOAT64),
    ((bytes, bytearray, memoryview), Type.BYTES),
    ((list, tuple), Type.ARRAY),
    (dict, Type.MAP),
)


def type_of(value: object) -> Type | None:
    """Return the type of a value without a schema, or None if Connect has no type for its class."""
    for classes, kind in _TYPES_OF:
        if isinstance(value, classes):
            return kind
    from connect.data.struct import Struct

    return Type.STRUCT if isinstance(value, Struct) else None


_JAVA_CLASSES: Final[tuple[tuple[type | tuple[type, ...], str], ...]] = (
    (str, "java.lang.String"),
    (bool, "java.lang.Boolean"),
    (int, "java.lang.Long"),
    (Float32, "java.lang.Float"),
    (float, "java.lang.Double"),
    ((bytes, bytearray, memoryview), "[B"),
    ((list, tuple), "java.util.ArrayList"),
    (dict, "java.util.HashMap"),
    (decimal.Decimal, "java.math.BigDecimal"),
    (datetime.datetime, "java.util.Date"),
)


def java_class(value: object) -> str:
    """Return the Java class of such a value, for error texts."""
    for classes, name in _JAVA_CLASSES:
        if isinstance(value, classes):
            return name
    if type_of(value) is Type.STRUCT:
        return "org.apache.kafka.connect.data.Struct"
    return f"{type(value).__module__}.{type(value).__qualname__}"
