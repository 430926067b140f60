"""The state of a process's Spark session, and the metric groups of Spark."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from enum import Enum

__all__ = [
    "LONG_S",
    "SESSION_READY",
    "SPARK_JOB_GROUP",
    "SPARK_SESSION_GROUP",
    "SparkPhase",
    "SparkState",
]

SPARK_SESSION_GROUP = "spark-session-metrics"
SPARK_JOB_GROUP = "spark-job-metrics"
LONG_S = 60.0
"""A query that runs longer than this is logged once."""
SESSION_READY = threading.Event()
"""Set while this process has a Spark session."""


class SparkPhase(Enum):
    """The states of the session."""

    UNUSED = "unused"
    STARTING = "starting"
    READY = "ready"
    BUSY = "busy"
    """Ready, but without what one of its users needs; it is restarted once the others are idle."""
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
