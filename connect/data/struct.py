"""A struct: a value with the named fields of its schema."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from connect.data.schema import Field, Schema, Type, validate
from connect.errors import DataError

__all__ = ["Struct"]


class Struct:
    """The field values of one struct schema. Not thread-safe.

    Each value is validated when it is put. A field without a value is null.
    """

    __slots__ = ("_values", "schema")

    def __init__(self, schema: Schema, **values: object) -> None:
        """Create a struct and put `values` one by one. Raises `DataError`."""
        if schema.type is not Type.STRUCT:
            raise DataError(f"Not a struct schema: {schema}")
        self.schema = schema
        self._values: list[object] = [None] * len(schema.fields)
        for name, value in values.items():
            self.put(name, value)

    def get(self, name: str) -> object:
        """Return a field's value, or its default if it is null. Raises `DataError` for unknown
        fields.
        """
        field = self._field(name)
        value = self._values[field.index]
        return field.schema.default if value is None else value

    def get_without_default(self, name: str) -> object:
        """Return a field's value without its default. Raises `DataError` for unknown fields."""
        return self._values[self._field(name).index]

    def value_of(self, name: str, *, with_default: bool) -> object:
        """Return a field's value, with or without its default."""
        return self.get(name) if with_default else self.get_without_default(name)

    def put(self, name: str, value: object) -> Struct:
        """Set a field. Raises `DataError` for an unknown field or an invalid value."""
        field = self._field(name)
        validate(field.schema, value, f'field: "{name}"')
        self._values[field.index] = value
        return self

    def extended(
        self, schema: Schema, added: Sequence[object] = (), *, with_default: bool
    ) -> Struct:
        """Return a struct with the same values. The first fields of its schema are this one's;
        `added`: valid values of the next ones. Raises `DataError` if a required field of this one
        has no value."""
        made = Struct(schema)
        values = self._values
        taken = len(values) + len(added)
        made._values = [*values, *added, *made._values[taken:]]
        if None in values:
            for field, value in self.items():
                if value is None:
                    made.put(field.name, self.value_of(field.name, with_default=with_default))
        return made

    def validate(self) -> None:
        """Raise `DataError` if a required field without default is null, or a value is invalid."""
        for field, value in self.items():
            schema = field.schema
            if value is None and (schema.optional or schema.default is not None):
                continue
            validate(schema, value, f'field: "{field.name}"')

    def items(self) -> Iterator[tuple[Field, object]]:
        """Yield the fields in order with their values, without defaults."""
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
