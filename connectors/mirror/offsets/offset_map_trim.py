"""Deletes pages of the offset map once the source has deleted their records.

`PageIndex` knows the pages in the map topic and finds the useless ones: pages before the source's
log start, and pages of ranges that later sessions copied again. `PageIndexReader` reads the topic
once on its own thread, so that a start does not wait long for it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
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
    SESSIONS,
    Note,
    Owner,
    decode_loss,
    in_force,
    is_note_key,
    parse_note_key,
)
from connectors.mirror.offsets.offset_map_pages import PageSpan, page_key, page_span, parse_page_key
from connectors.mirror.offsets.start_positions import FORGET_ALL, FirstPosition

__all__ = [
    "NOTHING_READ",
    "MapTopic",
    "MapTopicReading",
    "PageIndex",
    "PageIndexReader",
    "anchor",
    "before_all_lost",
]

_LOG = logging.getLogger(__name__)

_READ_TIMEOUT_S = 600.0
_CLOSE_S = 2.0


class PageIndex:
    """The spans of the pages in the topic. Pure; belongs to one thread."""

    def __init__(self) -> None:
        self._pages: dict[TopicPartition, dict[int, PageSpan]] = {}
        self._newest: dict[TopicPartition, int] = {}
        self._losses: dict[TopicPartition, int] = {}
        self._owners: dict[TopicPartition, int] = {}
        self._late_owners: dict[TopicPartition, int] = {}

    def forget_all_but(self, there: Mapping[TopicPartition, Collection[PageSpan]]) -> None:
        """Forget what the topic had, because it was created again. Pages that are `there` again
        stay known. So does the highest session that was seen: later ones are never too low."""
        self._pages = {
            key: {
                span.first_source: span
                for span in spans
                if self.knows(key, span.first_source, span.session, span.first_target)
            }
            for key, spans in there.items()
        }
        self._losses.clear()
        self._owners.clear()
        self._late_owners.clear()

    def note_late_owner(self, key: TopicPartition, session: int) -> None:
        """Note that this session wrote a note of the owner that does not count."""
        self._late_owners[key] = max(session, self._late_owners.get(key, -1))
        self._newest[key] = max(session + SESSIONS - 1, self.newest(key))

    def note_owner(self, key: TopicPartition, session: int) -> None:
        """Note that this session owns a partition, according to the topic."""
        self._owners[key] = session
        self._newest[key] = max(session + SESSIONS - 1, self.newest(key))

    def owner(self, key: TopicPartition) -> int:
        """Return the first session of a partition's owner; `NO_OWNER` if none is known."""
        return self._owners.get(key, NO_OWNER)

    def note_loss(self, key: TopicPartition, session: int) -> None:
        """Note that this session wrote a loss page, according to the topic."""
        self._losses[key] = max(session, self._losses.get(key, -1))
        self._newest[key] = max(session, self._newest.get(key, -1))

    def add(self, key: TopicPartition, span: PageSpan) -> None:
        """Add or replace a page that is in the topic."""
        self._newest[key] = max(span.session, self._newest.get(key, -1))
        if not self.is_late(key, span):
            self._pages.setdefault(key, {})[span.first_source] = span

    def remove(self, key: TopicPartition, first_source: int) -> None:
        """Remove a page that was deleted from the topic."""
        self._pages.get(key, {}).pop(first_source, None)

    def is_late(self, key: TopicPartition, span: PageSpan) -> bool:
        """Whether the page was written late (`PageSpan.is_late`)."""
        return span.is_late(self._pages.get(key, {}).get(span.first_source))

    def knows(
        self, key: TopicPartition, first_source: int, session: int = -1, target: int = -1
    ) -> bool:
        """Whether a page with this first source offset is known; if given, with this session and
        first target offset."""
        known = self._pages.get(key, {}).get(first_source)
        if known is None or session < 0:
            return known is not None
        return (known.session, known.first_target) == (session, target)

    def span(self, key: TopicPartition, first_source: int) -> PageSpan | None:
        """The page with this first source offset, as far as is known."""
        return self._pages.get(key, {}).get(first_source)

    def has_losses(self, key: TopicPartition) -> bool:
        """Whether the target ever lost records of a partition, as far as is known."""
        return key in self._losses or any(span.lost for span in self.spans(key))

    def newest(self, key: TopicPartition) -> int:
        """Return the highest session that was seen for a partition; -1 if there was none."""
        return self._newest.get(key, -1)

    def newest_noted(self, key: TopicPartition) -> int:
        """Return the highest session that notes tell of, or that the owner may have begun."""
        owner = max(self._owners.get(key, NO_OWNER), self._late_owners.get(key, NO_OWNER))
        known = self._losses.get(key, -1)
        return known if owner == NO_OWNER else max(known, owner + SESSIONS - 1)

    def spans(self, key: TopicPartition) -> Collection[PageSpan]:
        """Return a partition's pages."""
        return self._pages.get(key, {}).values()

    def reach(self, key: TopicPartition) -> int:
        """Return the source offset up to which any page of a partition covers the source."""
        return max((span.end_source for span in self._pages.get(key, {}).values()), default=0)

    def useless(self, key: TopicPartition, log_start: int) -> list[bytes]:
        """Remove the pages that cover nothing at or after `log_start`. Returns their record keys,
        for tombstones.

        A page that a later session overrides is kept until that session has copied as far, because
        until then it shows which older syncs are invalid. A page before the log start is kept while
        an older page that it overrides reaches further. The last page before the log start is also
        kept: it shows where the target continues, up to the next page.
        """
        pages = self._pages.get(key, {})
        gone = _useless(pages.values(), log_start, self._losses.get(key, -1))
        for first in gone:
            del pages[first]
        return [page_key(key[0], key[1], first) for first in gone]

    def needed(self, key: TopicPartition, former: Collection[PageSpan], log_start: int) -> set[int]:
        """Return the first source offsets of those of these former pages that would not be useless
        if they were there."""
        there = {span.first_source: span for span in former} | self._pages.get(key, {})
        gone = _useless(there.values(), log_start, self._losses.get(key, -1))
        return {span.first_source for span in former}.difference(gone)


