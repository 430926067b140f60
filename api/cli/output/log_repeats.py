"""Keeps repeated log messages from filling a log: the first ones are logged, the others counted."""

from __future__ import annotations

import logging
import threading
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass

from connect.clock import SYSTEM_CLOCK, Clock
from connect.log_fields import log_fields

__all__ = ["RepeatLimit", "fields_of"]

FIELDS = "log_fields"
"""The attribute of a record that holds the fields of its thread. Another thread may write it."""

PERIOD_S = 60.0
FIRST = 3
"""Equal messages logged in a period, so that a pattern is seen."""

_MOST_KEPT = 1_000


def fields_of(record: logging.LogRecord) -> Mapping[str, str | int]:
    """Return the log fields that the record's thread had."""
    fields: Mapping[str, str | int] = getattr(record, FIELDS, {})
    return fields


@dataclass(slots=True)
class _Period:
    record: logging.LogRecord
    until: float
    count: int = 1
    dropped: int = 0


class RepeatLimit(logging.Handler):
    """Passes records on to `target`; of equal records only the first few in a minute, and then
    their number. DEBUG is not limited, because its users want everything. Safe from any thread.
    """

    def __init__(self, target: logging.Handler, clock: Clock = SYSTEM_CLOCK) -> None:
        super().__init__()
        self._target = target
        self._clock = clock
        self._periods: OrderedDict[tuple[str | int, ...], _Period] = OrderedDict()
        self._periods_lock = threading.Lock()

    def emit(self, record: logging.LogRecord) -> None:
        setattr(record, FIELDS, log_fields())
        with self._periods_lock:
            due = self._ended()
            wanted = record.levelno <= logging.DEBUG or self._is_wanted(record)
        for summary in due:
            self._target.handle(summary)
        if wanted:
            self._target.handle(record)

    def flush(self) -> None:
        self._target.flush()

    def close(self) -> None:
        self._target.close()
        super().close()

    def _is_wanted(self, record: logging.LogRecord) -> bool:
        # Equal messages of two flows are two messages.
        key = (record.name, record.levelno, record.getMessage(), *fields_of(record).values())
        period = self._periods.get(key)
        if period is None:
            self._periods[key] = _Period(record, self._clock.monotonic() + PERIOD_S)
            while len(self._periods) > _MOST_KEPT:
                self._periods.popitem(last=False)
            return True
        period.count += 1
        if period.count <= FIRST:
            return True
        period.dropped += 1
        return False

    def _ended(self) -> list[logging.LogRecord]:
        """Forget periods that have ended. Returns a record for each that dropped messages."""
        now = self._clock.monotonic()
        found = []
        while self._periods:
            key, period = next(iter(self._periods.items()))
            if now < period.until:
                break
            del self._periods[key]
            if period.dropped:
                found.append(_summary(period))
        return found


def _summary(period: _Period) -> logging.LogRecord:
    first = period.record
    text = f"{first.getMessage()} ({period.dropped} more times in {PERIOD_S:.0f} s)"
    summary = logging.LogRecord(
        first.name, first.levelno, first.pathname, first.lineno, text, None, None, first.funcName
    )
    # Not of the thread that happens to count.
    summary.threadName = first.threadName
    setattr(summary, FIELDS, fields_of(first))
    return summary
