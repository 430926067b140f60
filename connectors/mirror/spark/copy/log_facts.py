"""What the partitions of Spark's copier wait for before their first shard: the facts about their
logs, and the end of their target's log. Pure. Belongs to the task's thread, like the board.
"""

from __future__ import annotations

from collections.abc import Mapping

from connect.protocol.messages import TopicPartition
from connectors.mirror.offsets.log_identity import LogIdentity
from connectors.mirror.spark.copy.partition import UNKNOWN, SparkPartition

__all__ = ["LogFacts", "UnknownTails"]


class UnknownTails:
    """Partitions whose target may have more records than is known: a crash left them there."""

    def __init__(self, *, stores: bool) -> None:
        """`stores`: offsets are stored after shards. Otherwise, under exactly-once, a crash leaves
        no records without stored offsets, and nothing waits here."""
        self._stores = stores
        self._waiting: list[SparkPartition] = []

    def take(self, now: float) -> list[SparkPartition]:
        """Return the partitions, each once. A partition whose shard was lost is returned once no
        executor copies it any more."""
        found = [partition for partition in self._waiting if partition.retry_at <= now]
        if found:
            self._waiting = [each for each in self._waiting if each.retry_at > now]
        return found

    def compare_from(self, partition: SparkPartition, start: tuple[int, int] | None) -> None:
        if start is not None and UNKNOWN not in start:
            self._wait(partition, start)

    def ask_end(self, partition: SparkPartition) -> None:
        """Let the partition wait until its target's log end was asked for, unless that is known.
        Otherwise nobody could tell what its first shard left there if that is lost."""
        if partition.target_end == UNKNOWN and partition.tail_start is None:
            self._wait(partition, (partition.position, UNKNOWN))

    def _wait(self, partition: SparkPartition, start: tuple[int, int]) -> None:
        if not self._stores:
            return
        if partition not in self._waiting:
            self._waiting.append(partition)
        partition.tail_start = start


class LogFacts:
    """Partitions that wait for the facts about their logs, which are stored with positions."""

    def __init__(
        self, partitions: Mapping[TopicPartition, SparkPartition], tails: UnknownTails
    ) -> None:
        """`partitions`: all of the board."""
        self._partitions = partitions
        self._tails = tails
        self._waiting: set[TopicPartition] = set()
        self._late: dict[TopicPartition, int] = {}
        """Positions of partitions that began before the facts about their logs were read."""

    def add(self, key: TopicPartition) -> None:
        """Let this partition wait."""
        self._waiting.add(key)

    def discard(self, key: TopicPartition) -> None:
        """Note that this partition does not wait."""
        self._waiting.discard(key)

    def forget(self, key: TopicPartition) -> None:
        self._waiting.discard(key)
        self._late.pop(key, None)

    @property
    def wanted(self) -> bool:
        """Whether partitions wait to begin until the facts are known."""
        return any(not self._partitions[key].unsure for key in self._waiting)

    @property
    def wanted_late(self) -> bool:
        """Whether partitions began without the facts."""
        return bool(self._late)

    def begin_without(self) -> None:
        """Let the partitions begin: reading the facts takes too long. A topic that was re-created
        meanwhile is noticed when `learn` is called."""
        for partition in self._take():
            self._late[partition.source] = partition.position
            self._tails.ask_end(partition)

    def learn(self, facts: Mapping[TopicPartition, LogIdentity]) -> None:
        """Set the facts that were stored with the positions at which partitions begin or began."""
        for partition in self._take():
            known = facts.get(partition.source)
            if known is not None and known.hold_for(partition.position):
                partition.learn(known)
                partition.target_end = known.target_end
                if partition.loss is None:
                    self._tails.compare_from(partition, known.reached(partition.position))
            self._tails.ask_end(partition)
        late, self._late = self._late, {}
        for key, position in late.items():
            known, began = facts.get(key), self._partitions[key]
            # After a loss it does not go on from that position any more.
            if known is not None and known.hold_for(position) and began.loss is None:
                began.learn(known)

    def _take(self) -> list[SparkPartition]:
        """Return the partitions that wait and whose position is known. They wait no longer."""
        found = [each for each in self._partitions.values() if each.learns and not each.unsure]
        for partition in found:
            partition.learns = False
            self._waiting.discard(partition.source)
        return found
