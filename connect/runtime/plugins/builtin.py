"""Kafka Connect's own converters, transformations, predicates and policies, by Java class name."""

from __future__ import annotations

from collections.abc import Iterator

from connect.data.converters.boolean import BooleanConverter
from connect.data.converters.byte_array import ByteArrayConverter
from connect.data.converters.double import DoubleConverter
from connect.data.converters.float import FloatConverter
from connect.data.converters.integer import IntegerConverter
from connect.data.converters.json import JsonConverter
from connect.data.converters.long import LongConverter
from connect.data.converters.short import ShortConverter
from connect.data.converters.simple_header import SimpleHeaderConverter
from connect.data.converters.string import StringConverter
from connect.data.predicates.has_header_key import HasHeaderKey
from connect.data.predicates.record_is_tombstone import RecordIsTombstone
from connect.data.predicates.topic_name_matches import TopicNameMatches
from connect.data.transforms.cast import CastKey, CastValue
from connect.data.transforms.drop_headers import DropHeaders
from connect.data.transforms.extract_field import ExtractFieldKey, ExtractFieldValue
from connect.data.transforms.filter import Filter
from connect.data.transforms.flatten import FlattenKey, FlattenValue
from connect.data.transforms.header_from import HeaderFromKey, HeaderFromValue
from connect.data.transforms.hoist_field import HoistFieldKey, HoistFieldValue
from connect.data.transforms.insert_field import InsertFieldKey, InsertFieldValue
from connect.data.transforms.insert_header import InsertHeader
from connect.data.transforms.mask_field import MaskFieldKey, MaskFieldValue
from connect.data.transforms.regex_router import RegexRouter
from connect.data.transforms.replace_field import ReplaceFieldKey, ReplaceFieldValue
from connect.data.transforms.set_schema_metadata import (
    SetSchemaMetadataKey,
    SetSchemaMetadataValue,
)
from connect.data.transforms.timestamp_converter import (
    TimestampConverterKey,
    TimestampConverterValue,
)
from connect.data.transforms.timestamp_router import TimestampRouter
from connect.data.transforms.value_to_key import ValueToKey
from connect.runtime.plugins.override_policy import (
    AllConnectorClientConfigOverridePolicy,
    AllowlistConnectorClientConfigOverridePolicy,
    NoneConnectorClientConfigOverridePolicy,
    PrincipalConnectorClientConfigOverridePolicy,
)

__all__ = ["builtin_plugins", "builtin_policies"]

_KAFKA = "org.apache.kafka.connect"

_CONVERTERS = (
    BooleanConverter,
    ByteArrayConverter,
    DoubleConverter,
    FloatConverter,
    IntegerConverter,
    LongConverter,
    ShortConverter,
)
_TRANSFORMATIONS = (
    DropHeaders,
    Filter,
    InsertHeader,
    RegexRouter,
    TimestampRouter,
    ValueToKey,
)
_OF_KEY_OR_VALUE = (
    (CastKey, CastValue),
    (ExtractFieldKey, ExtractFieldValue),
    (FlattenKey, FlattenValue),
    (HeaderFromKey, HeaderFromValue),
    (HoistFieldKey, HoistFieldValue),
    (InsertFieldKey, InsertFieldValue),
    (MaskFieldKey, MaskFieldValue),
    (ReplaceFieldKey, ReplaceFieldValue),
    (SetSchemaMetadataKey, SetSchemaMetadataValue),
    (TimestampConverterKey, TimestampConverterValue),
)
_PREDICATES = (HasHeaderKey, RecordIsTombstone, TopicNameMatches)
_POLICIES = (
    AllConnectorClientConfigOverridePolicy,
    AllowlistConnectorClientConfigOverridePolicy,
    NoneConnectorClientConfigOverridePolicy,
    PrincipalConnectorClientConfigOverridePolicy,
)


def builtin_plugins() -> Iterator[tuple[type, str]]:
    """Yield each class with the Java class it replaces."""
    for converter in _CONVERTERS:
        yield converter, f"{_KAFKA}.converters.{converter.__name__}"
    yield JsonConverter, f"{_KAFKA}.json.JsonConverter"
    yield SimpleHeaderConverter, f"{_KAFKA}.storage.SimpleHeaderConverter"
    yield StringConverter, f"{_KAFKA}.storage.StringConverter"
    for transformation in _TRANSFORMATIONS:
        yield transformation, f"{_KAFKA}.transforms.{transformation.__name__}"
    for of_key, of_value in _OF_KEY_OR_VALUE:
        name = of_key.__name__.removesuffix("Key")
        yield of_key, f"{_KAFKA}.transforms.{name}$Key"
        yield of_value, f"{_KAFKA}.transforms.{name}$Value"
    for predicate in _PREDICATES:
        yield predicate, f"{_KAFKA}.transforms.predicates.{predicate.__name__}"


def builtin_policies() -> Iterator[tuple[type, str]]:
    """Yield each client override policy with the Java class it replaces."""
    for policy in _POLICIES:
        yield policy, f"{_KAFKA}.connector.policy.{policy.__name__}"
