"""A worker that copies: what a source task writes about offsets, against the model's logs."""

from __future__ import annotations

from concurrent.futures import Future
from dataclasses import dataclass, field
from random import Random
from uuid import UUID

from connect.plugin import StoredOffset
from connect.protocol.messages import TopicPartition
from connectors.mirror.config.losses import Loss, LossKind, LossPolicies, LossPolicy
from connectors.mirror.config.source import SourceConfig
from connectors.mirror.offsets.log_identity import LogIdentity, noted_facts
from connectors.mirror.offsets.offset_sync_writer import OffsetSyncWriter
from connectors.mirror.offsets.source_offsets import Reached
from tests.simulation.groups.logs import Partition
from tests.simulation.groups.topics import Topics, WorkerTopics
from tests.support.fake_clock import FakeClock

__all__ = ["TOPIC", "Copier"]

TOPIC = "t"
_SOURCE_IDS, _TARGET_IDS = 1 << 32, 1 << 64
_FROZEN_S = 30.0


@dataclass
class _Copy:
    """A partition as its task has it."""

    of: Partition
    position: int
    stored: int
    storing: int = -1
    """The highest position that is stored, or may be."""
    target_end: int = -1
    target_id: int | None = None
    source_id: int | None = None
    anchors: list[tuple[int, int]] = field(default_factory=list)
    standing: bool = False
    learned: bool = False
    copied: bool = False
    fresh: set[int] = field(default_factory=set)
    """Source offsets that were copied, and are not in written pages yet."""
    told_at: int | None = None
    """The number of the produced record by which a loss is told."""
    resumed: bool = False
    """Records are copied again by this worker."""
    told_once_read: bool = False
    """It is told only when the map's topic was read."""

    @property
    def behind_stored(self) -> bool:
        """As of the real partition: it is not copied before its lower position is stored."""
        return self.position < self.storing


