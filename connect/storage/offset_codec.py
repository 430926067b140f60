"""The bytes of stored source offsets: key `["<connector>",{partition}]`, value `{offset}`.

Keys are compared by their bytes, so the field order of a partition matters. Pure functions.
"""

from __future__ import annotations

from collections.abc import Mapping

from connect.data import json_codec
from connect.errors import ConnectError, CorruptData
from connect.plugin import OffsetValue, SourceOffset, SourcePartition

__all__ = ["decode_key", "decode_value", "encode_key", "encode_value"]


def encode_key(connector: str, partition: SourcePartition) -> bytes:
    """Return the record key of a connector's source partition."""
    return json_codec.encode([connector, _primitives(partition, "source partition")])


def encode_value(offset: SourceOffset | None) -> bytes | None:
    """Return the record value of a source offset; None deletes it."""
    if offset is None:
        return None
    return json_codec.encode(_primitives(offset, "source offset"))


def decode_key(key: bytes) -> tuple[str, SourcePartition] | None:
    """Return the connector and source partition of a record key, or None for an invalid key."""
    try:
        value = json_codec.decode(key)
    except CorruptData:
        return None
    if not isinstance(value, list) or len(value) != 2:
        return None
    connector, partition = value
    if not isinstance(connector, str) or not isinstance(partition, dict):
        return None
    return connector, partition


def decode_value(value: bytes | None) -> SourceOffset | None:
    """Return the source offset of a record value. Raises `CorruptData` if it is not a JSON
    object.
    """
    if value is None:
        return None
    decoded = json_codec.decode(value)
    if decoded is not None and not isinstance(decoded, dict):
        raise CorruptData(f"A source offset must be a JSON object, not {type(decoded).__name__}")
    return decoded


def _primitives(values: Mapping[str, OffsetValue], what: str) -> Mapping[str, OffsetValue]:
    for name, value in values.items():
        if not isinstance(name, str):
            raise ConnectError(f"A {what} must have strings as field names, not {name!r}")
        if value is not None and not isinstance(value, str | int | float | bool):
            raise ConnectError(
                f"Field {name} of a {what} is a {type(value).__name__}; use a string, number,"
                f" boolean or null"
            )
    return values
