"""What source offsets a user may set for the mirror's connectors (KIP-875). Pure.

Fields besides the needed ones are tolerated, and so is the alias of another cluster.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeGuard

from connect.errors import ConnectError
from connect.plugin import OffsetValue, SourceOffset, SourcePartition

__all__ = ["check_checkpoint_offset", "check_heartbeat_offset", "check_source_offset"]

_CLUSTER, _GROUP, _TOPIC, _PARTITION = "cluster", "group", "topic", "partition"
_SOURCE_ALIAS, _TARGET_ALIAS = "sourceClusterAlias", "targetClusterAlias"
_OFFSET = "offset"
_INT_MAX = 2_147_483_647


def check_source_offset(partition: SourcePartition | None, offset: SourceOffset) -> None:
    """Of MirrorSourceConnector: an offset of a topic's partition. Raises `ConnectError`."""
    _check_number(_fields(partition, (_CLUSTER, _TOPIC)))
    value = _offset(offset)
    if value < 0:
        raise ConnectError(f"The offset {value} is negative: give one from 0 on")


def check_checkpoint_offset(partition: SourcePartition | None, offset: SourceOffset) -> None:
    """Of MirrorCheckpointConnector: a group's partition, always 0. Raises `ConnectError`."""
    _check_number(_fields(partition, (_GROUP, _TOPIC)))
    _check_zero(offset)


def check_heartbeat_offset(partition: SourcePartition | None, offset: SourceOffset) -> None:
    """Of MirrorHeartbeatConnector: always 0. Raises `ConnectError`."""
    _fields(partition, (_SOURCE_ALIAS, _TARGET_ALIAS))
    _check_zero(offset)


def _check_number(fields: SourcePartition) -> None:
    number = fields.get(_PARTITION)
    if not _is_integer(number) or not 0 <= number <= _INT_MAX:
        raise ConnectError(
            f"The value {number!r} of {_PARTITION} in the partition {dict(fields)} is not a"
            " partition's number: give an integer from 0 on"
        )


def _check_zero(offset: SourceOffset) -> None:
    value = _offset(offset)
    if value != 0:
        raise ConnectError(f"The offset {value} means nothing here: the only one there is is 0")


def _fields(partition: SourcePartition | None, names: Sequence[str]) -> SourcePartition:
    """The partition, when it has text in these fields."""
    if partition is None:
        raise ConnectError("The partition of an offset may not be null unless the offset is")
    for name in names:
        if not isinstance(partition.get(name), str):
            raise ConnectError(
                f"The partition {dict(partition)} needs the field {name}, a string; it has"
                f" {partition.get(name)!r}"
            )
    return partition


def _offset(offset: Mapping[str, OffsetValue]) -> int:
    value = offset.get(_OFFSET)
    if not _is_integer(value):
        raise ConnectError(
            f"The offset {dict(offset)} needs the field {_OFFSET}, an integer; it has {value!r}"
        )
    return value


def _is_integer(value: OffsetValue) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool)
