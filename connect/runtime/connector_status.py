"""The status of a connector and of its tasks, as a herder of this process answers it."""

from __future__ import annotations

from dataclasses import dataclass

from connect.plugin import PartitionHealth
from connect.runtime.errors import NotFound
from connect.runtime.states import Status

__all__ = ["ConnectorStatus", "TaskStatus", "UnknownConnector"]


class UnknownConnector(NotFound):
    """The connector or task does not exist."""


@dataclass(frozen=True, slots=True)
class TaskStatus:
    """One task: its status and the state of its partitions."""

    number: int
    status: Status
    partitions: tuple[PartitionHealth, ...] = ()


@dataclass(frozen=True, slots=True)
class ConnectorStatus:
    """One connector and its tasks, in the order of their numbers."""

    name: str
    status: Status
    tasks: tuple[TaskStatus, ...]
