"""Checks what the task did against what is so, after every step and at the end."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from uuid import UUID

from connect.clients.librdkafka.topic_log import LogRecord
from connect.plugin import OFFSET_NOTE
from connect.protocol.messages import TopicPartition
from connect.storage.offset_codec import decode_key, decode_value
from connectors.mirror.config.losses import Loss, LossKind
from connectors.mirror.copy.quarantine import QuarantinedRecords
from connectors.mirror.offsets.log_identity import noted_facts
from tests.simulation.kafka.log import Batch, Log
from tests.simulation.mirror.internal_topics import InternalTopic
from tests.simulation.mirror.lives import life_of, offset_of
from tests.simulation.mirror.map_oracle import MapOracle
from tests.simulation.mirror.session import Finding, Session, SessionProducers
from tests.simulation.mirror.timeline import Timeline
from tests.simulation.mirror.truth import Copies, Copy, SourceTruth

__all__ = ["Oracle"]

_LATE_S = 10.0
"""So long after a session has told that the target's topic is another one, syncs that it had handed
to its client are still of the one before."""

_TELL_S = 5.0
"""So soon after its transaction a live worker reports what it left out."""


class Oracle:
    """Knows all sessions. `map_topic` None: the map is off."""

    def __init__(
        self,
        timeline: Timeline,
        connector: str,
        sources: Mapping[TopicPartition, SourceTruth],
        copies: Mapping[TopicPartition, Copies],
        syncs_topic: InternalTopic,
        map_topic: InternalTopic,
        *,
        keeps_map: bool,
    ) -> None:
        """`copies`: by the source partition."""
        self._timeline = timeline
        self._connector = connector
        self._sources = sources
        self._copies = copies
        self._keeps_map = keeps_map
        self._producers = SessionProducers()
        self.map = MapOracle(sources, copies, self._producers, syncs_topic, map_topic)
        self.map.forgives = self._forgives
        self.map.moved = lambda key: key in self._forgiving
        self.in_quarantine: Collection[tuple[TopicPartition, int]] = ()
        """(source partition, source offset)"""
        self.life_of_topic: Callable[[UUID], int | None] = lambda _: None
        """Which of the source's topics of a name has this id."""
        self._in_transaction: set[TopicPartition] = set()
        """Partitions whose stored position was stored in a transaction."""
        self._forgiving: dict[TopicPartition, float | None] = {}
        """Partitions whose target's topic was created again, and when that was told; None: not
        yet."""
        self._to_tell_of_target: set[TopicPartition] = set()
        """Partitions of which a position was stored when the target's topic was deleted."""
        self._to_tell: set[TopicPartition] = set()
        """Partitions whose topic was created again after a position of it was stored."""
        self._offset_writers: dict[Batch, Session] = {}
        self._all: dict[Session, None] = {}
        """That have begun with a partition."""
        self._stored: dict[TopicPartition, int] = {}
        self._owed: list[tuple[TopicPartition, int, int]] = []
        """(partition, stored position, end of the target's log then)"""
        self._untold: list[tuple[TopicPartition, int, Session, float]] = []
        self._complete_to: dict[TopicPartition, int] = {}
        self._chain: dict[TopicPartition, int] = {}
        """Next number of partitions that only exactly-once sessions copied since."""
        self._late_firsts: set[TopicPartition] = set()
        """Partitions whose first offset was stored by a session after a later one had begun."""
        self._unfenced: dict[TopicPartition, int] = {}
        """The least position that was stored outside transactions since one was stored in them."""
        self.read_offsets: Callable[[], None] = lambda: None
        """Calls `stored` with what is new in the offsets topic."""

    # What the world tells.

    def writes(self, producer: tuple[int, int], session: Session) -> None:
        """This producer (id, epoch) belongs to a session."""
        self._producers.given(producer, session)

    def began(self, session: Session, key: TopicPartition, position: int) -> None:
        """A session copies a partition from this source offset on."""
        self._timeline.note(f"{session.name} begins {key[0]}-{key[1]} at {position}")
        self.read_offsets()
        position = self._begun_at(session, key, position)
        session.lives[key] = life_of(position)
        stored = self._stored.get(key)
        complete = self._complete_to.get(key)
        # What the target acknowledged to this session is copied, though it may not be stored, and
        # so is what was stored when it first began; others may have stored earlier positions since.
        copied = max(session.acked.get(key, 0), session.began.get(key, 0))
        if stored is not None and position > max(stored, copied):
            lost = self._sources[key].unexplained(max(stored, copied), position)
            if lost is not None and (session.superseded or self._first_came_late(session, key)):
                # It read the stored offsets before the others came, and nothing can fence it.
                self._sources[key].lost.append((stored, position))
            elif lost is not None:
                raise Finding(
                    f"{session.name} begins {key} at {position}, though {stored} was stored, and"
                    f" record {lost} was not reported as lost"
                )
        if stored is None:
            session.new.add(key)
            self._check_first_position(session, key, position)
        if complete is None or (stored is None and position > complete):
            # Nothing was known of it before.
            self._complete_to[key] = position
        acked = session.acked.get(key)
        if acked is not None and position < acked and not session.disturbed:
            raise Finding(
                f"{session.name} begins {key} again at {position}, though the target had"
                f" acknowledged to it everything before {acked}"
            )
        session.began[key] = position
        self._all[session] = None
        session.ends[key] = self._copies[key].log.end
        session.next.pop(key, None)
        if self._unfenced.get(key, position + 1) <= position:
            session.copies_again.add(key)
        else:
            session.copies_again.discard(key)

    def _first_came_late(self, session: Session, key: TopicPartition) -> bool:
        """Whether nothing could tell this session where to go on: an earlier one stored the
        partition's first offset after this one had begun, and there is no map that says where the
        partition was begun."""
        new_here = session.disturbed and key not in session.began
        return new_here and not self._keeps_map and key in self._late_firsts

    def _begun_at(self, session: Session, key: TopicPartition, offset: int) -> int:
        """The number that a session takes this source offset for. Where it goes on it may not know
        yet that the topic is another one; it does if it has told so."""
        source = self._sources[key]
        if source.life:
            stored = self._stored.get(key)
            kept = None if stored is not None else self.map.first_positions().get(key)
            known = session.lives.get(key, 0)
            for number in (session.acked.get(key), stored, kept):
                if number is None or life_of(number) < known:
                    continue
                if offset_of(number) == offset:
                    return number
        return source.number(offset)

    def topic_deleted(self) -> None:
        """The source's topic is deleted; what comes under its name is another one."""
        self.read_offsets()
        self._to_tell |= {key for key in self._stored if self._knows_logs(key)}

    def source_cut_off(self, key: TopicPartition, end: int) -> None:
        """The source's log lost its records from this offset on."""
        self.read_offsets()
        beyond = self._stored.get(key, 0) > self._sources[key].number(end)
        if beyond and self._knows_logs(key):
            self._to_tell.add(key)

    def target_deleted(self) -> None:
        """The target's topic is deleted: what was copied is gone. Until a session says so, what it
        says and writes may be of the topic before."""
        self.check()
        for key, copies in self._copies.items():
            self._sources[key].lost_on_target |= copies.numbers()
            self._forgiving[key] = None
            if self._stored.get(key) and self._knows_logs(key):
                self._to_tell_of_target.add(key)
            else:
                self.map.spoilt.add(key)  # its pages may stay

    def target_created(self, key: TopicPartition, log: Log) -> None:
        """It is created again."""
        self._copies[key].begin_anew(log)
        for at in [each for each in self.map.finders if each[0] == key]:
            del self.map.finders[at]
        for session in self._all:
            if key in session.ends:
                session.ends[key] = 0

    def _knows_logs(self, key: TopicPartition) -> bool:
        """Whether the next session can know the logs of the stored position. At least once the map
        does not say it where the last commit came while the map was read."""
        facts = self.map.facts(key)
        known = facts is not None and facts.hold_for(offset_of(self._stored[key]))
        return known or key in self._in_transaction

    def _forgives(self, key: TopicPartition) -> bool:
        """Whether the target's topic is another one, and that was told a moment ago at most."""
        told_at = self._forgiving.get(key, -math.inf)
        return told_at is None or self._timeline.monotonic() < told_at + _LATE_S

    def _may_be_blind(self, session: Session, key: TopicPartition) -> bool:
        """Whether a session may take a log for the one before. The topic's id and its leader epochs
        are stored with the offsets in a transaction, else in the map, which may be off or late, or
        have been written by somebody else."""
        if session.exactly_once or key in self._in_transaction:
            return not (session.exactly_once and key in self._in_transaction)
        return (
            not self._keeps_map
            or key in self.map.spoilt
            or any(each.slow_map or each.disturbed or not each.whole for each in self._all)
        )

    def _check_first_position(self, session: Session, key: TopicPartition, position: int) -> None:
        """A partition without a stored offset goes on where it was begun."""
        came_back = position == session.acked.get(key)
        if came_back or session.slow_map or session.disturbed or session.superseded:
            return
        # A note that an ended worker left under way may arrive after its successor has read the
        # topic, which cannot know of it then.
        kept = self.map.first_positions(session.read_to).get(key)
        if kept is None or key not in self.map.first_positions():
            return
        copied = max(kept, session.acked.get(key, 0))
        if self._sources[key].unexplained(copied, position) is not None:
            raise Finding(
                f"{session.name} begins {key} at {position}, though it was begun at {kept} before,"
                " and reported no loss"
            )

    def _check_kept(self, session: Session, key: TopicPartition) -> None:
        """Nothing is copied before it is kept where the partition begins."""
        session.new.discard(key)
        if session.slow_map or session.superseded or key in self._stored:
            return
        if key not in self.map.first_positions():
            raise Finding(
                f"{key}: {session.name} copies a partition of which nothing is stored, and it is"
                " not kept where it begins"
            )

    def appended(self, key: TopicPartition, batch: Batch) -> None:
        """A batch is in a target partition's log."""
        session = self._producers.session_of(batch)
        if self._keeps_map and session is not None and key in session.new:
            self._check_kept(session, key)

    def cut_off(self, key: TopicPartition, end: int) -> None:
        """The target's log lost batches that were not replicated: what comes there is new."""
        for session in self._all:
            if key in session.ends:
                session.ends[key] = min(session.ends[key], end)

    def acked(
        self, session: Session, key: TopicPartition, runs: Sequence[tuple[int, int]], base: int
    ) -> None:
        """The target acknowledged these (source offset, count) runs, from `base` on."""
        copies = self._copies[key]
        copies.read_ahead()
        target = base
        for first, count in runs:
            wrong = self._wrong_place(key, first, count, target) if base >= 0 else None
            if wrong is not None and not self._forgives(key):
                raise Finding(wrong)
            if base >= 0 and wrong is None:
                copy = copies.at.get(target)
                if copy is not None:
                    session.lives[key] = max(session.lives[key], life_of(copy.source))
                own = copy is not None and self.map.session_of(copy) is session
                if copy is not None and not (own and target >= session.ends.get(key, 0)):
                    # A crash had left it there, or it was answered when the partition had left:
                    # found, and not copied again.
                    # The log may have been cut off in the middle of them.
                    session.next[key] = copies.at[target + count - 1].source + 1
                    for at in range(target, target + count):
                        self.map.finders[key, at] = session
            target += count
            session.acked[key] = self._sources[key].number(first + count, session.lives[key])

    def _wrong_place(self, key: TopicPartition, first: int, count: int, target: int) -> str | None:
        """What is wrong with source records that were acknowledged from `target` on."""
        for ahead in (0, count - 1):
            copy = self._copies[key].at.get(target + ahead)
            if copy is None or offset_of(copy.source) != first + ahead:
                return (
                    f"{key}: source {first + ahead} was acknowledged at {target + ahead} of the"
                    f" target, where {copy} is"
                )
        return None

    def _copied_again(self, session: Session, key: TopicPartition, number: int) -> bool:
        """Whether this record is the first after a loss that moved the session back."""
        resumes = session.resumes.get(key, ())
        return any(
            resume <= number and self._sources[key].unexplained(resume, number) is None
            for resume in resumes
        )

    def commits(self, session: Session, key: TopicPartition, position: int) -> None:
        """A session is about to store this source offset outside transactions."""
        session.committing[key, position] = session.lives.get(key, 0)

    def lost(self, session: Session, loss: Loss) -> None:
        """A session reports a loss."""
        self._timeline.note(f"{session.name} reports {loss}")
        key, source = loss.source, self._sources[loss.source]
        if loss.kind is LossKind.RETENTION:
            self._excuse_in_each(session, key, loss.first, loss.end)
        elif loss.kind is LossKind.SOURCE_RECREATED and source.life and not source.cut:
            session.lives[key] = source.life
            self._to_tell.discard(key)
            self._excuse(key, source.life, 0, loss.resume or 0)
        elif loss.on_target and key in self._forgiving:
            # One that has not learned the first topic's id takes it for another loss.
            self._forgiving[key] = self._timeline.monotonic()
            if not session.superseded:  # else it writes no page of it
                self._to_tell_of_target.discard(key)
        elif loss.kind is LossKind.TRUNCATION and source.cut:
            session.lives[key] = source.life
            self._to_tell.discard(key)
            if loss.resume is not None:
                session.resumes.setdefault(key, set()).add(source.number(loss.resume))
        elif loss.kind is LossKind.TRUNCATION and source.life and self._may_be_blind(session, key):
            # The new topic ends before the position of the old one.
            self._excuse(key, source.life, 0, max(loss.end, loss.resume or 0))
            session.lives[key] = source.life
            self.map.spoilt.add(key)
        else:
            raise Finding(f"{session.name} reports a loss that did not happen: {loss}")

    def put_aside(self, session: Session, aside: QuarantinedRecords) -> None:
        """A session went on after records that it wrote to the quarantine."""
        key = aside.source
        for offset in range(aside.first, aside.last + 1):
            if (key, offset) not in self.in_quarantine:
                raise Finding(f"{key}: {session.name} put {offset} aside, and it is nowhere")
        self._timeline.note(
            f"{session.name} puts aside {key[0]}-{key[1]} {aside.first} to {aside.last}"
        )
        self._excuse_in_each(session, key, aside.first, aside.last + 1)
        for life in self._lives(session, key):
            for offset in range(aside.first, aside.last + 1):
                self.map.put_aside[key, self._sources[key].number(offset, life)] = session

    def _excuse_in_each(self, session: Session, key: TopicPartition, first: int, end: int) -> None:
        """Of these offsets, in the log that the session has shown and in the present one."""
        for life in self._lives(session, key):
            self._excuse(key, life, first, end)

    def _lives(self, session: Session, key: TopicPartition) -> list[int]:
        """Those to which an offset that this session tells may belong."""
        return sorted({session.lives[key], self._sources[key].life})

    def _excuse(self, key: TopicPartition, life: int, first: int, end: int) -> None:
        source = self._sources[key]
        first, end = source.number(first, life), source.number(end, life)
        source.lost.append((first, end))
        self._untold = [
            each for each in self._untold if each[0] != key or not first <= each[1] < end
        ]

    def wrote_offsets(self, batch: Batch, session: Session) -> None:
        """A batch of the offsets topic is this session's."""
        self._offset_writers[batch] = session

    def stored(self, record: LogRecord, batch: Batch) -> None:
        """A source offset is durable in the offsets topic, and committed."""
        decoded = decode_key(record.key or b"")
        if decoded is None or decoded[0] != self._connector:
            return
        partition = (str(decoded[1]["topic"]), int(decoded[1]["partition"] or 0))
        offset = decode_value(record.value)
        if offset is None:
            self._stored.pop(partition, None)
            return
        writer = self._offset_writers.pop(batch, None)
        writer = writer or self._producers.session_of(batch)
        position = int(offset["offset"] or 0) + 1
        life = self._life_of_stored(record, batch, writer, partition, position)
        position = self._sources[partition].number(position, life)
        before = self._stored.get(partition)
        self._stored[partition] = position
        if batch.transactional:
            self._unfenced.pop(partition, None)
            self._in_transaction.add(partition)
        else:
            self._unfenced[partition] = min(position, self._unfenced.get(partition, position))
            self._in_transaction.discard(partition)
        if writer is not None:
            writer.stored[partition] = max(position, writer.stored.get(partition, 0))
        if writer is None or writer.superseded:
            self.map.spoilt.add(partition)
            if before is None:
                self._late_firsts.add(partition)
        self._timeline.note(f"stored: {partition[0]}-{partition[1]} at {position}, was {before}")
        self._owed.append((partition, position, self._copies[partition].log.end))

    def _life_of_stored(
        self,
        record: LogRecord,
        batch: Batch,
        writer: Session | None,
        key: TopicPartition,
        position: int,
    ) -> int:
        """Which topic of the source's name a stored position belongs to."""
        note = next((value for name, value in record.headers or () if name == OFFSET_NOTE), None)
        facts = noted_facts(note, position)
        if facts is not None and facts.source_topic_id is not None and not self._sources[key].cut:
            return self.life_of_topic(facts.source_topic_id) or 0
        if batch.transactional:
            return self._life_of_copy(writer, key, position)
        return 0 if writer is None else writer.committing.get((key, position), 0)

    def _life_of_copy(self, writer: Session | None, key: TopicPartition, position: int) -> int:
        """Of the newest copy of the record before this position by who stored it."""
        copies = self._copies[key]
        copies.read_ahead()
        lives = [
            life_of(copy.source)
            for copy in copies.at.values()
            if offset_of(copy.source) == position - 1 and self.map.session_of(copy) is writer
        ]
        return max(lives, default=0)

    def stored_position(self, key: TopicPartition) -> int | None:
        """Its number."""
        return self._stored.get(key)

    # After every step.

    def check(self) -> None:
        """Raises `Finding`."""
        self.read_offsets()
        for key, copies in self._copies.items():
            for copy in copies.decided():
                self._check_order(key, copy)
        if self._owed:
            self._check_stored()
        if self._untold:
            self._check_told()

    def _check_told(self) -> None:
        now = self._timeline.monotonic()
        # Where a worker dies before it has told, only its log has it.
        self._untold = [each for each in self._untold if each[2].alive]
        for key, lost, session, by in self._untold:
            if now > by and not session.frozen and not session.superseded:
                raise Finding(f"{key}: {session.name} left out {lost}, and reported no loss")

    def _check_order(self, key: TopicPartition, copy: Copy) -> None:
        """Each session's records are the source's, in their order and without gaps."""
        batch = copy.batch
        session = self._producers.session_of(batch)
        if session is None:
            raise Finding(f"{key}: nobody's producer {batch.producer} wrote source {copy.source}")
        expected = session.next.get(key, session.began.get(key))
        if expected is None:
            raise Finding(f"{key}: {session.name} wrote {copy.source} before it began")
        if life_of(copy.source) < life_of(expected) and not self._sources[key].cut:
            raise Finding(f"{key}: {session.name} copies {copy.source} of a topic that it left")
        if self._forgives(key):
            session.next[key] = copy.source + 1
            return
        if copy.source > expected:
            lost = self._sources[key].unexplained(expected, copy.source)
            another = life_of(copy.source) > life_of(expected)
            if lost is not None and another and self._may_be_blind(session, key):
                self._sources[key].lost.append((expected, copy.source))
                self.map.spoilt.add(key)
            elif lost is not None and session.exactly_once:
                # It is told when the transaction is committed, so a moment later.
                self._untold.append((key, lost, session, self._timeline.monotonic() + _TELL_S))
                self._sources[key].lost.append((expected, copy.source))
            elif lost is not None:
                raise Finding(
                    f"{key}: {session.name} wrote source {copy.source} where {expected} was next;"
                    f" record {lost} is left out and was not reported as lost"
                )
        if session.exactly_once:
            chained = None if key in session.copies_again else self._chain.get(key)
            session.copies_again.discard(key)
            again = self._copied_again(session, key, copy.source)
            if copy.source < max(expected, chained or 0) and not again:
                raise Finding(
                    f"{key}: source {copy.source} is committed twice, now by {session.name}"
                )
            self._chain[key] = copy.source + 1
        else:
            self._chain.pop(key, None)
        session.next[key] = copy.source + 1

    def _check_stored(self) -> None:
        """Everything before a stored position is on the target, or was reported as lost."""
        still: list[tuple[TopicPartition, int, int]] = []
        for key, position, end in self._owed:
            copies = self._copies[key]
            if copies.decided_to < end:
                still.append((key, position, end))
                continue
            for offset in self._sources[key].between(self._complete_to.get(key, 0), position):
                if not copies.has(offset) and not self._sources[key].is_lost(offset):
                    raise Finding(
                        f"{key}: position {position} is stored, but record {offset} is not on the"
                        " target and was not reported as lost"
                    )
            self._complete_to[key] = max(self._complete_to.get(key, 0), position)
        self._owed = still

    # The end.

    def check_end(self, log_starts: Mapping[TopicPartition, int]) -> None:
        """Everything is copied, stored and explained."""
        self.check()
        self._check_recreation_told()
        for key, source in self._sources.items():
            copies = self._copies[key]
            for offset in source.between(self._complete_to.get(key, 0), source.end):
                if not copies.has(offset) and not source.is_lost(offset):
                    raise Finding(f"{key}: record {offset} was never copied")
            if self._keeps_map:
                if key in self._stored and key in self.map.first_positions():
                    raise Finding(f"{key}: it is kept where it began, though an offset is stored")
                self.map.check_whole(key, source.number(log_starts[key]))

    def _check_recreation_told(self) -> None:
        # Exactly once it is told after the commit. Where the worker dies in between, only its log
        # has it.
        died = any(each.killed and each.exactly_once for each in self._all)
        # Workers of both kinds do not read each other's facts.
        died = died or len({each.exactly_once for each in self._all}) > 1
        last = max(self._all, key=lambda each: each.number)
        for key in self._to_tell_of_target:
            if not self._may_be_blind(last, key):
                raise Finding(f"{key}: the target's topic is another one, and nobody said so")
            self.map.spoilt.add(key)
        for key in self._to_tell:
            if not died and not self._may_be_blind(last, key):
                raise Finding(f"{key}: the source's log is another one, and nobody said so")

    def check_final(self, session: Session, acked: Mapping[TopicPartition, int]) -> None:
        """An at-least-once session ended after it had stored its final offsets. `acked`: what the
        target had acknowledged before."""
        if session.disturbed or session.superseded:
            return
        self.read_offsets()
        for key, position in acked.items():
            if self._stored.get(key, -1) < position:
                raise Finding(
                    f"{key}: {session.name} stored its final offsets, {self._stored.get(key)}, but"
                    f" the target had acknowledged everything before {position}"
                )
