"""What a transformation and a predicate do, and what most of Kafka's have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import TypeVar

from connect.config.definition import ConfigDef, ConfigKey, ConfigType, ParsedConfig
from connect.data.record import ConnectRecord
from connect.data.schema import Schema, java_class
from connect.data.struct import Struct
from connect.errors import DataError

__all__ = [
    "REPLACE_NULL_WITH_DEFAULT",
    "OnKey",
    "OnPart",
    "OnValue",
    "Predicate",
    "SchemaCache",
    "Transformation",
    "replace_null_key",
    "require_map",
    "require_struct",
]

R = TypeVar("R", bound=ConnectRecord)

REPLACE_NULL_WITH_DEFAULT = "replace.null.with.default"


def replace_null_key() -> ConfigKey:
    """The key that many transformations have: whether a null field counts as its default."""
    return ConfigKey(
        REPLACE_NULL_WITH_DEFAULT,
        ConfigType.BOOLEAN,
        True,
        doc="Whether a field that is null and has a default counts as the default, or as null.",
    )


class _Configured:
    """Made without arguments, then configured once; afterwards used by one task's thread only."""

    CONFIG_DEF = ConfigDef([])

    @classmethod
    def config_def(cls) -> ConfigDef:
        """Its own keys, without the `transforms.<alias>.` or `predicates.<alias>.`."""
        return cls.CONFIG_DEF

    def configure(self, props: Mapping[str, str]) -> None:
        """Take its properties, prefix stripped. Raises `ConfigError`."""
        self.take(self.config_def().parse(props))

    def take(self, config: ParsedConfig) -> None:
        """Take the checked values. Raises `ConfigError` for what is wrong between them."""

    def close(self) -> None:
        """Called once, when the task ends."""


class Transformation(_Configured, ABC):
    """Changes records one by one, or drops them."""

    @abstractmethod
    def apply(self, record: R) -> R | None:
        """The record to go on with; None drops it. The record given is not changed.

        Raises `ConnectError` (mostly `DataError`) when it cannot take the record.
        """


class Predicate(_Configured, ABC):
    """Decides which records a transformation is for."""

    @abstractmethod
    def test(self, record: ConnectRecord) -> bool: ...


class OnPart(Transformation):
    """A transformation of the key or of the value: which one, its two subclasses say."""

    def part(self, record: ConnectRecord) -> object:
        """The key or the value."""
        raise NotImplementedError

    def part_schema(self, record: ConnectRecord) -> Schema | None:
        raise NotImplementedError

    def with_part(self, record: R, schema: Schema | None, part: object) -> R:
        raise NotImplementedError


class OnKey(OnPart):
    """The key."""

    def part(self, record: ConnectRecord) -> object:
        return record.key

    def part_schema(self, record: ConnectRecord) -> Schema | None:
        return record.key_schema

    def with_part(self, record: R, schema: Schema | None, part: object) -> R:
        return record.with_key(schema, part)


class OnValue(OnPart):
    """Applies a transformation to the record value (`$Value`)."""

    def part(self, record: ConnectRecord) -> object:
        return record.value

    def part_schema(self, record: ConnectRecord) -> Schema | None:
        return record.value_schema

    def with_part(self, record: R, schema: Schema | None, part: object) -> R:
        return record.with_value(schema, part)


class SchemaCache:
    """The last schemas that were made from others; as many as in Java."""

    _SIZE = 16

    def __init__(self, make: Callable[[Schema], Schema]) -> None:
        self._make = make
        self._made: OrderedDict[Schema, Schema] = OrderedDict()

    def get(self, source: Schema) -> Schema:
        made = self._made.get(source)
        if made is None:
            made = self._make(source)
            self._made[source] = made
            if len(self._made) > self._SIZE:
                self._made.popitem(last=False)
        else:
            self._made.move_to_end(source)
        return made


def require_map(value: object, purpose: str) -> dict[str, object]:
    """The value, when it is a map. Raises `DataError`."""
    if isinstance(value, dict):
        return value
    raise DataError(
        f"Only Map objects supported in absence of schema for [{purpose}], found: {_class(value)}"
    )


def require_struct(value: object, purpose: str) -> Struct:
    """The value, when it is a struct. Raises `DataError`."""
    if isinstance(value, Struct):
        return value
    raise DataError(f"Only Struct objects supported for [{purpose}], found: {_class(value)}")


def _class(value: object) -> str:
    return "null" if value is None else java_class(value)
