"""Offsets of sink connectors for users (KIP-875): their JSON form and their consumer group.

{"partition": {"kafka_topic": "t", "kafka_partition": 0}, "offset": {"kafka_offset": 5}}
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from connect.clients.errors import broker_code
from connect.clients.groups.group_offsets import GroupOffsets
from connect.clock import Deadline
from connect.errors import ConnectError
from connect.plugin import OffsetValue
from connect.protocol.error_codes import ErrorCode
from connect.runtime.errors import BadRequest
from connect.runtime.plugins.connector_clients import ConnectorClients
from connect.runtime.rest_entities import OffsetEntry

__all__ = ["SinkGroupOffsets", "SinkOffsetChange", "parse_sink_offsets", "sink_offset_entry"]

_HAS_MEMBERS = frozenset(
    {
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.NON_EMPTY_GROUP,
        ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC,
    }
)
_TOPIC, _PARTITION, _OFFSET = "kafka_topic", "kafka_partition", "kafka_offset"


@dataclass(frozen=True, slots=True)
class SinkOffsetChange:
    """A user's change of an offset. `offset` is the next record to read; None deletes it."""

    topic: str
    partition: int
    offset: int | None

    def as_entry(self) -> tuple[dict[str, OffsetValue], dict[str, OffsetValue] | None]:
        """Return the change in its JSON form, with numbers as numbers."""
        offset: dict[str, OffsetValue] | None = None
        if self.offset is not None:
            offset = {_OFFSET: self.offset}
        return {_TOPIC: self.topic, _PARTITION: self.partition}, offset


class SinkGroupOffsets:
    """The sink offsets of one worker's cluster. Thread-safe."""

    def __init__(self, clients: ConnectorClients) -> None:
        self._clients = clients

    def read(
        self, name: str, connector: Mapping[str, str], deadline: Deadline
    ) -> list[OffsetEntry]:
        """Return all offsets, sorted by topic and partition."""
        found = self._group(name, connector).read(deadline)
        return [sink_offset_entry(*partition, offset) for partition, offset in found.items()]

    def change(
        self,
        name: str,
        connector: Mapping[str, str],
        changes: Sequence[SinkOffsetChange],
        deadline: Deadline,
    ) -> None:
        group = self._group(name, connector)
        deleted = [(c.topic, c.partition) for c in changes if c.offset is None]
        with _members_named(name):
            group.set(
                {(c.topic, c.partition): c.offset for c in changes if c.offset is not None},
                deadline,
            )
            group.delete(deleted, deadline)

    def reset(self, name: str, connector: Mapping[str, str], deadline: Deadline) -> None:
        with _members_named(name):
            self._group(name, connector).delete_group(deadline)

    def _group(self, name: str, connector: Mapping[str, str]) -> GroupOffsets:
        clients = self._clients.of(name, "sink", connector)
        admin = clients.admin(f"connector-adminclient-{name}")
        return GroupOffsets(admin, clients.consumer("")["group.id"])


@contextmanager
def _members_named(connector: str) -> Iterator[None]:
    """Explain the error of brokers that refuse to change the offsets of a group with members."""
    try:
        yield
    except ConnectError as error:
        if broker_code(error) not in _HAS_MEMBERS:
            raise
        raise ConnectError(
            f"The offsets of connector {connector} were not changed, because its consumer group"
            " still has members: its tasks have not stopped completely, or it was resumed"
            " meanwhile. If the connector is in a stopped state, this operation can be safely"
            " retried. If that does not help, restart the workers to get rid of zombie sink tasks."
            f" ({error})"
        ) from error


def sink_offset_entry(topic: str, partition: int, offset: int) -> OffsetEntry:
    """Return one offset in its REST form."""
    return OffsetEntry(*SinkOffsetChange(topic, partition, offset).as_entry())


def parse_sink_offsets(entries: Sequence[OffsetEntry]) -> list[SinkOffsetChange]:
    """Parse a user's offsets; numbers may be strings. Raises `BadRequest`."""
    changes: dict[tuple[str, int], SinkOffsetChange] = {}
    for entry in entries:
        change = _parse(entry)
        changes[change.topic, change.partition] = change
    return list(changes.values())


def _parse(entry: OffsetEntry) -> SinkOffsetChange:
    partition = entry.partition
    if partition is None:
        raise BadRequest("The partition for a sink connector offset cannot be null or missing")
    topic, number = partition.get(_TOPIC), partition.get(_PARTITION)
    if topic is None or number is None:
        raise BadRequest(
            "The partition for a sink connector offset must contain the keys 'kafka_topic' and"
            " 'kafka_partition'"
        )
    offset: int | None = None
    if entry.offset is not None:
        if entry.offset.get(_OFFSET) is None:
            raise BadRequest(
                "The offset for a sink connector should either be null or contain the key"
                " 'kafka_offset'"
            )
        offset = _whole(entry.offset[_OFFSET], "Offset", _OFFSET)
    return SinkOffsetChange(str(topic), _whole(number, "Partition", _PARTITION), offset)


def _whole(value: OffsetValue, what: str, key: str) -> int:
    try:
        if isinstance(value, bool) or value is None:
            raise ValueError
        number = int(value) if isinstance(value, int) else int(str(value).strip())
    except ValueError:
        number = -1
    if number < 0:
        raise BadRequest(
            f"Invalid value {value!r} for '{key}': {what} values for sink connectors need to be"
            " integers, and at least 0"
        ) from None
    return number
