"""Wire format of the Connect group protocol: worker metadata and assignments.

A worker joins with its metadata; the leader answers every worker with an assignment (KIP-415,
KIP-507). Everything is big-endian; STRING is an int16 length and UTF-8, BYTES an int32 length (-1:
null), ARRAY an int32 count (-1: null).

    metadata 0      version int16 = 0 | url STRING | config offset int64
    metadata 1, 2   version int16     | url STRING | config offset int64 | allocation BYTES
    assignment 0    version int16 = 0 | error int16 | leader STRING | leader url STRING |
                    config offset int64 | assigned ARRAY
    assignment 1, 2 version int16     | ... as 0 ... | revoked ARRAY | delay int32, ms
    array element   connector STRING | tasks ARRAY of int32

An allocation is a whole assignment with everything that the worker runs now. Task -1 is the
connector itself.

Pure functions, safe to call from any thread. Malformed input always raises `CorruptData`.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from dataclasses import dataclass, replace

from connect.errors import CorruptData

__all__ = [
    "CONFIG_MISMATCH",
    "CONNECTOR_TASK",
    "NO_ERROR",
    "PROTOCOL_TYPE",
    "PROTOCOL_VERSIONS",
    "SESSIONED",
    "Assignment",
    "ConnectorTask",
    "WorkerState",
    "decode_assignment",
    "decode_metadata",
    "encode_assignment",
    "encode_metadata",
    "merge_assignment",
    "offered_protocols",
]

PROTOCOL_TYPE = "connect"
"""The protocol type of a Connect worker's JoinGroup."""

PROTOCOL_VERSIONS = {"default": 0, "compatible": 1, "sessioned": 2}
"""The version of metadata and assignments for each protocol that a group can elect."""

SESSIONED = 2
"""The first version in which workers sign their requests to each other (KIP-507)."""

NO_ERROR = 0
CONFIG_MISMATCH = 1
"""Assignment error: the leader has read less of the config topic than some worker, and assigned
nothing.
"""

CONNECTOR_TASK = -1

ConnectorTask = tuple[str, int]
"""A connector's name and a task number; `CONNECTOR_TASK` stands for the connector itself."""

# The protocols offered to the coordinator for each `connect.protocol`, the most preferred first.
_OFFERED = {
    "sessioned": ("sessioned", "compatible", "default"),
    "compatible": ("compatible", "default"),
    "eager": ("default",),
}

_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")
_INT64 = struct.Struct(">q")
_MAX_STRING = 0x7FFF


@dataclass(frozen=True, slots=True)
class Assignment:
    """The connectors and tasks that the leader assigned to a worker.

    With the eager protocol (version 0) `assigned` is the whole assignment. With the others it is
    the part that is new, and `revoked` is stopped first. In an allocation, `assigned` is the whole
    assignment again.
    """

    version: int
    error: int
    leader: str
    """The leader's member id."""
    leader_url: str
    config_offset: int
    """The config topic offset that the assignment was made from."""
    assigned: tuple[ConnectorTask, ...] = ()
    revoked: tuple[ConnectorTask, ...] = ()
    delay_ms: int = 0
    """Rejoin after this time, if above 0, to get the work that was left unassigned until then."""

    @property
    def failed(self) -> bool:
        return self.error != NO_ERROR


@dataclass(frozen=True, slots=True)
class WorkerState:
    """The metadata that a worker sends when it joins. `url` ends with a slash."""

    url: str
    config_offset: int
    assignment: Assignment | None = None
    """The current assignment; None with the eager protocol, and if the worker runs nothing yet."""


def offered_protocols(connect_protocol: str) -> tuple[str, ...]:
    """Return the protocols that a worker offers for this `connect.protocol`, preferred ones
    first.
    """
    return _OFFERED[connect_protocol]


def merge_assignment(previous: Assignment | None, new: Assignment) -> Assignment:
    """Return everything that a worker runs after the assignment `new`.

    With the eager protocol that is `new`; otherwise `new` is added to the work that the worker
    keeps. `revoked` and `delay_ms` are those of `new`.
    """
    if previous is None or new.version == 0:
        return new
    revoked = set(new.revoked)
    kept = [task for task in previous.assigned if task not in revoked]
    whole = tuple(dict.fromkeys([*new.assigned, *kept]))
    return replace(new, assigned=whole)


def encode_metadata(state: WorkerState, version: int) -> bytes:
    """Encode a worker's metadata for the protocol of this version. Version 0 has no allocation."""
    parts = [_INT16.pack(version), _string(state.url), _INT64.pack(state.config_offset)]
    if version > 0:
        if state.assignment is None:
            parts.append(_INT32.pack(-1))
        else:
            allocation = encode_assignment(state.assignment, version)
            parts += [_INT32.pack(len(allocation)), allocation]
    return b"".join(parts)


