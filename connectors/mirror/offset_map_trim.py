"""Keeps the offset map as long as the source keeps the records, and no longer.

`PageIndex` knows which pages the map topic holds and says which of them explain nothing any more:
those before the source's log start, and those that later sessions copied over. `PageIndexReader`
fills it once from the topic, on a thread of its own, so that a start never waits for it.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Mapping

from connect.clients.topic_log import LogRecord, TopicLog
from connect.clock import Deadline
from connect.errors import ConnectError, CorruptData
from connect.protocol.messages import TopicPartition
from connectors.mirror.offset_map import PageSpan, page_key, page_span, parse_page_key

__all__ = ["PageIndex", "PageIndexReader"]

_LOG = logging.getLogger(__name__)

_READ_TIMEOUT_S = 600.0
_CLOSE_S = 2.0


class PageIndex:
    """The spans of the pages in the topic. Pure; belongs to one thread."""

    def __init__(self) -> None:
        self._pages: dict[TopicPartition, dict[int, PageSpan]] = {}

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
        covered_from = _later_starts(pages.values())
        gone = [
            span.first_source
            for span in pages.values()
            if span.end_source <= log_start
            or span.first_source >= covered_from.get(span.session, span.end_source)
        ]
        for first in gone:
            del pages[first]
        return [page_key(key[0], key[1], first) for first in gone]


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


class PageIndexReader:
    """Reads the map topic once. `on_read(pages)` is called on the reader's thread."""

    def __init__(
        self,
        topic: str,
        properties: Mapping[str, str],
        on_read: Callable[[dict[TopicPartition, list[PageSpan]]], None],
    ) -> None:
        """Args: properties: Java consumer properties of the cluster that hosts the map."""
        self._topic = topic
        self._on_read = on_read
        self._pages: dict[TopicPartition, dict[int, PageSpan]] = {}
        self._log = TopicLog(topic, properties, self._take)
        self._thread = threading.Thread(target=self._run, name=f"read-{topic}", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._log.start(Deadline(_READ_TIMEOUT_S))
        except ConnectError as error:
            _LOG.info("the offset map was not read, so old pages stay: %s", error)
            return
        finally:
            self._log.stop(Deadline(_CLOSE_S))
        self._on_read({key: list(pages.values()) for key, pages in self._pages.items()})

    def _take(self, record: LogRecord) -> None:
        try:
            topic, partition, first = parse_page_key(record.key or b"")
            pages = self._pages.setdefault((topic, partition), {})
            if record.value is None:
                pages.pop(first, None)
            else:
                pages[first] = page_span(first, record.value)
        except CorruptData as error:
            _LOG.warning("topic %s holds a record that is no page: %s", self._topic, error)

    def close(self) -> None:
        """End the reading, also in the middle."""
        self._log.stop(Deadline(_CLOSE_S))
        self._thread.join(_CLOSE_S)
