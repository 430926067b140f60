"""The source offsets of the mirror's connectors: those of partitions, and the checks of those that
a user sets (KIP-875). Pure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, TypeGuard

from connect.errors import ConnectError
from connect.plugin import OffsetValue, SourceOffset, SourcePartition
from connect.protocol.messages import TopicPartition
from connectors.mirror.offsets.log_identity import LogIdentity

__all__ = [
    "Reached",
    "check_checkpoint_offset",
    "check_heartbeat_offset",
    "check_source_offset",
    "position_after",
    "source_partition",
]

_CLUSTER, _GROUP, _TOPIC, _PARTITION = "cluster", "group", "topic", "partition"
_SOURCE_ALIAS, _TARGET_ALIAS = "sourceClusterAlias", "targetClusterAlias"
_OFFSET = "offset"
_INT_MAX = 2_147_483_647


class Reached(NamedTuple):
    """Progress of a partition: every record of `source` before `position` is on the target or needs
    no copying. `log_start`: the source's log start offset; -1: not known. `facts`: facts about both
    logs, stored for the next start."""

    source: TopicPartition
    position: int
    log_start: int
    facts: LogIdentity | None = None


def source_partition(alias: str, key: TopicPartition) -> dict[str, str | int]:
    """Return the key under which a partition's source offset is stored. `alias`: the source
    cluster's."""
    # Java's key order, because it determines the bytes of the stored key.
    return {"cluster": alias, "partition": key[1], "topic": key[0]}


def position_after(offset: SourceOffset | None) -> int | None:
    """Return where to continue after a stored offset; None if there is none.

    -1 stands for position 0. It is stored only when a loss moved a partition back to the beginning:
    Java's task then starts where auto.offset.reset says."""
    if offset is None:
        return None
    stored = offset.get("offset")
    if not isinstance(stored, int) or stored < -1:
        return None
    return stored + 1


# Checks. Additional fields and the alias of another cluster are accepted.


def check_source_offset(partition: SourcePartition | None, offset: SourceOffset) -> None:
    """Validate an offset of MirrorSourceConnector: an offset of a topic's partition. Raises
    `ConnectError`."""
    _check_number(_fields(partition, (_CLUSTER, _TOPIC)))
    value = _offset(offset)
    if value < 0:
        raise ConnectError(f"Invalid offset {value}: it is negative, use an integer of at least 0")


def check_checkpoint_offset(partition: SourcePartition | None, offset: SourceOffset) -> None:
    """Validate an offset of MirrorCheckpointConnector: a group's partition, always 0. Raises
    `ConnectError`."""
    _check_number(_fields(partition, (_GROUP, _TOPIC)))
    _check_zero(offset)


def check_heartbeat_offset(partition: SourcePartition | None, offset: SourceOffset) -> None:
    """Validate an offset of MirrorHeartbeatConnector: always 0. Raises `ConnectError`."""
    _fields(partition, (_SOURCE_ALIAS, _TARGET_ALIAS))
    _check_zero(offset)


def _check_number(fields: SourcePartition) -> None:
    number = fields.get(_PARTITION)
    if not _is_integer(number) or not 0 <= number <= _INT_MAX:
        raise ConnectError(
            f"Invalid value {number!r} of {_PARTITION} in the partition {dict(fields)}: use an "
            "integer of at least 0"
        )


def _check_zero(offset: SourceOffset) -> None:
    value = _offset(offset)
    if value != 0:
        raise ConnectError(f"Invalid offset {value}: this connector's offsets are always 0")


def _fields(partition: SourcePartition | None, names: Sequence[str]) -> SourcePartition:
    """Return the partition if it has strings in these fields."""
    if partition is None:
        raise ConnectError("A null partition is allowed only with a null offset")
    for name in names:
        if not isinstance(partition.get(name), str):
            raise ConnectError(
                f"The partition {dict(partition)} needs the field {name}, a string, instead of "
                f"{partition.get(name)!r}"
            )
    return partition


def _offset(offset: Mapping[str, OffsetValue]) -> int:
    value = offset.get(_OFFSET)
    if not _is_integer(value):
        raise ConnectError(
            f"The offset {dict(offset)} needs the field {_OFFSET}, an integer, instead of {value!r}"
        )
    return value


def _is_integer(value: OffsetValue) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool)
