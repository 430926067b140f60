"""The put and committed offsets of a sink task's partitions."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping

from connect.plugin import TopicPartition

__all__ = ["SinkOffsets"]

_log = logging.getLogger(__name__)


class SinkOffsets:
    """Offsets of a sink task. Pure bookkeeping on the task's thread.

    All offsets are those of the next record.
    """

    def __init__(self) -> None:
        self._assigned: set[TopicPartition] = set()
        self._put: dict[TopicPartition, int] = {}
        self._committed: dict[TopicPartition, int] = {}

    @property
    def assigned(self) -> frozenset[TopicPartition]:
        return frozenset(self._assigned)

    def assign(self, partitions: Collection[TopicPartition]) -> None:
        self._assigned |= set(partitions)

    def remove(self, partitions: Collection[TopicPartition]) -> None:
        for partition in partitions:
            self._assigned.discard(partition)
            self._put.pop(partition, None)
            self._committed.pop(partition, None)

    def arrived(self, partition: TopicPartition, offset: int) -> None:
        """Note a record before it is put. The first one gives the partition's start offset."""
        self._committed.setdefault(partition, offset)

    def put(self, positions: Mapping[TopicPartition, int]) -> None:
        """Note that the task accepted all records before these offsets."""
        self._put.update(
            {partition: at for partition, at in positions.items() if partition in self._assigned}
        )

    def moved(self, positions: Mapping[TopicPartition, int]) -> None:
        """Note a seek of the task.

        As in Java, nothing is committed until more records are put, and if the task then fails to
        prepare a commit, reading returns to these offsets.
        """
        self._put.update(positions)
        self._committed.update(positions)

    def current(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the offsets to pass to `pre_commit`."""
        return {
            partition: self._put[partition] for partition in partitions if partition in self._put
        }

    def to_commit(
        self, asked: Mapping[TopicPartition, int], allowed: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, int]:
        """Return the offsets to commit out of those that the task allows.

        Excluded are partitions that it was not asked about, offsets beyond the delivered records,
        and those already committed.
        """
        offsets: dict[TopicPartition, int] = {}
        for partition, offset in allowed.items():
            if partition not in asked:
                _log.warning(
                    "Not committing an offset for %s-%d: the partition is not assigned to the"
                    " task; if pre_commit of the task returned it, report it to the plugin's "
                    "author",
                    *partition,
                )
            elif offset > asked[partition]:
                _log.warning(
                    "Not committing offset %d for %s-%d: the task has been given records only"
                    " up to offset %d; if pre_commit of the task returned it, report it to "
                    "the plugin's author",
                    offset,
                    *partition,
                    asked[partition],
                )
            elif self._committed.get(partition) != offset:
                offsets[partition] = offset
        return offsets

    def committed(self, offsets: Mapping[TopicPartition, int]) -> None:
        for partition, offset in offsets.items():
            if partition in self._assigned:
                self._committed[partition] = offset

    def active(self, positions: Mapping[TopicPartition, int]) -> int:
        """Return the number of offsets read, up to `positions` or the last put, and not
        committed.
        """
        read = {**self._put, **positions}
        return sum(
            max(0, read.get(partition, committed) - committed)
            for partition, committed in self._committed.items()
        )

    def rewind(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """Discard puts after the last commit. Return the offsets to read from."""
        back = {
            partition: self._committed[partition]
            for partition in partitions
            if partition in self._committed
        }
        self._put.update(back)
        return back
