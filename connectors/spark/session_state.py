"""Where the Spark session of a process is, for people and for the metrics page."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

__all__ = ["SparkPhase", "SparkState"]


class SparkPhase(Enum):
    """Where the session is."""

    UNUSED = "unused"
    STARTING = "starting"
    READY = "ready"
    IDLE = "idle"
    """Ended, as nobody wanted it."""
    FAILED = "failed"
    STOPPED = "stopped"


@dataclass(frozen=True, slots=True)
class SparkState:
    """For people: where the session is, on which master, and why it is not there."""

    phase: SparkPhase
    master: str = ""
    reason: str = ""

    def __str__(self) -> str:
        return f"{self.phase.value}: {self.reason}" if self.reason else self.phase.value
