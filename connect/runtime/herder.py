"""The herder: the one place that may change which connectors and tasks run.

Whoever comes from outside (REST, command line, dedicated mode) talks to this interface only.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from connect.clock import Deadline
from connect.errors import ConnectError
from connect.plugin import PartitionHealth
from connect.runtime.states import Status

__all__ = ["ConnectorStatus", "Herder", "TaskStatus", "UnknownConnector"]


class UnknownConnector(ConnectError):
    """There is no connector, or no task, of this name."""

    http_status = 404


@dataclass(frozen=True, slots=True)
class TaskStatus:
    """One task: its status, and what it says of its partitions."""

    number: int
    status: Status
    partitions: tuple[PartitionHealth, ...] = ()


@dataclass(frozen=True, slots=True)
class ConnectorStatus:
    """One connector and its tasks, in the order of their numbers."""

    name: str
    status: Status
    tasks: tuple[TaskStatus, ...]


class Herder(Protocol):
    """Safe to use from any thread. Every call waits for its answer and raises `DeadlineExceeded`
    when the herder is too busy to give one."""

    def start(self, deadline: Deadline) -> None:
        """Open what connectors need. Nothing else may be called before it returned."""

    def connectors(self) -> list[str]:
        """The names of all connectors."""

    def put_connector(self, name: str, config: Mapping[str, str]) -> bool:
        """Create a connector, or give it a new config. True: it was created.

        Returns when the config is taken over; how starting goes is for the status to show. Raises
        `ConfigError`, and then nothing has changed.
        """

    def delete_connector(self, name: str) -> None:
        """Stop the connector and its tasks and forget them. Stored offsets stay.
        Raises `UnknownConnector`."""

    def pause_connector(self, name: str) -> None:
        """Stop the connector; its tasks keep their resources but take nothing new."""

    def resume_connector(self, name: str) -> None:
        """Undo `pause_connector`."""

    def restart_connector(self, name: str) -> None:
        """Stop and start the connector itself, not its tasks."""

    def restart_task(self, name: str, task: int) -> None:
        """Stop and start one task, whatever its state. Raises `UnknownConnector`."""

    def status(self, name: str) -> ConnectorStatus:
        """Raises `UnknownConnector`."""

    def stop(self, deadline: Deadline) -> bool:
        """Stop everything, final offsets stored. False: something did not end by the deadline and
        is left behind; the log says what."""