class Copier:
    """One worker's task, and its partitions."""

    def __init__(
        self,
        name: str,
        topics: Topics,
        config: SourceConfig,
        policies: LossPolicies,
        now_ms: int,
        random: Random,
        *,
        exactly_once: bool,
    ) -> None:
        self.name = name
        self._random = random
        self._policies = policies
        self._exactly_once = exactly_once
        self.topics = WorkerTopics(topics, random)
        self.clock = FakeClock(now_ms=now_ms)
        self.sync_writer = OffsetSyncWriter(config, None, self.clock, self.topics)
        self.copies: dict[int, _Copy] = {}
        self._leaving: list[_Copy] = []
        self._commit: tuple[Future[list[StoredOffset]], list[tuple[_Copy, int]]] | None = None
        self.story: list[str] = []

    def assign(self, partition: Partition) -> None:
        """Begin with a partition where its stored offset says."""
        start = partition.stored
        position = partition.source.start if start is None else start
        before = -1 if start is None else position
        copy = _Copy(partition, position, before, before)
        self.copies[partition.number] = copy
        if partition.noted is not None and partition.noted[0] == position:
            self._learn(copy, noted_facts(partition.noted[1], position))

    def turn(self) -> None:
        """What a task's step does besides copying."""
        self.sync_writer.poll()
        facts = self.sync_writer.facts()
        for copy in self.copies.values():
            if copy.told_once_read and not self._waits:
                copy.told_at, copy.told_once_read = self.topics.producer.produced, False
        if facts is not None:
            for copy in self.copies.values():
                if not copy.learned:
                    known = facts.get(_key(copy.of))
                    holds = known is not None and known.hold_for(copy.stored)
                    self._learn(copy, known if holds else None)
        self._finish_commit()

    def _learn(self, copy: _Copy, facts: LogIdentity | None) -> None:
        copy.learned = True
        if facts is not None:
            copy.source_id = _number(facts.source_topic_id, copy.source_id)
            copy.target_id = _number(facts.target_topic_id, copy.target_id)
            if copy.target_end < 0:
                copy.target_end = facts.target_end
                copy.anchors = [each for each in facts.anchors if each[0] <= copy.position]
        self.look(copy)
        if copy.of.untold and copy.told_at is None:
            copy.of.hidden = True  # it was not found, and nobody will

    def look(self, copy: _Copy) -> None:
        """Compare both logs with what is known of them."""
        source, target = copy.of.source, copy.of.target
        source_id, target_id = _SOURCE_IDS + source.life, _TARGET_IDS + target.life
        if copy.source_id not in (None, source_id):
            self._tell(copy, LossKind.SOURCE_RECREATED, 0, copy.position, source.start)
            copy.anchors.clear()
        elif copy.position > source.end:
            again = self._policies.of(LossKind.TRUNCATION) is LossPolicy.COPY
            self._tell(
                copy,
                LossKind.TRUNCATION,
                source.end,
                copy.position,
                source.start if again else source.end,
            )
        copy.source_id = source_id
        if copy.target_id not in (None, target_id):
            self._target_lost(copy, LossKind.TARGET_RECREATED, 0, max(0, copy.target_end), None)
        elif -1 < target.end < copy.target_end:
            found = [a for a in copy.anchors if a[1] <= target.end]
            anchor = found[-1] if found else None
            self._target_lost(copy, LossKind.TARGET_LOSS, target.end, copy.target_end, anchor)
        copy.target_id = target_id

    def _target_lost(
        self, copy: _Copy, kind: LossKind, first: int, end: int, anchor: tuple[int, int] | None
    ) -> None:
        resume = copy.position
        if self._policies.of(kind) is LossPolicy.COPY:
            resume = copy.of.source.start if anchor is None else anchor[0]
        self._tell(copy, kind, first, end, resume, anchor)
        copy.target_end = -1
        copy.anchors = [each for each in copy.anchors if each[1] <= first]
        if kind is LossKind.TARGET_RECREATED:
            copy.anchors.clear()

    def _tell(
        self,
        copy: _Copy,
        kind: LossKind,
        first: int,
        end: int,
        resume: int,
        anchor: tuple[int, int] | None = None,
    ) -> None:
        policy = self._policies.of(kind)
        stands = policy is LossPolicy.FAIL
        key = _key(copy.of)
        loss = Loss(kind, policy, key, key, first, end, copy.position, None if stands else resume)
        self.story.append(f"{self.name}: {loss}")
        self.sync_writer.lost(key, loss, anchor)
        if loss.on_target or (kind is LossKind.SOURCE_RECREATED and not stands):
            copy.told_at = self.topics.producer.produced
            copy.told_once_read = True  # a turn tells whether it was
            copy.of.untold = True
            copy.of.tells += 1
        if loss.on_target:
            # The place may be known by an anchor before it only. What was copied beyond the
            # position is copied again: another worker died before it stored that.
            end = max(copy.position, copy.of.high)
            copy.of.inexact |= set(range(0 if anchor is None else anchor[0], end + 1))
        copy.standing = copy.standing or stands
        if not stands:
            if resume < copy.position:
                copy.of.resumed, copy.resumed = resume, True
                copy.of.known = {o for o in copy.of.known if o < resume}
            copy.position = resume
            copy.fresh = {o for o in copy.fresh if o < resume}

    def copy(self, number: int, count: int, foreign: int) -> int:
        """Copy up to `count` source offsets; returns how many records. `foreign`: so many records
        of others are on the target before them."""
        copy = self.copies[number]
        if not copy.learned and not copy.of.untold and self._random.random() < 0.3:
            self.look(copy)  # it is not waited for long
        if copy.learned or not copy.of.untold:
            self.look(copy)
        if copy.learned and copy.of.untold and copy.told_at is None:
            copy.of.hidden = True  # what the target had is not known
        if copy.standing or (copy.of.untold and copy.told_at is None and not copy.of.hidden):
            return 0
        source, target = copy.of.source, copy.of.target
        if copy.position < source.start:
            self._tell(copy, LossKind.RETENTION, copy.position, source.start, source.start)
            if copy.standing:
                return 0
        if copy.behind_stored:
            self._store_lower(copy)
            return 0
        end = min(copy.position + count, source.end)
        first = copy.position
        runs: list[tuple[int, int]] = []
        for offset in range(first, end):
            if not source.alive[offset]:
                continue
            if runs and sum(runs[-1]) == offset:
                runs[-1] = (runs[-1][0], runs[-1][1] + 1)
            else:
                runs.append((offset, 1))
        if runs:
            for _ in range(foreign):
                target.append(None)
            base = target.end
            for offset, length in runs:
                for each in range(offset, offset + length):
                    target.append((source.life, each))
                    copy.of.older_copies.discard((source.life, each))
                    copy.fresh.add(each)
            if max(copy.of.known, default=-1) >= first:
                copy.of.known = {o for o in copy.of.known if o < first}
            copy.target_end = target.end
            if self._exactly_once:
                target.append(None)
            self.sync_writer.copied(_key(copy.of), runs, base, source.start)
            copy.copied = True
        copy.position = end
        copy.of.high = max(copy.of.high, end)
        if self._exactly_once and end > first:
            facts = self._facts(copy)
            copy.of.stored, copy.of.noted = end, (end, facts.newest.encode())
            copy.stored = copy.storing = end
            copy.of.resumed = None
            self._drop_anchor(copy)
            self.sync_writer.committed()
        return sum(length for _, length in runs)

    def _store_lower(self, copy: _Copy) -> None:
        """Store the position to which a loss moved it back: by a commit, or in a transaction of its
        own."""
        if not self._exactly_once:
            self.commit()
            return
        position = copy.position
        copy.of.stored, copy.of.noted = position, (position, self._facts(copy).newest.encode())
        copy.stored = copy.storing = position
        copy.of.resumed = None
        self.sync_writer.committed()

    def _facts(self, copy: _Copy) -> LogIdentity:
        self._drop_anchor(copy)
        return LogIdentity(
            max(0, copy.stored),
            copy.position,
            copy.target_end,
            None if copy.source_id is None else UUID(int=copy.source_id),
            None if copy.target_id is None else UUID(int=copy.target_id),
            (),
            tuple(copy.anchors),
        )

    @staticmethod
    def _drop_anchor(copy: _Copy) -> None:
        if copy.target_end >= 0 and (not copy.anchors or copy.anchors[-1][1] < copy.target_end):
            copy.anchors.append((copy.position, copy.target_end))
            del copy.anchors[:-6]

    def commit(self) -> None:
        """Begin to store positions, if that is not under way."""
        if self._commit is not None:
            return
        moved = [
            copy
            for copy in (*self.copies.values(), *self._leaving)
            if copy.behind_stored
            or (copy.position > 0 and (copy.position != copy.stored or copy.fresh))
        ]
        for copy in moved:
            copy.storing = max(copy.storing, copy.position)
        reached = [
            Reached(
                _key(c.of),
                c.position,
                c.of.source.start,
                None if c.behind_stored else self._facts(c),
            )
            for c in moved
        ]
        self._commit = self.sync_writer.prepare(reached), [(copy, copy.position) for copy in moved]
        # Before the map was read, no pages are written.
        settled = [] if self.topics.reads else moved
        self._in_pages = [(copy, set(copy.fresh)) for copy in settled]
        self._began_at = self.topics.producer.produced

    def _finish_commit(self) -> None:
        if self._commit is None or not self._commit[0].done():
            return
        moved, self._commit = self._commit[1], None
        behind = [copy for copy, _ in moved if copy.behind_stored]
        for copy, position in moved:
            copy.stored = copy.storing = position
            if not self._exactly_once:
                copy.of.stored, copy.of.noted, copy.of.resumed = position, None, None
        if not self.topics.reads and self.topics.producer.failed_at < 0:
            for copy, offsets in self._in_pages:
                if offsets <= copy.fresh:
                    copy.fresh -= offsets
                    copy.of.known |= offsets
        settled = [c for c in behind if not c.behind_stored]
        if settled:
            self.sync_writer.prepare(
                [Reached(_key(c.of), c.stored, c.of.source.start, self._facts(c)) for c in settled]
            )
        self.sync_writer.committed()
        for copy in self._leaving:
            if copy.of.number not in self.copies:
                self.sync_writer.forget(_key(copy.of))
        self._leaving = []

    def deliver(self, most: int) -> None:
        """Let the cluster acknowledge some of what was written."""
        self.topics.producer.deliver(most)
        self._see_told()

    @property
    def _waits(self) -> bool:
        """Whether pages wait until the map's topic was read, or until it owns their partition."""
        return self.topics.reads or self.sync_writer.takes_over

    def _see_told(self) -> None:
        producer = self.topics.producer
        for copy in self.copies.values():
            waits = copy.told_once_read or self._waits
            if copy.told_at is None or producer.written < copy.told_at or waits:
                continue
            if producer.failing or producer.failed_at >= 0:
                copy.of.hidden = True
            copy.of.untold, copy.told_at = False, None

    @property
    def writes(self) -> bool:
        """Whether it can write to the internal topics."""
        return not self.topics.producer.failing

    def pages_are_gone(self) -> None:
        """The map's topic was reset: what was written in it is not known any more."""
        self._in_pages = []
        for copy in self.copies.values():
            copy.fresh.clear()

    def settle(self) -> None:
        """Everything that can be done without new events."""
        self._wait()
        self.commit()
        self._wait()

    def _wait(self) -> None:
        """Until what was begun has ended."""
        for _ in range(4):
            if self.topics.reads and self.topics.reading is not None:
                self.topics.reading.finish()
            self.turn()
            self.deliver(1 << 30)

    def release(self, number: int) -> None:
        """Store where a partition is, and let it go."""
        self.settle()
        self.commit()
        copy = self.copies.pop(number)
        self._leaving.append(copy)
        self._wait()
        self.turn()

    def compare(self) -> None:
        """Read what others wrote to the map's topic since, and write over what is not right."""
        for _ in range(40):
            self.clock.advance(8)
            self.sync_writer.poll()
        for _ in range(2):
            self.commit()
            self.settle()

    def wake_up(self) -> None:
        """Go on after a freeze, while others have the partitions: what waits is sent, it writes
        what it may, and then it learns that it is out."""
        self.clock.advance(_FROZEN_S)
        self.sync_writer.poll()
        self.deliver(1 << 30)
        reached = [
            Reached(_key(c.of), c.position, c.of.source.start, self._facts(c))
            for c in self.copies.values()
            if c.position > 0
        ]
        self.sync_writer.prepare(reached)
        if self.topics.reads and self.topics.reading is not None and self._random.random() < 0.7:
            self.topics.reading.finish()
            self.sync_writer.poll()
            self.sync_writer.prepare(reached)
        self.topics.producer.deliver(self._random.randint(0, 10))
        self.topics.producer.die()

    def die(self) -> None:
        """A crash: what was under way may have come, or not."""
        self.topics.producer.die()
        self._see_told()
        for copy in self.copies.values():
            if copy.told_at is not None:
                copy.of.hidden = True


def _key(partition: Partition) -> TopicPartition:
    return TOPIC, partition.number


def _number(topic_id: UUID | None, known: int | None) -> int | None:
    return known if topic_id is None else topic_id.int
