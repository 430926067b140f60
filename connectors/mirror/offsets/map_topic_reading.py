"""Reads the topic of the offset map for the tasks that write to it.

`MapTopicReading` builds a `MapTopic` from the topic's records. `PageIndexReader` reads the topic
once on its own thread, so that a start does not wait long for it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from connect.clients.librdkafka.topic_log import LogRecord, TopicLog
from connect.clock import Deadline
from connect.errors import ConnectError, CorruptData
from connect.log_fields import OwnedThread
from connect.protocol.messages import TopicPartition
from connectors.mirror.offsets.log_identity import LogIdentity
from connectors.mirror.offsets.map_notes import (
    NO_OWNER,
    Note,
    Owner,
    decode_loss,
    in_force,
    is_note_key,
    parse_note_key,
)
from connectors.mirror.offsets.offset_map_pages import PageSpan, page_span, parse_page_key
from connectors.mirror.offsets.start_positions import FORGET_ALL, FirstPosition

__all__ = ["NOTHING_READ", "MapTopic", "MapTopicReading", "PageIndexReader"]

_LOG = logging.getLogger(__name__)

_READ_TIMEOUT_S = 600.0
_CLOSE_S = 2.0


class MapTopic(NamedTuple):
    """The contents of the map topic: spans of its pages, facts about partitions' logs, start
    positions, and each partition's last page as (first source offset, record value).

    `reached`: how far it was read; None: it could not be read. `losses`: the noted session of each
    partition's newest loss page. `late`: the first source offsets of pages that an earlier session
    overwrote, or wrote after its partition had another owner. `gone`: the first source offsets of
    deleted pages. `owners`: the session of each partition's owner. `failed`: the topic could not be
    read, and start positions and owners are those of the read before. `late_owners`: the sessions
    of notes of the owner that do not count, and that no valid note has followed; `found_late`:
    those that earlier reads found, too. `forgotten`: start positions that were deleted since the
    first read, each with the time (ms) at which that happened. `topic_id`: of the topic that was
    read; None: not known. `created_again`: it is not the topic of the read before.
    """

    pages: Mapping[TopicPartition, Sequence[PageSpan]]
    facts: Mapping[TopicPartition, LogIdentity]
    firsts: Mapping[TopicPartition, FirstPosition] = MappingProxyType({})
    reached: Mapping[int, int] | None = None
    last_pages: Mapping[TopicPartition, tuple[int, bytes]] = MappingProxyType({})
    losses: Mapping[TopicPartition, int] = MappingProxyType({})
    late: Mapping[TopicPartition, Collection[int]] = MappingProxyType({})
    gone: Mapping[TopicPartition, Collection[int]] = MappingProxyType({})
    owners: Mapping[TopicPartition, int] = MappingProxyType({})
    failed: bool = False
    late_owners: Mapping[TopicPartition, Sequence[int]] = MappingProxyType({})
    found_late: Mapping[TopicPartition, Collection[int]] = MappingProxyType({})
    forgotten: Mapping[TopicPartition, tuple[int, FirstPosition]] = MappingProxyType({})
    topic_id: str | None = None
    created_again: bool = False

    def without_contents(self) -> MapTopic:
        """Return the parts that a read needs to continue from here."""
        return MapTopic(
            {},
            {},
            self.firsts,
            self.reached,
            owners=self.owners,
            found_late=self.found_late,
            forgotten=self.forgotten,
            topic_id=self.topic_id,
        )


class MapTopicReading:
    """Builds a `MapTopic` from the map topic's records. Pure; belongs to one thread."""

    def __init__(self, topic: str, before: MapTopic) -> None:
        """`before`: the result of an earlier read, from which this one continues. The result then
        contains all start positions, deleted ones too, and all owners, but only those pages and
        facts that were written since."""
        self._topic = topic
        self._before = before
        self._after = before.reached or {}
        self._topic_id = before.topic_id
        self._created_again = False
        self._pages: dict[TopicPartition, dict[int, PageSpan]] = {}
        self._last: dict[TopicPartition, tuple[PageSpan, bytes]] = {}
        self._facts: dict[TopicPartition, LogIdentity] = {}
        self._firsts = dict(before.firsts)
        self._forgotten = dict(before.forgotten)
        self._losses: dict[TopicPartition, int] = {}
        self._late: dict[TopicPartition, set[int]] = {}
        self._gone: dict[TopicPartition, set[int]] = {}
        self._owners = dict(before.owners)
        self._late_owners: dict[TopicPartition, list[int]] = {}
        self._found_late = {key: set(found) for key, found in before.found_late.items()}
        self._notes = {
            Note.FACTS: self._take_facts,
            Note.START: self._take_first,
            Note.LOSS: self._take_loss,
            Note.OWNER: self._take_owner,
        }

    def of_topic(self, topic_id: str | None) -> None:
        """Note the id of the topic that is read."""
        if topic_id is None:
            return
        if self._topic_id not in (None, topic_id):
            self._begin_anew()
        self._topic_id = topic_id

    def _begin_anew(self) -> None:
        """Forget what was read before, because the topic was created again."""
        _LOG.warning(
            "topic %s was re-created, so its earlier pages of the offset map are "
            "gone: groups that are behind the newest pages read more again",
            self._topic,
        )
        self._created_again = True
        self._after = {}
        self._owners.clear()
        self._late_owners.clear()
        self._found_late.clear()

    def take(self, record: LogRecord) -> None:
        """Add the next record."""
        if record.offset < self._after.get(record.partition, 0):
            self._begin_anew()
        try:
            if not is_note_key(record.key):
                self._take_page(record)
            for kind, take in self._notes.items():
                partition = parse_note_key(kind, record.key)
                if partition is not None:
                    take(partition, record)
        except CorruptData as error:
            _LOG.warning(
                "ignoring a record of topic %s that is not a valid page: %s", self._topic, error
            )

    def read(self, reached: Mapping[int, int]) -> MapTopic:
        """Return the result. `reached`: how far the topic was read."""
        if any(reached.get(partition, 0) < offset for partition, offset in self._after.items()):
            self._begin_anew()  # It has no records yet.
        return MapTopic(
            {key: list(pages.values()) for key, pages in self._pages.items()},
            self._facts,
            self._firsts,
            reached,
            {key: (span.first_source, value) for key, (span, value) in self._last.items()},
            self._losses,
            self._late,
            self._gone,
            self._owners,
            late_owners=self._late_owners,
            found_late=self._found_late,
            forgotten=self._forgotten,
            topic_id=self._topic_id,
            created_again=self._created_again,
        )

    def unread(self) -> MapTopic:
        """Return the result of a read that failed: the topic could not be read."""
        return self._before.without_contents()._replace(failed=True)

    def _take_page(self, record: LogRecord) -> None:
        topic, partition, first = parse_page_key(record.key or b"")
        key = (topic, partition)
        pages = self._pages.setdefault(key, {})
        late, gone = self._late.setdefault(key, set()), self._gone.setdefault(key, set())
        span = None if record.value is None else page_span(first, record.value)
        owner = self._owners.get(key, NO_OWNER)
        if span is not None and (span.is_late(pages.get(first)) or span.session < owner):
            late.add(first)
            return
        late.discard(first)
        gone.discard(first)
        last = self._last.get(key)
        if last is not None and last[0].first_source == first:
            del self._last[key]
        if span is None or record.value is None:
            pages.pop(first, None)
            gone.add(first)
            return
        pages[first] = span
        last = self._last.get(key)
        if last is not None and last[0][:2] > span[:2]:
            return
        if span.lost:
            # The target end in earlier pages is no longer valid.
            self._last.pop(key, None)
        else:
            self._last[key] = span, record.value

    def _take_facts(self, key: TopicPartition, record: LogRecord) -> None:
        if record.value is None:
            self._facts.pop(key, None)
        else:
            self._facts[key] = LogIdentity.decode(record.value)

    def _take_loss(self, key: TopicPartition, record: LogRecord) -> None:
        if record.value is not None:
            session = decode_loss(record.value)
            self._losses[key] = max(session, self._losses.get(key, session))

    def _take_owner(self, key: TopicPartition, record: LogRecord) -> None:
        if record.value is not None:
            before = self._owners.get(key, NO_OWNER)
            noted = Owner.decode(record.value)
            late = self._found_late.get(key, ())
            owner = self._owners[key] = in_force(before, noted, late)
            if owner == noted.session:
                self._late_owners.pop(key, None)
                self._found_late.pop(key, None)
            else:
                self._late_owners.setdefault(key, []).append(noted.session)
                self._found_late.setdefault(key, set()).add(noted.session)

    def _take_first(self, key: TopicPartition, record: LogRecord) -> None:
        if record.key == FORGET_ALL:
            self._firsts.clear()
            self._forgotten.clear()
        elif record.value is not None:
            self._firsts[key] = FirstPosition.decode(record.value)
            self._forgotten.pop(key, None)
        elif key in self._firsts:
            self._forgotten[key] = record.timestamp_ms, self._firsts.pop(key)


