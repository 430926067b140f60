"""Types that storage and runtime share: the id of a connector or task, its state, its target state.

Names are Kafka Connect's, and so are the texts of the enums: they are written to Kafka.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

__all__ = ["InstanceId", "State", "TargetState", "task_number"]

# Of a Java int; with more digits than this, Python refuses to look in the end.
_INT_MAX, _INT_DIGITS = 2_147_483_647, 10


class State(Enum):
    """What a connector or a task is doing."""

    UNASSIGNED = "UNASSIGNED"
    RUNNING = "RUNNING"
    PAUSED = "PAUSED"
    FAILED = "FAILED"
    DESTROYED = "DESTROYED"
    RESTARTING = "RESTARTING"
    STOPPED = "STOPPED"


class TargetState(Enum):
    """What the user wants a connector to do."""

    STARTED = "STARTED"
    PAUSED = "PAUSED"
    STOPPED = "STOPPED"


@dataclass(frozen=True, slots=True, order=True)
class InstanceId:
    """A connector (`task` -1) or one of its tasks."""

    connector: str
    task: int = -1

    @property
    def is_task(self) -> bool:
        return self.task >= 0

    def __str__(self) -> str:
        return f"{self.connector}-{self.task}" if self.is_task else self.connector


def task_number(text: str) -> int | None:
    """The number of a task as a record's key has it; None: it is none."""
    if not (text.isascii() and text.isdigit()) or len(text.lstrip("0")) > _INT_DIGITS:
        return None
    number = int(text.lstrip("0") or "0")
    return number if number <= _INT_MAX else None