def anchor(pages: Iterable[PageSpan], target: int) -> tuple[int, int] | None:
    """Return (source, target) of the start of the last page that starts at or before this target
    offset, which the target still has. If all pages start after it: the source offset at which the
    first page starts, and the target offset, because nothing is known of earlier offsets."""
    found: tuple[int, int] | None = None
    end = target
    first: int | None = None
    lost_from: int | None = None
    for span in sorted(pages, reverse=True):
        first = span.first_source if first is None else min(first, span.first_source)
        holds = lost_from is None or span.first_source < lost_from
        if holds and span.first_target <= end and (found is None or found[1] < span.first_target):
            found = span.first_source, span.first_target
        if span.lost:
            end = min(end, span.first_target - 1)
            lost_from = (
                span.first_source if lost_from is None else min(lost_from, span.first_source)
            )
    if found is None and first is not None:
        return first, target
    return found


def before_all_lost(
    pages: Iterable[PageSpan],
    target: int,
    place: tuple[int, int],
    known: tuple[int, int] | None = None,
) -> tuple[int, int]:
    """`place`, or an earlier one: a range that was copied twice is in two places, and the target
    may have lost the later copy from its first source offset on, and of the earlier copy only what
    follows `place`. `target`: the offset from which on everything is lost. `known`: another place
    that is known on both sides."""
    spans = list(pages)
    losses = [span for span in spans if span.lost]
    # An earlier loss had these already.
    there = [
        span
        for span in spans
        if not span.lost
        and not any(
            loss.session > span.session and loss.first_source <= span.first_source
            for loss in losses
        )
    ]
    first = min((span.first_source for span in there if span.first_target >= target), default=None)
    if first is None or first >= place[0]:
        return place
    kept = [
        (span.first_target, span.first_source)
        for span in there
        if span.first_source <= first and span.first_target < target
    ]
    if known is not None and known[0] <= first and known[1] <= target:
        kept.append((known[1], known[0]))
    if not kept:
        return first, place[1]
    its_target, source = max(kept)
    return source, its_target