NOTHING_READ = MapTopic({}, {})


class PageIndexReader:
    """Reads the map topic once. `on_read` is called on the reader's thread."""

    def __init__(
        self,
        topic: str,
        properties: Mapping[str, str],
        on_read: Callable[[MapTopic], None],
        before: MapTopic = NOTHING_READ,
    ) -> None:
        """Args: properties: Java consumer properties for the cluster that hosts the map. before:
        see `MapTopicReading`; records that it reached are not read again."""
        self._on_read = on_read
        self._reading = MapTopicReading(topic, before)
        self._log = TopicLog(
            topic, properties, self._take, after=before.reached, after_id=before.topic_id
        )
        self._thread = OwnedThread(self._run, f"read-{topic}")
        self._thread.start()

    def _take(self, record: LogRecord) -> None:
        self._reading.of_topic(self._log.topic_id)
        self._reading.take(record)

    def _run(self) -> None:
        found = self._reading.unread()
        try:
            self._log.start(Deadline(_READ_TIMEOUT_S))
        except ConnectError as error:
            _LOG.info("cannot read the offset map, so old pages are not deleted: %s", error)
        else:
            self._reading.of_topic(self._log.topic_id)
            found = self._reading.read(self._log.positions)
        finally:
            self._log.stop(Deadline(_CLOSE_S))
        self._on_read(found)

    def wait(self, seconds: float) -> None:
        self._thread.join(seconds)

    def close(self) -> None:
        """Stop reading, even before the end."""
        self._log.stop(Deadline(_CLOSE_S))
        self._thread.join(_CLOSE_S)
