"""Counts of a task's record errors: Kafka Connect's metrics group `task-error-metrics`."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Literal, get_args

from connect.clock import SYSTEM_CLOCK, Clock

__all__ = ["ERROR_GROUP", "ErrorCount", "ErrorMetrics"]

ERROR_GROUP = "task-error-metrics"
_LAST_ERROR = "last-error-timestamp"

ErrorCount = Literal[
    "total-record-failures",
    "total-record-errors",
    "total-records-skipped",
    "total-retries",
    "total-errors-logged",
    "deadletterqueue-produce-requests",
    "deadletterqueue-produce-failures",
]
"""The attributes; `connect.metrics.catalogue` describes them."""

_COUNTS: tuple[ErrorCount, ...] = get_args(ErrorCount)


class ErrorMetrics:
    """The counts of one task, from its creation on. Safe to use from any thread."""

    def __init__(self, clock: Clock = SYSTEM_CLOCK) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._values: dict[str, float] = dict.fromkeys((*_COUNTS, _LAST_ERROR), 0.0)

    def count(self, attribute: ErrorCount) -> None:
        with self._lock:
            self._values[attribute] += 1

    def failed_now(self) -> None:
        """Record the current time as that of the last error, after a record failed finally."""
        with self._lock:
            self._values[_LAST_ERROR] = float(self._clock.now_ms())

    def add(self, counted: Mapping[str, float]) -> None:
        """Add counts of another process, and take the time of its last error if that is later."""
        with self._lock:
            last = max(self._values[_LAST_ERROR], counted.get(_LAST_ERROR, 0.0))
            for attribute in _COUNTS:
                self._values[attribute] += counted.get(attribute, 0.0)
            self._values[_LAST_ERROR] = last

    def read(self) -> Mapping[str, float]:
        with self._lock:
            return dict(self._values)
