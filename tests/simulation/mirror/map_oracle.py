"""Checks syncs and pages, as they get into their topics, and what the offset map answers."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from uuid import UUID

from connect.clients.librdkafka.topic_log import LogRecord
from connect.protocol.messages import TopicPartition
from connectors.mirror.formats import OffsetSync
from connectors.mirror.offsets.log_identity import LogIdentity
from connectors.mirror.offsets.map_notes import Note, is_note_key, note_key, parse_note_key
from connectors.mirror.offsets.offset_map_pages import parse_page_key
from connectors.mirror.offsets.offset_map_store import OffsetMapStore
from connectors.mirror.offsets.start_positions import FirstPosition
from connectors.mirror.offsets.translation import Place
from tests.simulation.mirror.internal_topics import InternalTopic
from tests.simulation.mirror.lives import offset_of
from tests.simulation.mirror.session import Finding, Session, SessionProducers
from tests.simulation.mirror.truth import Copies, Copy, SourceTruth
from tests.support.records.whole_map import places

__all__ = ["MapOracle"]


class MapOracle:
    """Part of the oracle, which tells it what it has to know."""

    def __init__(
        self,
        sources: Mapping[TopicPartition, SourceTruth],
        copies: Mapping[TopicPartition, Copies],
        producers: SessionProducers,
        syncs_topic: InternalTopic,
        map_topic: InternalTopic,
    ) -> None:
        """`copies`: by the source partition."""
        self._sources = sources
        self._copies = copies
        self._producers = producers
        self._map_topic = map_topic
        self._map = OffsetMapStore(self._fetch_pages)
        map_topic.on_append = self._on_map_record
        syncs_topic.on_append = self._on_sync
        self.life_of_topic: Callable[[UUID], int | None] = lambda _: None
        """Which of the source's topics of a name has this id."""
        self.forgives: Callable[[TopicPartition], bool] = lambda _: False
        """Whether syncs may be of a former topic of the target."""
        self.moved: Callable[[TopicPartition], bool] = lambda _: False
        """Whether the target's topic was created again."""
        self.finders: dict[tuple[TopicPartition, int], Session] = {}
        """(partition, target offset) -> the session that found a dead session's copy there."""
        self.spoilt: set[TopicPartition] = set()
        """Partitions of which a session wrote pages or offsets after a later one had begun: its
        pages may replace the later session's, so the map may lead astray."""
        self.newest_sync: dict[TopicPartition, OffsetSync] = {}
        self.put_aside: dict[tuple[TopicPartition, int], Session] = {}
        """(partition, number) of records in the quarantine -> the newest session that told so."""

    def first_positions(self, before: int | None = None) -> dict[TopicPartition, int]:
        """The numbers of those in the map's topic now, or before this offset of it."""
        found: dict[TopicPartition, int] = {}
        for record in self._map_topic.newest(before).values():
            key = parse_note_key(Note.START, record.key)
            if key is not None:
                first = FirstPosition.decode(record.value or b"")
                life = first.source_topic_id and self.life_of_topic(first.source_topic_id)
                found[key] = self._sources[key].number(first.position, life or 0)
        return found

    def facts(self, key: TopicPartition) -> LogIdentity | None:
        """What the map's topic has now of the logs of a partition."""
        record = self._map_topic.newest().get(note_key(Note.FACTS, key))
        return None if record is None else LogIdentity.decode(record.value or b"")

    # Syncs and pages, as they get into their topics.

    def _on_sync(self, record: LogRecord, session: Session) -> None:
        sync = OffsetSync.decode(record.key or b"", record.value or b"")
        key = (sync.topic, sync.partition)
        copies = self._copies[key]
        copies.read_ahead()
        self.newest_sync[key] = sync
        if self.forgives(key):
            return
        copy = copies.at.get(sync.downstream_offset)
        if copy is None or not copy.seen or offset_of(copy.source) != sync.upstream_offset:
            found = None if copy is None else copy.source
            raise Finding(f"{sync} is not true: the target has source {found} there")

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
            self.spoilt.add((topic, partition))
        owned = parse_note_key(Note.OWNER, record.key)
        if owned is not None:
            session.notes[owned] = record.offset
        self._map.take(record.key, record.value, record.offset)

    def translate(self, key: TopicPartition, offset: int) -> Place | None:
        return places(self._map, {key: [offset]}).get((key, offset))

    def check_translation(self, key: TopicPartition, offset: int) -> Place | None:
        """The map's answer for a group that reads `offset` next, a number of the present topic,
        skips no record, and is true where it claims to be exact."""
        place = self.translate(key, offset_of(offset))
        if place is None:
            return None
        if key in self.spoilt:
            return place
        copies, source = self._copies[key], self._sources[key]
        copies.read_ahead()
        last = self.last_copy(key, offset) if source.life else None
        # The page that tells where another log begins is for all its offsets until others come.
        explained = not source.life or (last is not None and self._explains(key, last))
        if place.exact and explained and not self.moved(key):
            at = copies.at.get(place.offset) or copies.seen_from(place.offset)
            between = None if at is None else source.unexplained(offset, at.source)
            if at is None or not at.seen or at.source < offset or between is not None:
                found = None if at is None else at.source
                raise Finding(
                    f"{key}: the map sends a group from {offset} to {place.offset} of the target"
                    f" and says it is exact, but source {found} is there"
                )
            return place
        for each in source.between(offset, source.end):
            if source.life and source.is_lost(each):
                continue
            seen = [copy for copy in copies.of.get(each, ()) if copy.seen]
            newest = max((copy.target for copy in seen), default=place.offset)
            if newest < place.offset and not self._put_aside_since(key, each, seen):
                raise Finding(
                    f"{key}: the map sends a group from {offset} to {place.offset} of the target:"
                    f" it skips source {each}, which is at {newest}"
                )
        return place

    def _put_aside_since(self, key: TopicPartition, source: int, seen: Collection[Copy]) -> bool:
        """Whether a later session than those that know these copies of the record put it aside: it
        copied again what was before and after the record."""
        aside = self.put_aside.get((key, source))
        knowers = [self._knower(key, copy).number for copy in seen]
        return aside is not None and aside.number > max(knowers)

    def last_copy(self, key: TopicPartition, source: int) -> Copy | None:
        """The copy of the latest session, and of that the last."""
        seen = [copy for copy in self._copies[key].of.get(source, ()) if copy.seen]
        return max(seen, key=lambda c: (self._knower(key, c).number, c.target), default=None)

    def session_of(self, copy: Copy) -> Session:
        session = self._producers.session_of(copy.batch)
        assert session is not None, "the order of each copy was checked before"
        return session

    def _knower(self, key: TopicPartition, copy: Copy) -> Session:
        """The session whose pages have this copy: it wrote it, or found it there."""
        return self.finders.get((key, copy.target)) or self.session_of(copy)

    def _explains(self, key: TopicPartition, copy: Copy) -> bool:
        """Whether the pages of who knows this copy have to have it."""
        knower = self._knower(key, copy)
        return knower.whole and not (knower.killed and key in knower.notes)

    def check_syncs(self, session: Session) -> None:
        """The last session ended well: each partition that it copied has a sync of its end."""
        for key, position in session.acked.items():
            newest = self.newest_sync.get(key)
            if newest is None or newest.upstream_offset != offset_of(position) - 1:
                raise Finding(f"{key}: copied up to {position}, but its newest sync is {newest}")

    def check_whole(self, key: TopicPartition, start: int) -> None:
        source = self._sources[key]
        for offset in source.between(start, source.end):
            if source.life and source.is_lost(offset):
                continue  # another record is at its offset, or may be
            last = self.last_copy(key, offset)
            place = self.check_translation(key, offset)
            if last is None or key in self.spoilt or not self._explains(key, last):
                continue
            knower = self._knower(key, last)
            if knower.killed and offset >= knower.stored.get(key, 0):
                continue  # Nobody copied it again, because it was put aside.
            if self.moved(key):
                continue  # what was copied before that was noticed is not told apart
            if place is None or not place.exact:
                raise Finding(f"{key}: the map says {place} of {offset}, which is at {last.target}")
            if place.offset > last.target and source.is_lost(offset):
                continue  # a later session told that it left the record out
            if place.offset != last.target:
                raise Finding(
                    f"{key}: the map sends {offset} to {place.offset}, an earlier copy than that at"
                    f" {last.target}"
                )
