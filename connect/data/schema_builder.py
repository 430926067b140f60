"""A builder of schemas with Java's checks, and the primitive schemas as constants."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from connect.data.schema import Schema, Type, validate
from connect.errors import DataError

__all__ = ["OPTIONAL", "REQUIRED", "SchemaBuilder", "copy_basics"]

_PLAIN = [kind for kind in Type if kind not in (Type.ARRAY, Type.MAP, Type.STRUCT)]

REQUIRED: Final[Mapping[Type, Schema]] = {kind: Schema(kind) for kind in _PLAIN}
"""Primitive schemas whose values may not be null."""
OPTIONAL: Final[Mapping[Type, Schema]] = {kind: Schema(kind, optional=True) for kind in _PLAIN}
"""Primitive schemas whose values may be null."""


class SchemaBuilder:
    """Builds a schema; each property is set once. Used by one thread; methods chain.

    Raises `DataError` for contradictory properties.
    """

    def __init__(self, kind: Type) -> None:
        self.type = kind
        self._optional: bool | None = None
        self._default: object = None
        self._name: str | None = None
        self._version: int | None = None
        self._doc: str | None = None
        self._parameters: dict[str, str] | None = None
        self._fields: dict[str, Schema] = {}
        self._key_schema: Schema | None = None
        self._value_schema: Schema | None = None

    @classmethod
    def array(cls, value_schema: Schema | None) -> SchemaBuilder:
        """Build an array of values of this schema. None: the element schema is unknown."""
        builder = cls(Type.ARRAY)
        builder._value_schema = value_schema
        return builder

    @classmethod
    def map(cls, key_schema: Schema | None, value_schema: Schema | None) -> SchemaBuilder:
        builder = cls(Type.MAP)
        builder._key_schema = key_schema
        builder._value_schema = value_schema
        return builder

    @classmethod
    def struct(cls) -> SchemaBuilder:
        return cls(Type.STRUCT)

    def optional(self, optional: bool = True) -> SchemaBuilder:
        _can_set("optional", self._optional, optional)
        self._optional = optional
        return self

    def default(self, value: object) -> SchemaBuilder:
        """Set the default value. Raises `DataError` if it does not match the schema so far."""
        if self._default is not None and self._default is not value:
            _can_set("default", self._default, value)
        try:
            validate(self.build(), value)
        except DataError as error:
            raise DataError("Invalid default value") from error
        self._default = value
        return self

    def name(self, name: str | None) -> SchemaBuilder:
        _can_set("name", self._name, name)
        self._name = name
        return self

    def version(self, version: int | None) -> SchemaBuilder:
        _can_set("version", self._version, version)
        self._version = version
        return self

    def doc(self, doc: str | None) -> SchemaBuilder:
        _can_set("doc", self._doc, doc)
        self._doc = doc
        return self

    def parameters(self, parameters: Mapping[str, str]) -> SchemaBuilder:
        if parameters:
            self._parameters = {**(self._parameters or {}), **parameters}
        return self

    def field(self, name: str, schema: Schema) -> SchemaBuilder:
        if self.type is not Type.STRUCT:
            raise DataError(f"Cannot create fields on type {self.type}")
        if not name:
            raise DataError("fieldName cannot be null.")
        if name in self._fields:
            raise DataError(f"Cannot create field because of field name duplication {name}")
        self._fields[name] = schema
        return self

    def build(self) -> Schema:
        return Schema(
            self.type,
            optional=bool(self._optional),
            default=self._default,
            name=self._name,
            version=self._version,
            doc=self._doc,
            parameters=self._parameters,
            fields=self._fields.items(),
            key_schema=self._key_schema,
            value_schema=self._value_schema,
        )


def _can_set(what: str, old: object, new: object) -> None:
    if old is not None and old != new:
        raise DataError(f"Invalid SchemaBuilder call: {what} has already been set.")


def copy_basics(source: Schema, builder: SchemaBuilder | None = None) -> SchemaBuilder:
    """Copy name, version, doc and parameters of a schema to `builder`, or to a new one of its
    type.
    """
    if builder is None:
        if source.type is Type.ARRAY:
            builder = SchemaBuilder.array(source.value_schema)
        else:
            builder = SchemaBuilder(source.type)
    builder.name(source.name).version(source.version).doc(source.doc)
    return builder.parameters(source.parameters or {})