def _useless(spans: Collection[PageSpan], log_start: int, noted_loss: int) -> list[int]:
    """Return the first source offsets of pages that are useless (`PageIndex.useless`).
    `noted_loss`: the noted session of the newest loss page."""
    again = _copied_again(spans)
    passed = _passed(spans, log_start)
    gone: list[int] = []
    reach = 0
    # Earlier versions recorded losses only as pages.
    loss = max((span for span in spans if span.lost), default=None)
    if loss is not None and loss.session <= noted_loss:
        loss = None
    for span in sorted(spans):
        if span is loss:
            continue
        covered = again.get(span.session)
        expired = span.first_source in passed and max(span.end_source, reach) <= log_start
        again_there = covered is not None and not span.lost and _inside(span, covered)
        if expired or again_there:
            gone.append(span.first_source)
        else:
            reach = max(reach, span.end_source)
    return gone


def _passed(spans: Iterable[PageSpan], log_start: int) -> set[int]:
    """Return the first source offsets of pages that a later page follows at or before
    `log_start`."""
    found: set[int] = set()
    latest = -1
    for span in sorted(spans, reverse=True):
        if span.first_source < latest:
            found.add(span.first_source)
        if span.first_source <= log_start:
            latest = max(latest, span.first_source)
    return found


def _inside(span: PageSpan, covered: tuple[int, int]) -> bool:
    return covered[0] <= span.first_source and span.end_source <= covered[1]


def _copied_again(spans: Iterable[PageSpan]) -> dict[int, tuple[int, int]]:
    """Return, by session, the source offsets that later sessions cover without a gap, from the
    lowest one: (first, end)."""
    sessions: dict[int, list[PageSpan]] = {}
    for span in spans:
        sessions.setdefault(span.session, []).append(span)
    found: dict[int, tuple[int, int]] = {}
    covered: tuple[int, int] | None = None
    for session in sorted(sessions, reverse=True):
        if covered is not None:
            found[session] = covered
        first, end = _run(sorted(sessions[session]))
        if covered is None:
            covered = first, end
        elif first < covered[0]:
            covered = first, (max(end, covered[1]) if end >= covered[0] else end)
    return found


def _run(spans: Sequence[PageSpan]) -> tuple[int, int]:
    """Return (first, end) of the offsets that a session's pages cover without a gap from its first
    page on. Offsets of a loss page are not copied."""
    first = end = spans[0].first_source
    for span in spans:
        if span.first_source > end or span.lost:
            break
        end = max(end, span.end_source)
    return first, end


class MapTopic(NamedTuple):
    """The contents of the map topic: spans of its pages, facts about partitions' logs, start
    positions, and each partition's last page as (first source offset, record value).

    `reached`: how far it was read; None: it could not be read. `losses`: the noted session of each
    partition's newest loss page. `late`: the first source offsets of pages that an earlier session
    overwrote, or wrote after its partition had another owner. `gone`: those of deleted pages.
    `owners`: the session of each partition's owner. `failed`: the topic could not be read, and
    start positions and owners are those of the read before. `late_owners`: the sessions of notes
    of the owner that do not count, and after which none has come that does; `found_late`: those
    that earlier reads found, too. `forgotten`: start positions that were deleted since the last
    read, each with the time (ms) at which that happened. `topic_id`: of the topic that was read;
    None: not known. `created_again`: it is not the topic of the read before.
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
            topic_id=self.topic_id,
        )


class MapTopicReading:
    """Builds a `MapTopic` from the map topic's records. Pure; belongs to one thread."""

    def __init__(self, topic: str, before: MapTopic) -> None:
        """`before`: the result of an earlier read, from which this one continues. The result then
        contains all start positions and owners, but only those pages and facts that were written
        since."""
        self._topic = topic
        self._before = before
        self._after = before.reached or {}
        self._topic_id = before.topic_id
        self._created_again = False
        self._pages: dict[TopicPartition, dict[int, PageSpan]] = {}
        self._last: dict[TopicPartition, tuple[PageSpan, bytes]] = {}
        self._facts: dict[TopicPartition, LogIdentity] = {}
        self._firsts = dict(before.firsts)
        self._forgotten: dict[TopicPartition, tuple[int, FirstPosition]] = {}
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
            "topic %s was created again: the pages of the offset map that it had are gone",
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
        """Return the result if the topic could not be read."""
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