def encode_assignment(assignment: Assignment, version: int) -> bytes:
    """Encode an assignment for the protocol of this version. Version 0 has no `revoked` and no
    delay.

    There is one array element for each connector, ordered by first task, with the connector itself
    before its tasks.
    """
    parts = [
        _INT16.pack(version),
        _INT16.pack(assignment.error),
        _string(assignment.leader),
        _string(assignment.leader_url),
        _INT64.pack(assignment.config_offset),
        _tasks(assignment.assigned),
    ]
    if version > 0:
        parts += [_tasks(assignment.revoked), _INT32.pack(assignment.delay_ms)]
    return b"".join(parts)


def decode_metadata(data: bytes) -> WorkerState:
    """Decode a worker's metadata. A version newer than ours is read as the newest one we know."""
    reader = _Reader(data, "worker metadata")
    version = reader.version()
    url = reader.string()
    offset = reader.int64()
    allocation = reader.nullable_bytes() if version > 0 and reader.more() else None
    return WorkerState(url, offset, None if allocation is None else decode_assignment(allocation))


def decode_assignment(data: bytes) -> Assignment:
    """Decode an assignment. Missing trailing fields are read as empty."""
    reader = _Reader(data, "an assignment")
    version = reader.version()
    error = reader.int16()
    leader = reader.string()
    leader_url = reader.string()
    offset = reader.int64()
    assigned = reader.tasks() if reader.more() else ()
    revoked = reader.tasks() if version > 0 and reader.more() else ()
    delay_ms = reader.int32() if version > 0 and reader.more() else 0
    return Assignment(version, error, leader, leader_url, offset, assigned, revoked, delay_ms)


def _string(text: str) -> bytes:
    data = text.encode()
    if len(data) > _MAX_STRING:
        raise CorruptData(
            f"a name of {len(data)} bytes exceeds the group protocol's limit of {_MAX_STRING} bytes"
        )
    return _INT16.pack(len(data)) + data


def _tasks(tasks: Iterable[ConnectorTask]) -> bytes:
    connectors: dict[str, list[int]] = {}
    for connector, task in tasks:
        numbers = connectors.setdefault(connector, [])
        if task == CONNECTOR_TASK:
            numbers.insert(0, task)
        else:
            numbers.append(task)
    parts = [_INT32.pack(len(connectors))]
    for connector, numbers in connectors.items():
        parts += [_string(connector), struct.pack(f">i{len(numbers)}i", len(numbers), *numbers)]
    return b"".join(parts)


class _Reader:
    """A read position in one message."""

    __slots__ = ("_at", "_data", "_what")

    def __init__(self, data: bytes, what: str) -> None:
        self._data = data
        self._at = 0
        self._what = what

    def more(self) -> bool:
        return self._at < len(self._data)

    def version(self) -> int:
        version = self.int16()
        if version < 0:
            raise CorruptData(f"{self._what} has the invalid version {version}")
        return version

    def int16(self) -> int:
        return self._number(_INT16)

    def int32(self) -> int:
        return self._number(_INT32)

    def int64(self) -> int:
        return self._number(_INT64)

    def string(self) -> str:
        try:
            return str(self._take(self.int16()), "utf-8")
        except UnicodeDecodeError as error:
            raise CorruptData(
                f"{self._what} has a name that is not valid UTF-8: {error}"
            ) from error

    def nullable_bytes(self) -> bytes | None:
        size = self.int32()
        return None if size < 0 else self._take(size)

    def tasks(self) -> tuple[ConnectorTask, ...]:
        tasks: list[ConnectorTask] = []
        # An element has at least a string's and an array's length field.
        for _ in range(self._count(6)):
            connector = self.string()
            tasks += [(connector, self.int32()) for _ in range(self._count(4))]
        return tuple(tasks)

    def _count(self, smallest: int) -> int:
        count = self.int32()
        if count * smallest > len(self._data) - self._at:
            raise CorruptData(f"{self._what} is too short for an array of {count} elements")
        return max(count, 0)

    def _number(self, layout: struct.Struct) -> int:
        number: int = layout.unpack(self._take(layout.size))[0]
        return number

    def _take(self, size: int) -> bytes:
        end = self._at + size
        if size < 0 or end > len(self._data):
            raise CorruptData(
                f"{self._what} of {len(self._data)} bytes is too short for {size} bytes at"
                f" position {self._at}"
            )
        taken = self._data[self._at : end]
        self._at = end
        return taken
