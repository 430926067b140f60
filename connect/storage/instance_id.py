"""Types shared by storage and runtime: connector and task ids, states, target states.

Names and enum values are Kafka Connect's; the values are written to Kafka.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

__all__ = ["InstanceId", "State", "TargetState", "task_number"]

# Digits of a Java int. Python refuses to parse very long numbers.
_INT_MAX, _INT_DIGITS = 2_147_483_647, 10


class State(Enum):
    """The state of a connector or a task."""

    UNASSIGNED = "UNASSIGNED"
    RUNNING = "RUNNING"
    PAUSED = "PAUSED"
    FAILED = "FAILED"
    DESTROYED = "DESTROYED"
    RESTARTING = "RESTARTING"
    STOPPED = "STOPPED"


class TargetState(Enum):
    """The state that the user wants a connector to be in."""

    STARTED = "STARTED"
    PAUSED = "PAUSED"
    STOPPED = "STOPPED"


@dataclass(frozen=True, slots=True, order=True)
class InstanceId:
    """The id of a connector (`task` is -1) or of one of its tasks."""

    connector: str
    task: int = -1

    @property
    def is_task(self) -> bool:
        return self.task >= 0

    def __str__(self) -> str:
        return f"{self.connector}-{self.task}" if self.is_task else self.connector


def task_number(text: str) -> int | None:
    """Parse the task number in a record's key, or return None."""
    if not (text.isascii() and text.isdigit()) or len(text.lstrip("0")) > _INT_DIGITS:
        return None
    number = int(text.lstrip("0") or "0")
    return number if number <= _INT_MAX else None
