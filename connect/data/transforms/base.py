"""Interfaces of transformations and predicates, and the common part of Kafka's."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import ClassVar, TypeVar

from connect.config.definition import ConfigDef, ConfigKey, ConfigType, ParsedConfig
from connect.data.converters.base import ConverterUse
from connect.data.record import ConnectRecord
from connect.data.schema import Schema, java_class
from connect.data.struct import Struct
from connect.errors import DataError

__all__ = [
    "ALL_PARTS",
    "REPLACE_NULL_WITH_DEFAULT",
    "OnFields",
    "OnKey",
    "OnPart",
    "OnValue",
    "Predicate",
    "R",
    "SchemaCache",
    "Transformation",
    "replace_null_key",
    "require_map",
    "require_struct",
]

R = TypeVar("R", bound=ConnectRecord)

REPLACE_NULL_WITH_DEFAULT = "replace.null.with.default"


def replace_null_key() -> ConfigKey:
    """Return the `replace.null.with.default` key that many transformations share."""
    return ConfigKey(
        REPLACE_NULL_WITH_DEFAULT,
        ConfigType.BOOLEAN,
        True,
        doc="Whether a null field with a default is treated as the default.",
    )


ALL_PARTS: frozenset[ConverterUse] = frozenset({"key", "value", "header"})


class _Configured:
    """A configurable plugin. Created without arguments and configured once; used by one task's
    thread.
    """

    CONFIG_DEF = ConfigDef([])

    PARTS: ClassVar[frozenset[ConverterUse]] = ALL_PARTS
    """The parts of a record that it reads or changes. The mirror need not convert the others. Not
    inherited: a subclass that does not set it has all parts."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if "PARTS" not in vars(cls):
            cls.PARTS = ALL_PARTS

    @classmethod
    def config_def(cls) -> ConfigDef:
        """Return the config keys without the `transforms.<alias>.` or `predicates.<alias>.`
        prefix.
        """
        return cls.CONFIG_DEF

    def configure(self, props: Mapping[str, str]) -> None:
        """Accept the properties, without the prefix. Raises `ConfigError`."""
        self.take(self.config_def().parse(props))

    def take(self, config: ParsedConfig) -> None:
        """Accept the parsed values. Raises `ConfigError` for values that contradict one another."""

    def close(self) -> None:
        """Release resources. Called once, when the task ends."""


class Transformation(_Configured, ABC):
    """Changes records one by one, or drops them."""

    ROUTES_ONLY: ClassVar[bool] = False
    """Whether it changes nothing but the topic of a record."""

    def topic_for(self, topic: str) -> str | None:
        """Return the topic to which records of `topic` go; None: each record decides.

        Connectors that copy topic by topic, such as the mirror's, create this topic and expect it
        of every record. A transformation that changes topics overrides it.
        """
        return topic

    @abstractmethod
    def apply(self, record: R) -> R | None:
        """Return the changed record, or None to drop it. The input is not changed.

        Raises `ConnectError` (mostly `DataError`) if it cannot handle the record.
        """


class Predicate(_Configured, ABC):
    """Decides which records a transformation applies to."""

    @abstractmethod
    def test(self, record: ConnectRecord) -> bool: ...

    def test_topic(self, topic: str) -> bool | None:
        """Return the answer for every record of this topic; None: each record decides."""
        return None


class OnPart(Transformation):
    """A transformation of the record key or value; a subclass selects which."""

    def part(self, record: ConnectRecord) -> object:
        """Return the key or the value."""
        raise NotImplementedError

    def part_schema(self, record: ConnectRecord) -> Schema | None:
        raise NotImplementedError

    def with_part(self, record: R, schema: Schema | None, part: object) -> R:
        raise NotImplementedError


class OnKey(OnPart):
    """Applies a transformation to the record key (`$Key`)."""

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


class OnFields(OnPart):
    """A transformation of the fields of a map or struct. A key or value that is null stays."""

    PURPOSE: ClassVar[str]
    """Its name in errors."""

    def apply(self, record: R) -> R | None:
        value = self.part(record)
        if value is None:
            return record
        if self.part_schema(record) is None:
            return self.schemaless(record, require_map(value, self.PURPOSE))
        return self.with_schema(record, require_struct(value, self.PURPOSE))

    @abstractmethod
    def schemaless(self, record: R, value: dict[str, object]) -> R:
        """Return the record with the transformed map."""

    @abstractmethod
    def with_schema(self, record: R, value: Struct) -> R:
        """Return the record with the transformed struct."""


class SchemaCache:
    """A cache of the newest schemas derived from other schemas, as large as in Java."""

    _SIZE = 16

    def __init__(self, make: Callable[[Schema], Schema]) -> None:
        self._make = make
        self._made: OrderedDict[Schema, Schema] = OrderedDict()
        self._last: tuple[Schema, Schema] | tuple[None, None] = (None, None)

    def get(self, source: Schema) -> Schema:
        last, made_last = self._last
        if made_last is not None and last is source:
            return made_last
        made = self._made.get(source)
        if made is None:
            made = self._make(source)
            self._made[source] = made
            if len(self._made) > self._SIZE:
                self._made.popitem(last=False)
        else:
            self._made.move_to_end(source)
        self._last = (source, made)
        return made


def require_map(value: object, purpose: str) -> dict[str, object]:
    """Return the value if it is a map. Raises `DataError` otherwise."""
    if isinstance(value, dict):
        return value
    raise DataError(
        f"Only Map objects supported in absence of schema for [{purpose}], found: {_class(value)}"
    )


def require_struct(value: object, purpose: str) -> Struct:
    """Return the value if it is a struct. Raises `DataError` otherwise."""
    if isinstance(value, Struct):
        return value
    raise DataError(f"Only Struct objects supported for [{purpose}], found: {_class(value)}")


def _class(value: object) -> str:
    return "null" if value is None else java_class(value)
