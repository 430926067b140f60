"""The status of a connector and of its tasks, as a herder of this process answers it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from connect.data import json_codec
from connect.errors import CorruptData
from connect.metrics.catalogue import CONNECTOR_HEALTH_GROUP
from connect.metrics.registry import MetricRegistry, MetricSample
from connect.plugin import PartitionHealth
from connect.runtime.errors import NotFound
from connect.runtime.states import State, Status

__all__ = [
    "ConnectorStatus",
    "TaskStatus",
    "UnknownConnector",
    "decode_partitions",
    "encode_partitions",
    "show_health",
]

_RUNS = frozenset({State.RUNNING, State.PAUSED})
_WELL = frozenset({State.RUNNING, State.PAUSED, State.STOPPED})
"""Intended states. Any other state (FAILED, UNASSIGNED, RESTARTING) means that work waits and does
not run."""


def _is_well(status: Status) -> bool:
    """Whether the state is healthy. RUNNING with a trace means that it keeps retrying the operation
    in the trace."""
    return status.state in _WELL and status.trace is None


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
    def is_healthy(self) -> bool:
        """Whether it runs as wanted, and all its partitions known here move or are caught up."""
        return _is_well(self.status) and all(each.error is None for each in self.partitions)

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

    @property
    def is_healthy(self) -> bool:
        """Whether the connector and all its tasks are healthy."""
        return _is_well(self.status) and all(task.is_healthy for task in self.tasks)


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


def show_health(
    registry: MetricRegistry, statuses: Callable[[], Iterable[ConnectorStatus]]
) -> Callable[[], None]:
    """Publish for each connector of `statuses` whether it is healthy, until the returned function
    is called.

    A worker that lost its group stops its tasks, and with them goes every metric of theirs. This
    one stays, so that an alert can be based on it.

    `statuses` is called when the metrics are read, on any thread.
    """

    def read() -> Iterator[MetricSample]:
        for each in statuses():
            values = {"healthy": float(each.is_healthy)}
            yield MetricSample(CONNECTOR_HEALTH_GROUP, {"connector": each.name}, values)

    return registry.register_samples("the connectors' health", read)
