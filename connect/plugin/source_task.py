"""Record tasks: they give records, and the worker does the rest."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from connect.data.record import SourceRecord
from connect.plugin.contexts import TaskContext

__all__ = ["RecordMetadata", "SourceTask"]


@dataclass(frozen=True, slots=True)
class RecordMetadata:
    """Where the target broker put a record. `offset` is -1 when it did not say (acks=0)."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int


class SourceTask(ABC):
    """Gives records. Lifecycle: initialize, start, poll..., stop; all on the task's thread."""

    context: TaskContext

    def initialize(self, context: TaskContext) -> None:
        self.context = context

    @abstractmethod
    def start(self, config: Mapping[str, str]) -> None: ...

    @abstractmethod
    def poll(self) -> Sequence[SourceRecord] | None:
        """The next records, or None when there are none now. May block up to about a second,
        or until `stopping()` was called."""

    def commit_record(  # noqa: B027 - optional hook
        self, record: SourceRecord, metadata: RecordMetadata | None
    ) -> None:
        """A record was acknowledged (metadata; called on the producer's callback thread), or it was
        not produced (None): dropped by a transformation or skipped because of an error (on the
        task's thread), or not taken by Kafka under `errors.tolerance=all` (on the producer's). The
        record is the one that `poll` gave, whatever transformations made of it."""

    def commit(self) -> None:  # noqa: B027 - optional hook
        """Source offsets up to everything acknowledged so far were stored."""

    def stopping(self) -> None:  # noqa: B027 - optional hook
        """Stop was requested: a blocked `poll` should return. Called from another thread."""

    def trouble(self) -> str | None:
        """What the task cannot do for now, while it goes on trying: it stays RUNNING, and its
        status gets this as its trace. None: nothing. On the task's thread, every few seconds."""
        return None

    @abstractmethod
    def stop(self) -> None:
        """Close everything. No other method is called afterwards."""
