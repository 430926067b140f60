"""Decides where transactions of an exactly-once source task end: `transaction.boundary`. Pure."""

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
    """What happens to the open transaction now. After ABORT the source offsets of what was dropped
    are stored all the same: the task is not to give it again."""

    NONE = "none"
    COMMIT = "commit"
    ABORT = "abort"


class Boundaries(ABC):
    """Asked by one task, on its thread. `may_end_early`: whether a transaction may be committed
    before its boundary."""

    may_end_early = True

    def begin(self) -> None:  # noqa: B027 - only one kind needs it
        """The task begins, or goes on after a pause."""

    def after_record(self, record: SourceRecord) -> Ending:
        """`record` was sent or left out."""
        return Ending.NONE

    @abstractmethod
    def after_batch(self) -> Ending:
        """All records of a poll were sent or left out; also called after an empty poll."""

    def at_end(self) -> Ending:
        """The task is paused or stopped."""
        return Ending.COMMIT


class PollBoundaries(Boundaries):
    """Every poll's records are a transaction."""

    def after_batch(self) -> Ending:
        return Ending.COMMIT


class IntervalBoundaries(Boundaries):
    """A transaction is committed with the first batch after the interval."""

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
    """The `plugin.TransactionContext` of a task. Safe to use from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._batch: set[Ending] = set()
        # By identity: the records are the very ones that `poll` returns, and kept meanwhile.
        self._records: dict[int, tuple[SourceRecord, set[Ending]]] = {}

    def commit_transaction(self, record: SourceRecord | None = None) -> None:
        self._ask(record, Ending.COMMIT)

    def abort_transaction(self, record: SourceRecord | None = None) -> None:
        self._ask(record, Ending.ABORT)

    def take_batch(self) -> Ending:
        """Return and clear the request for the batch. Raises `ConnectError` if both commit and
        abort were requested."""
        with self._lock:
            asked, self._batch = self._batch, set()
        if len(asked) > 1:
            raise ConnectError("Connector requested both commit and abort of same transaction")
        return next(iter(asked), Ending.NONE)

    def take_record(self, record: SourceRecord) -> Ending:
        """The same for a record."""
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
    """Transactions end only where the task requests it."""

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
    """What a connector's validated config asks of a transfer task, which knows no polls: seconds
    between the ends of transactions, or None, for soon after each batch. Raises `ConfigError`."""
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
    """What a connector's validated config asks for; the context only where the task is asked."""
    boundary = connector_config.get(_BOUNDARY, "poll").strip().lower()
    if boundary == "connector":
        context = WorkerTransactionContext()
        return ConnectorBoundaries(context), context
    if boundary == "interval":
        given = connector_config.get(_INTERVAL)
        interval_s = default_interval_s if given is None else int(given) / 1000
        return IntervalBoundaries(interval_s, clock), None
    return PollBoundaries(), None
