"""The record task interface: the task returns records, and the worker does the rest."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from connect.data.record import SourceRecord
from connect.plugin.contexts import TaskContext

__all__ = ["RecordMetadata", "SourceTask"]


@dataclass(frozen=True, slots=True)
class RecordMetadata:
    """Metadata of a produced record. `offset` is -1 if the broker did not return it (acks=0)."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int


class SourceTask(ABC):
    """Returns records. Lifecycle: initialize, start, poll..., stop; all on the task's thread."""

    context: TaskContext

    def initialize(self, context: TaskContext) -> None:
        self.context = context

    @abstractmethod
    def start(self, config: Mapping[str, str]) -> None: ...

    @abstractmethod
    def poll(self) -> Sequence[SourceRecord] | None:
        """Return the next records, or None if there are none now.

        May block for about a second, and must return after `stopping()`.
        """

    @classmethod
    def transforms_records(cls) -> bool:
        """Return whether the connector's `transforms` apply to the records of `poll`.

        False: they are the connector's own bookkeeping, and its `transforms` are meant for other
        records.
        """
        return True

    def commit_record(  # noqa: B027 - optional hook
        self, record: SourceRecord, metadata: RecordMetadata | None
    ) -> None:
        """Called for each record when it was acknowledged or will not be produced.

        `metadata` is set for an acknowledged record; the call is then on the producer's callback
        thread. It is None for a record that a transformation dropped or that was skipped because of
        an error (on the task's thread), or that Kafka refused with `errors.tolerance=all` (on the
        producer's thread). `record` is the one that `poll` returned, before transformations.
        """

    def commit(self) -> None:  # noqa: B027 - optional hook
        """Called when the source offsets of all acknowledged records were stored."""

    def stopping(self) -> None:  # noqa: B027 - optional hook
        """Called on another thread when a stop is requested: a blocked `poll` should return."""

    def trouble(self) -> str | None:
        """Return a problem that the task retries, or None.

        The task stays RUNNING, and its status has this text as its trace. Called on the task's
        thread every few seconds.
        """
        return None

    @abstractmethod
    def stop(self) -> None:
        """Close everything. Called once, after `initialize` and also after a failed `start`.

        The last records were acknowledged by then, or given up, and their offsets were stored. No
        other method is called afterwards.
        """
