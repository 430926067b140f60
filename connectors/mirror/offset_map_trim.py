"""Keeps the offset map as long as the source keeps the records, and no longer.

`PageIndex` knows which pages the map topic holds and says which of them explain nothing any more:
those before the source's log start, and those that later sessions copied over. `PageIndexReader`
reads the topic once, on a thread of its own, so that a start never waits long for it; `MapScan` is
what it makes of the records.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from connect.clients.topic_log import LogRecord, TopicLog
from connect.clock import Deadline
from connect.errors import ConnectError, CorruptData
from connect.protocol.messages import TopicPartition
from connectors.mirror.first_positions import FORGET_ALL, FirstPosition, parse_first_key
from connectors.mirror.log_facts import LogFacts, is_facts_key, parse_facts_key
from connectors.mirror.offset_map import PageSpan, page_key, page_span, parse_page_key

__all__ = ["MapScan", "MapTopic", "PageIndex", "PageIndexReader"]

_LOG = logging.getLogger(__name__)

_READ_TIMEOUT_S = 600.0
_CLOSE_S = 2.0


class PageIndex:
    """The spans of the pages in the topic. Pure; belongs to one thread."""

    def __init__(self) -> None:
        self._pages: dict[TopicPartition, dict[int, PageSpan]] = {}
        self._oldest: dict[TopicPartition, int] = {}

    def discard(self, key: TopicPartition, session: int) -> None:
        """Pages of sessions before this one explain nothing any more: a log was made anew."""
        self._oldest[key] = session

    def add(self, key: TopicPartition, span: PageSpan) -> None:
        """A page is in the topic (again)."""
        known = self._pages.setdefault(key, {}).get(span.first_source)
        if known is None or known.session <= span.session:
            self._pages[key][span.first_source] = span

    def remove(self, key: TopicPartition, first_source: int) -> None:
        """A page was deleted from the topic."""
        self._pages.get(key, {}).pop(first_source, None)

    def useless(self, key: TopicPartition, log_start: int) -> list[bytes]:
        """Take the pages that explain nothing at or after `log_start`: their record keys, for
        tombstones."""
        pages = self._pages.get(key, {})
        oldest = self._oldest.get(key, 0)
        covered_from = _later_starts(pages.values())
        gone = [
            span.first_source
            for span in pages.values()
            if span.end_source <= log_start
            or span.session < oldest
            or _reached(span.first_source, covered_from.get(span.session))
        ]
        for first in gone:
            del pages[first]
        return [page_key(key[0], key[1], first) for first in gone]


def _reached(first_source: int, covered_from: int | None) -> bool:
    return covered_from is not None and first_source >= covered_from


def _later_starts(spans: Iterable[PageSpan]) -> dict[int, int]:
    """Session -> the lowest source offset that a later session covers."""
    lowest: dict[int, int] = {}
    for span in spans:
        lowest[span.session] = min(span.first_source, lowest.get(span.session, span.first_source))
    starts: dict[int, int] = {}
    least: int | None = None
    for session in sorted(lowest, reverse=True):
        if least is not None:
            starts[session] = least
        least = lowest[session] if least is None else min(least, lowest[session])
    return starts


class MapTopic(NamedTuple):
    """What the map topic holds: the spans of its pages, what is known of partitions' logs, and
    where partitions began. `reached`: how far it was read; None: it could not be read."""

    pages: Mapping[TopicPartition, Sequence[PageSpan]]
    facts: Mapping[TopicPartition, LogFacts]
    firsts: Mapping[TopicPartition, FirstPosition] = MappingProxyType({})
    reached: Mapping[int, int] | None = None


_NOTHING = MapTopic({}, {})


class MapScan:
    """Collects what the records of the map topic say. Pure; one thread."""

    def __init__(self, topic: str, before: MapTopic = _NOTHING) -> None:
        """`before`: as for `PageIndexReader`."""
        self._topic = topic
        self._pages: dict[TopicPartition, dict[int, PageSpan]] = {}
        self._facts: dict[TopicPartition, LogFacts] = {}
        self._before = before
        self._firsts = dict(before.firsts)

    def take(self, record: LogRecord) -> None:
        """The next record of the topic. One that cannot be decoded is left out, and logged."""
        try:
            begun = parse_first_key(record.key)
            if begun is not None:
                self._take_first(begun, record)
                return
            if is_facts_key(record.key):
                self._take_facts(record)
                return
            topic, partition, first = parse_page_key(record.key or b"")
            pages = self._pages.setdefault((topic, partition), {})
            if record.value is None:
                pages.pop(first, None)
            else:
                pages[first] = page_span(first, record.value)
        except CorruptData as error:
            _LOG.warning("topic %s holds a record that is no page: %s", self._topic, error)

    def found(self, reached: Mapping[int, int]) -> MapTopic:
        """The result, once the topic was read up to `reached`."""
        pages = {key: list(pages.values()) for key, pages in self._pages.items()}
        return MapTopic(pages, self._facts, self._firsts, reached)

    def unread(self) -> MapTopic:
        """The result where the topic could not be read: nothing but what was known before."""
        return self._before._replace(pages={}, facts={})

    def _take_facts(self, record: LogRecord) -> None:
        key = parse_facts_key(record.key or b"")
        if record.value is None:
            self._facts.pop(key, None)
        else:
            self._facts[key] = LogFacts.decode(record.value)

    def _take_first(self, key: TopicPartition, record: LogRecord) -> None:
        if record.key == FORGET_ALL:
            self._firsts.clear()
        elif record.value is None:
            self._firsts.pop(key, None)
        else:
            self._firsts[key] = FirstPosition.decode(record.value)


class PageIndexReader:
    """Reads the map topic once. `on_read` is called on the reader's thread."""

    def __init__(
        self,
        topic: str,
        properties: Mapping[str, str],
        on_read: Callable[[MapTopic], None],
        before: MapTopic = _NOTHING,
    ) -> None:
        """Args: properties: Java consumer properties of the cluster that hosts the map.
        before: what an earlier reader found. What was written since is added to its first
        positions; pages and facts are then only those that were written since."""
        self._on_read = on_read
        self._scan = MapScan(topic, before)
        self._log = TopicLog(topic, properties, self._scan.take, after=before.reached)
        self._thread = threading.Thread(target=self._run, name=f"read-{topic}", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        found = self._scan.unread()
        try:
            self._log.start(Deadline(_READ_TIMEOUT_S))
        except ConnectError as error:
            _LOG.info("the offset map was not read, so old pages stay: %s", error)
        else:
            found = self._scan.found(self._log.positions)
        finally:
            self._log.stop(Deadline(_CLOSE_S))
        self._on_read(found)

    def close(self) -> None:
        """End the reading, also in the middle."""
        self._log.stop(Deadline(_CLOSE_S))
        self._thread.join(_CLOSE_S)
