"""Checks what the task did against what is so, after every step and at the end."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

from connect.clients.librdkafka.topic_log import LogRecord
from connect.protocol.messages import TopicPartition
from connect.storage.offset_codec import decode_key, decode_value
from connectors.mirror.config.losses import Loss
from connectors.mirror.formats import OffsetSync
from connectors.mirror.offsets.map_notes import Note, is_note_key, parse_note_key
from connectors.mirror.offsets.offset_map_pages import parse_page_key
from connectors.mirror.offsets.offset_map_store import OffsetMapStore
from connectors.mirror.offsets.start_positions import FirstPosition
from connectors.mirror.offsets.translation import Place
from tests.simulation.kafka.log import Batch
from tests.simulation.mirror.internal_topics import InternalTopic
from tests.simulation.mirror.session import Finding, Session
from tests.simulation.mirror.timeline import Timeline
from tests.simulation.mirror.truth import Copies, Copy, SourceTruth
from tests.support.whole_map import places

__all__ = ["Oracle"]

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
        self._map_topic = map_topic
        self._map = OffsetMapStore(self._fetch_pages)
        map_topic.on_append = self._on_map_record
        syncs_topic.on_append = self._on_sync
        self._finders: dict[tuple[TopicPartition, int], Session] = {}
        """(partition, target offset) -> the session that found a dead session's copy there."""
        self._offset_writers: dict[Batch, Session] = {}
        self._spoilt: set[TopicPartition] = set()
        """Partitions of which a session wrote pages or offsets after a later one had begun: its
        pages may replace the later session's, so the map may lead astray."""
        self._sessions: dict[tuple[int, int], Session] = {}
        """By producer id and epoch."""
        self._all: dict[Session, None] = {}
        """That have begun with a partition."""
        self._stored: dict[TopicPartition, int] = {}
        self._owed: list[tuple[TopicPartition, int, int]] = []
        """(partition, stored position, end of the target's log then)"""
        self._untold: list[tuple[TopicPartition, int, Session, float]] = []
        self._complete_to: dict[TopicPartition, int] = {}
        self._chain: dict[TopicPartition, int] = {}
        """Next source offset of partitions that only exactly-once sessions copied since."""
        self._late_firsts: set[TopicPartition] = set()
        """Partitions whose first offset was stored by a session after a later one had begun."""
        self._unfenced: dict[TopicPartition, int] = {}
        """The least position that was stored outside transactions since one was stored in them."""
        self.newest_sync: dict[TopicPartition, OffsetSync] = {}
        self.read_offsets: Callable[[], None] = lambda: None
        """Calls `stored` with what is new in the offsets topic."""

    # What the world tells.

    def writes(self, producer: tuple[int, int], session: Session) -> None:
        """This producer (id, epoch) belongs to a session."""
        self._sessions[producer] = session

    def began(self, session: Session, key: TopicPartition, position: int) -> None:
        """A session copies a partition from this source offset on."""
        self._timeline.note(f"{session.name} begins {key[0]}-{key[1]} at {position}")
        self.read_offsets()
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

    def _first_positions(self) -> dict[TopicPartition, int]:
        """Those in the map's topic now."""
        found: dict[TopicPartition, int] = {}
        for record in self._map_topic.newest().values():
            key = parse_note_key(Note.START, record.key)
            if key is not None:
                found[key] = FirstPosition.decode(record.value or b"").position
        return found

    def _check_first_position(self, session: Session, key: TopicPartition, position: int) -> None:
        """A partition without a stored offset goes on where it was begun."""
        came_back = position == session.acked.get(key)
        if came_back or session.slow_map or session.disturbed or session.superseded:
            return
        kept = self._first_positions().get(key)
        if kept is None:
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
        if key not in self._first_positions():
            raise Finding(
                f"{key}: {session.name} copies a partition of which nothing is stored, and it is"
                " not kept where it begins"
            )

    def appended(self, key: TopicPartition, batch: Batch) -> None:
        """A batch is in a target partition's log."""
        session = self._sessions.get((batch.producer, batch.producer_epoch))
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
            if base >= 0:
                for ahead in (0, count - 1):
                    copy = copies.at.get(target + ahead)
                    if copy is None or copy.source != first + ahead:
                        raise Finding(
                            f"{key}: source {first + ahead} was acknowledged at {target + ahead} of"
                            f" the target, where {copy} is"
                        )
                copy = copies.at.get(target)
                own = copy is not None and self._session_of(copy) is session
                if copy is not None and not (own and target >= session.ends.get(key, 0)):
                    # A crash had left it there, or it was answered when the partition had left:
                    # found, and not copied again.
                    session.next[key] = first + count
                    for at in range(target, target + count):
                        self._finders[key, at] = session
            target += count
            session.acked[key] = first + count

    def lost(self, session: Session, key: TopicPartition, first: int, end: int) -> None:
        """The loss of these source offsets was reported."""
        self._timeline.note(f"{session.name} reports {key[0]}-{key[1]} lost {first} to {end - 1}")
        self._sources[key].lost.append((first, end))
        self._untold = [
            each for each in self._untold if each[0] != key or not first <= each[1] < end
        ]

    def unexpected_loss(self, session: Session, loss: Loss) -> None:
        """A loss was reported of a kind that this world does not have."""
        raise Finding(f"{session.name} reports a loss that did not happen: {loss}")

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
        position = int(offset["offset"] or 0) + 1
        before = self._stored.get(partition)
        self._stored[partition] = position
        if batch.transactional:
            self._unfenced.pop(partition, None)
        else:
            self._unfenced[partition] = min(position, self._unfenced.get(partition, position))
        writer = self._offset_writers.pop(batch, None)
        writer = writer or self._sessions.get((batch.producer, batch.producer_epoch))
        if writer is None or writer.superseded:
            self._spoilt.add(partition)
            if before is None:
                self._late_firsts.add(partition)
        self._timeline.note(f"stored: {partition[0]}-{partition[1]} at {position}, was {before}")
        self._owed.append((partition, position, self._copies[partition].log.end))

    def stored_position(self, key: TopicPartition) -> int | None:
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
        session = self._sessions.get((batch.producer, batch.producer_epoch))
        if session is None:
            raise Finding(f"{key}: nobody's producer {batch.producer} wrote source {copy.source}")
        expected = session.next.get(key, session.began.get(key))
        if expected is None:
            raise Finding(f"{key}: {session.name} wrote {copy.source} before it began")
        if copy.source > expected:
            lost = self._sources[key].unexplained(expected, copy.source)
            if lost is not None and session.exactly_once:
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
            if copy.source < max(expected, chained or 0):
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

    # Syncs and pages, as they get into their topics.

    def _on_sync(self, record: LogRecord, session: Session) -> None:
        sync = OffsetSync.decode(record.key or b"", record.value or b"")
        key = (sync.topic, sync.partition)
        copies = self._copies[key]
        copies.read_ahead()
        copy = copies.at.get(sync.downstream_offset)
        if copy is None or not copy.seen or copy.source != sync.upstream_offset:
            found = None if copy is None else copy.source
            raise Finding(f"{sync} is not true: the target has source {found} there")
        self.newest_sync[key] = sync

    def _fetch_pages(self, offsets: Collection[int]) -> Mapping[int, tuple[bytes, bytes | None]]:
        wanted = set(offsets)
        return {
            record.offset: (record.key or b"", record.value)
            for record in self._map_topic.records
            if record.offset in wanted
        }

    def _on_map_record(self, record: LogRecord, session: Session) -> None:
        if session.superseded and not is_note_key(record.key):
            topic, partition, _ = parse_page_key(record.key or b"")
            self._spoilt.add((topic, partition))
        owned = parse_note_key(Note.OWNER, record.key)
        if owned is not None:
            session.notes[owned] = record.offset
        self._map.take(record.key, record.value, record.offset)

    def translate(self, key: TopicPartition, offset: int) -> Place | None:
        return places(self._map, {key: [offset]}).get((key, offset))

    def check_translation(self, key: TopicPartition, offset: int) -> Place | None:
        """The map's answer for a group that reads `offset` next skips no record, and is true where
        it claims to be exact."""
        place = self.translate(key, offset)
        if place is None:
            return None
        if key in self._spoilt:
            return place
        copies, source = self._copies[key], self._sources[key]
        copies.read_ahead()
        if place.exact:
            at = copies.at.get(place.offset)
            between = None if at is None else source.unexplained(offset, at.source)
            if at is None or not at.seen or at.source < offset or between is not None:
                found = None if at is None else at.source
                raise Finding(
                    f"{key}: the map sends a group from {offset} to {place.offset} of the target"
                    f" and says it is exact, but source {found} is there"
                )
            return place
        for each in source.between(offset, source.end):
            found_copies = [copy.target for copy in copies.of.get(each, ()) if copy.seen]
            if found_copies and max(found_copies) < place.offset:
                raise Finding(
                    f"{key}: the map sends a group from {offset} to {place.offset} of the target:"
                    f" it skips source {each}, which is at {max(found_copies)}"
                )
        return place

    def last_copy(self, key: TopicPartition, source: int) -> Copy | None:
        """The copy of the latest session, and of that the last."""
        seen = [copy for copy in self._copies[key].of.get(source, ()) if copy.seen]
        return max(seen, key=lambda c: (self._knower(key, c).number, c.target), default=None)

    def _session_of(self, copy: Copy) -> Session:
        return self._sessions[copy.batch.producer, copy.batch.producer_epoch]

    def _knower(self, key: TopicPartition, copy: Copy) -> Session:
        """The session whose pages have this copy: it wrote it, or found it there."""
        return self._finders.get((key, copy.target)) or self._session_of(copy)

    def _explains(self, key: TopicPartition, copy: Copy) -> bool:
        """Whether the pages of who knows this copy have to have it."""
        knower = self._knower(key, copy)
        return knower.whole and not (knower.killed and key in knower.notes)

    # The end.

    def check_end(self, log_starts: Mapping[TopicPartition, int]) -> None:
        """Everything is copied, stored and explained."""
        self.check()
        for key, source in self._sources.items():
            copies = self._copies[key]
            for offset in source.between(self._complete_to.get(key, 0), source.end):
                if not copies.has(offset) and not source.is_lost(offset):
                    raise Finding(f"{key}: record {offset} was never copied")
            if self._keeps_map:
                if key in self._stored and key in self._first_positions():
                    raise Finding(f"{key}: it is kept where it began, though an offset is stored")
                self._check_whole_map(key, log_starts[key])

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

    def check_syncs(self, session: Session) -> None:
        """The last session ended well: each partition that it copied has a sync of its end."""
        for key, position in session.acked.items():
            newest = self.newest_sync.get(key)
            if newest is None or newest.upstream_offset != position - 1:
                raise Finding(f"{key}: copied up to {position}, but its newest sync is {newest}")

    def _check_whole_map(self, key: TopicPartition, start: int) -> None:
        source = self._sources[key]
        for offset in source.between(start, source.end):
            last = self.last_copy(key, offset)
            place = self.check_translation(key, offset)
            if last is None or key in self._spoilt or not self._explains(key, last):
                continue
            if place is None or not place.exact:
                raise Finding(f"{key}: the map says {place} of {offset}, which is at {last.target}")
            if place.offset != last.target:
                raise Finding(
                    f"{key}: the map sends {offset} to {place.offset}, an earlier copy than that at"
                    f" {last.target}"
                )
