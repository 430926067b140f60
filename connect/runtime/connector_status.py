"""The herder: the one place that may change which connectors and tasks run.

Whoever comes from outside (REST, command line, dedicated mode) talks to this interface only.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from connect.clock import Deadline
from connect.plugin import PartitionHealth
from connect.runtime.errors import NotFound
from connect.runtime.states import Status

__all__ = ["ConnectorStatus", "Herder", "TaskStatus", "UnknownConnector"]


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
        `BadRequest` or `ConfigError`, and then nothing has changed.
        """

    def status(self, name: str) -> ConnectorStatus:
        """Raises `UnknownConnector`."""

    def stop(self, deadline: Deadline) -> bool:
        """Stop everything, final offsets stored. False: something did not end by the deadline and
        is left behind; the log says what."""
