"""Decides where the transactions of an exactly-once source task end (`transaction.boundary`).
Pure.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Mapping
from enum import Enum

from connect.clock import SYSTEM_CLOCK, Clock
from connect.errors import ConfigError, ConnectError
from connect.plugin import SourceRecord

__all__ = [
    "Boundaries",
    "ConnectorBoundaries",
    "Ending",
    "IntervalBoundaries",
    "PollBoundaries",
    "WorkerTransactionContext",
    "make_boundaries",
    "transfer_boundary_s",
]

_BOUNDARY = "transaction.boundary"
_INTERVAL = "transaction.boundary.interval.ms"


class Ending(Enum):
    """The next step for the open transaction.

    After ABORT the source offsets of the dropped records are stored all the same, so that the task
    does not read them again.
    """

    NONE = "none"
    COMMIT = "commit"
    ABORT = "abort"


class Boundaries(ABC):
    """Boundaries of one task, used on its thread.

    `may_end_early`: a transaction may be committed before its boundary.
    """

    may_end_early = True

    def begin(self) -> None:  # noqa: B027 - only one kind needs it
        """Note that the task starts or resumes."""

    def after_record(self, record: SourceRecord) -> Ending:
        """Return the step after `record` was sent or skipped."""
        return Ending.NONE

    @abstractmethod
    def after_batch(self) -> Ending:
        """Return the step after all records of a poll, which may be none, were sent or skipped."""

    def at_end(self) -> Ending:
        """Return the step when the task pauses or stops."""
        return Ending.COMMIT


class PollBoundaries(Boundaries):
    """Commits a transaction after every poll."""

    def after_batch(self) -> Ending:
        return Ending.COMMIT


class IntervalBoundaries(Boundaries):
    """Commits a transaction with the first batch after the interval."""

    def __init__(self, interval_s: float, clock: Clock = SYSTEM_CLOCK) -> None:
        self._interval_s = interval_s
        self._clock = clock
        self._last = clock.monotonic()

    def begin(self) -> None:
        self._last = self._clock.monotonic()

    def after_batch(self) -> Ending:
        now = self._clock.monotonic()
        if now < self._last + self._interval_s:
            return Ending.NONE
        self._last = now
        return Ending.COMMIT


class WorkerTransactionContext:
    """The `plugin.TransactionContext` of a task. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._batch: set[Ending] = set()
        # Keyed by identity: the records are the same objects that `poll` returns, and are kept
        # meanwhile.
        self._records: dict[int, tuple[SourceRecord, set[Ending]]] = {}

    def commit_transaction(self, record: SourceRecord | None = None) -> None:
        self._ask(record, Ending.COMMIT)

    def abort_transaction(self, record: SourceRecord | None = None) -> None:
        self._ask(record, Ending.ABORT)

    def take_batch(self) -> Ending:
        """Return and clear the request for the batch. Raises `ConnectError` for both commit and
        abort.
        """
        with self._lock:
            asked, self._batch = self._batch, set()
        if len(asked) > 1:
            raise ConnectError("Connector requested both commit and abort of same transaction")
        return next(iter(asked), Ending.NONE)

    def take_record(self, record: SourceRecord) -> Ending:
        """Return and clear the request for a record. Raises `ConnectError` for both commit and
        abort.
        """
        with self._lock:
            _, asked = self._records.pop(id(record), (record, set()))
        if len(asked) > 1:
            raise ConnectError(
                "Connector requested both commit and abort of same record against topic/partition"
                f" {record.topic}/{record.partition}"
            )
        return next(iter(asked), Ending.NONE)

    def _ask(self, record: SourceRecord | None, ending: Ending) -> None:
        with self._lock:
            if record is None:
                self._batch.add(ending)
            else:
                self._records.setdefault(id(record), (record, set()))[1].add(ending)


class ConnectorBoundaries(Boundaries):
    """Ends transactions only when the task requests it."""

    may_end_early = False

    def __init__(self, context: WorkerTransactionContext) -> None:
        self._context = context

    def after_record(self, record: SourceRecord) -> Ending:
        return self._context.take_record(record)

    def after_batch(self) -> Ending:
        return self._context.take_batch()

    def at_end(self) -> Ending:
        return self._context.take_batch()


def transfer_boundary_s(
    connector_config: Mapping[str, str], default_interval_s: float
) -> float | None:
    """Return the commit interval in seconds for a transfer task, which has no polls.

    None means soon after each batch. The config is validated. Raises `ConfigError`.
    """
    boundary = connector_config.get(_BOUNDARY, "poll").strip().lower()
    if boundary == "connector":
        raise ConfigError(
            f"{_BOUNDARY}=connector is not supported by {connector_config['connector.class']},"
            f" which does not define its own transaction boundaries; use poll or interval",
            key=_BOUNDARY,
            value="connector",
        )
    if boundary == "interval":
        given = connector_config.get(_INTERVAL)
        return default_interval_s if given is None else int(given) / 1000
    return None


def make_boundaries(
    connector_config: Mapping[str, str], default_interval_s: float, clock: Clock = SYSTEM_CLOCK
) -> tuple[Boundaries, WorkerTransactionContext | None]:
    """Return the boundaries of a validated config, and the context if the task decides."""
    boundary = connector_config.get(_BOUNDARY, "poll").strip().lower()
    if boundary == "connector":
        context = WorkerTransactionContext()
        return ConnectorBoundaries(context), context
    if boundary == "interval":
        given = connector_config.get(_INTERVAL)
        interval_s = default_interval_s if given is None else int(given) / 1000
        return IntervalBoundaries(interval_s, clock), None
    return PollBoundaries(), None
