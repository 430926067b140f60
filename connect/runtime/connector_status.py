"""The status of a connector and of its tasks, as a herder of this process answers it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from connect.data import json_codec
from connect.errors import CorruptData
from connect.plugin import PartitionHealth
from connect.runtime.errors import NotFound
from connect.runtime.states import State, Status

__all__ = [
    "ConnectorStatus",
    "TaskStatus",
    "UnknownConnector",
    "decode_partitions",
    "encode_partitions",
]

_RUNS = frozenset({State.RUNNING, State.PAUSED})


class UnknownConnector(NotFound):
    """The connector or task does not exist."""


@dataclass(frozen=True, slots=True)
class TaskStatus:
    """One task: its status and the state of its partitions.

    `unknown`: why the state of its partitions is not known for sure; None: `partitions` has all of
    them.
    """

    number: int
    status: Status
    partitions: tuple[PartitionHealth, ...] = ()
    unknown: str | None = None

    @classmethod
    def seen_here(
        cls, number: int, status: Status, partitions: Sequence[PartitionHealth] | None
    ) -> TaskStatus:
        """`partitions` as this worker sees them; None: the task does not run on this worker."""
        unknown = None
        if status.state not in _RUNS:
            unknown = f"The task is {status.state.value}"
        elif partitions is None:
            unknown = f"The task runs on worker {status.worker_id}"
        return cls(number, status, tuple(partitions or ()), unknown)

    @property
    def runs_elsewhere(self) -> bool:
        """Whether another worker can say what is not known here."""
        return self.unknown is not None and self.status.state in _RUNS


@dataclass(frozen=True, slots=True)
class ConnectorStatus:
    """One connector and its tasks, in the order of their numbers."""

    name: str
    status: Status
    tasks: tuple[TaskStatus, ...]


def encode_partitions(tasks: Mapping[int, Sequence[PartitionHealth]]) -> bytes:
    """The partitions of tasks by task number, as workers send them to each other."""
    return json_codec.encode(
        {str(number): [asdict(each) for each in found] for number, found in tasks.items()}
    )


def decode_partitions(data: bytes) -> dict[int, tuple[PartitionHealth, ...]]:
    """The reverse of `encode_partitions`. Ignores fields that another release may have. Raises
    `CorruptData`."""
    found: Any = json_codec.decode(data)
    try:
        return {
            int(number): tuple(_decoded(each) for each in partitions)
            for number, partitions in found.items()
        }
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise CorruptData(f"Not the partitions of tasks: {error!r}") from error


def _decoded(fields: Mapping[str, Any]) -> PartitionHealth:
    error = fields.get("error")
    return PartitionHealth(
        str(fields["topic"]),
        int(fields["partition"]),
        _count(fields, "lag_records"),
        _count(fields, "lag_ms"),
        None if error is None else str(error),
        _count(fields, "lag_bytes"),
        _count(fields, "time_to_loss_ms"),
        dict(fields.get("details") or {}),
    )


def _count(fields: Mapping[str, Any], name: str) -> int | None:
    value = fields.get(name)
    return None if value is None else int(value)
