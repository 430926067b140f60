"""The state of a process's Spark session, for users and metrics."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

__all__ = ["SparkPhase", "SparkState"]


class SparkPhase(Enum):
    """The states of the session."""

    UNUSED = "unused"
    STARTING = "starting"
    READY = "ready"
    IDLE = "idle"
    """Stopped because it was idle."""
    FAILED = "failed"
    STOPPED = "stopped"


@dataclass(frozen=True, slots=True)
class SparkState:
    """The state for users: phase, master, and why there is no session."""

    phase: SparkPhase
    master: str = ""
    reason: str = ""

    def __str__(self) -> str:
        return f"{self.phase.value}: {self.reason}" if self.reason else self.phase.value
