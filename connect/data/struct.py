"""A value with named fields, as its schema says."""

from __future__ import annotations

from collections.abc import Iterator

from connect.data.schema import Field, Schema, Type, validate
from connect.errors import DataError

__all__ = ["Struct"]


class Struct:
    """The values of the fields of one struct schema. Not safe to change from several threads.

    Every value is checked when it is put. A field that was not put is null.
    """

    __slots__ = ("_values", "schema")

    def __init__(self, schema: Schema, **values: object) -> None:
        """`values` are put one by one. Raises `DataError`."""
        if schema.type is not Type.STRUCT:
            raise DataError(f"Not a struct schema: {schema}")
        self.schema = schema
        self._values: list[object] = [None] * len(schema.fields)
        for name, value in values.items():
            self.put(name, value)

    def get(self, name: str) -> object:
        """A field's value, or its default where it is null. Raises `DataError`: no such field."""
        field = self._field(name)
        value = self._values[field.index]
        return field.schema.default if value is None else value

    def get_without_default(self, name: str) -> object:
        """A field's value as it was put. Raises `DataError` when there is no such field."""
        return self._values[self._field(name).index]

    def value_of(self, name: str, *, with_default: bool) -> object:
        """`get` or `get_without_default`."""
        return self.get(name) if with_default else self.get_without_default(name)

    def put(self, name: str, value: object) -> Struct:
        """Set a field. Raises `DataError` for an unknown field or a value that does not fit."""
        field = self._field(name)
        validate(field.schema, value, f'field: "{name}"')
        self._values[field.index] = value
        return self

    def validate(self) -> None:
        """Raise `DataError` when a required field without default is null, or a value is wrong."""
        for field, value in self.items():
            schema = field.schema
            if value is None and (schema.optional or schema.default is not None):
                continue
            validate(schema, value, f'field: "{field.name}"')

    def items(self) -> Iterator[tuple[Field, object]]:
        """The fields in their order and their values, without defaults."""
        return zip(self.schema.fields, self._values, strict=True)

    def _field(self, name: str) -> Field:
        field = self.schema.field(name)
        if field is None:
            raise DataError(f"{name} is not a valid field name")
        return field

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Struct):
            return NotImplemented
        return self.schema == other.schema and self._values == other._values

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        shown = (f"{field.name}={value}" for field, value in self.items() if value is not None)
        return f"Struct{{{','.join(shown)}}}"
