"""Holds the offset map of a topic with only the needed pages in memory.

The heads of all pages are kept, about a hundred bytes per thousand breaks. Page contents are cached
up to a number of bytes, least recently used out first. Other pages are read again from the topic.
One thread follows the topic (`take`) while others translate. Thread-safe.
"""

from __future__ import annotations

import logging
import threading
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import NamedTuple

from connect.errors import CorruptData, RetriableError
from connect.protocol.messages import TopicPartition
from connectors.mirror.offsets.map_notes import (
    Note,
    Owner,
    decode_loss,
    is_note_key,
    parse_note_key,
)
from connectors.mirror.offsets.offset_map_index import PartitionIndex, Stretch
from connectors.mirror.offsets.offset_map_pages import (
    MapPage,
    PageSpan,
    Segment,
    page_key,
    page_span,
    parse_page_key,
)
from connectors.mirror.offsets.translation import (
    BackwardMap,
    Known,
    before_the_map,
    known_in_stretch,
    place_by_head,
    places_in_stretch,
)

__all__ = ["FetchPages", "OffsetMapStore"]

_LOG = logging.getLogger(__name__)

FetchPages = Callable[[Collection[int]], Mapping[int, tuple[bytes, bytes | None]]]
"""Reads records of the map topic by offset: (key, value) of those that still exist."""

CACHE_BYTES = 32 * 1024 * 1024
"""Size of the cache of page contents in bytes: about eight million breaks."""

_TRIES = 3
"""Maximum number of lookups of a page that is rewritten during the lookup."""

_Page = tuple[TopicPartition, PageSpan]
_Wanted = tuple[TopicPartition, int]


class _Task(NamedTuple):
    """Source offsets of one partition that one page covers, ascending."""

    partition: TopicPartition
    stretch: Stretch
    sources: list[int]


class OffsetMapStore:
    """The offset map of one topic. Thread-safe."""

    def __init__(self, fetch: FetchPages, cache_bytes: int = CACHE_BYTES) -> None:
        """`fetch` is called on the translating thread, without holding a lock."""
        self._fetch = fetch
        self._cache_bytes = cache_bytes
        self._lock = threading.Lock()
        self._forget()

    def _forget(self) -> None:
        self._indexes: dict[TopicPartition, PartitionIndex] = defaultdict(PartitionIndex)
        self._values: OrderedDict[int, bytes] = OrderedDict()
        self._cached = 0
        self._last = -1
        self._absent: set[int] = set()
        """Records of pages that the previous call could not read."""

    def forget(self) -> None:
        """Drop everything, because the topic was re-created."""
        with self._lock:
            self._forget()

    def take(self, key: bytes | None, value: bytes | None, at: int) -> None:
        """Add the next record of the topic; `at`: its offset. An invalid record is logged and
        skipped. An offset that is not after the last one shows that the topic was re-created."""
        with self._lock:
            if at <= self._last:
                _LOG.warning(
                    "the offset map topic was re-created; nothing has to be done, it is read "
                    "again from record %d",
                    at,
                )
                self._forget()
            self._last = at
        try:
            noted = parse_note_key(Note.LOSS, key)
            if noted is not None:
                self._note_loss(noted, value)
                return
            taken = parse_note_key(Note.OWNER, key)
            if taken is not None:
                self._note_owner(taken, value)
                return
            if is_note_key(key):
                return
            topic, partition, first = parse_page_key(key or b"")
            page = None
            if value is not None:
                page = page_span(first, value, at)
        except CorruptData as error:
            _LOG.warning(
                "ignoring record %d of the offset map, which is not a valid page: %s", at, error
            )
            return
        with self._lock:
            index = self._indexes[topic, partition]
            if page is not None and index.is_late(page):
                return
            replaced = index.remove(first) if page is None else index.put(page)
            if replaced is not None:
                self._cached -= len(self._values.pop(replaced.at, b""))
            if value is not None:
                self._keep(at, value)

    def _note_loss(self, partition: TopicPartition, value: bytes | None) -> None:
        if value is not None:
            session = decode_loss(value)
            with self._lock:
                self._indexes[partition].note_loss(session)

    def _note_owner(self, partition: TopicPartition, value: bytes | None) -> None:
        if value is not None:
            owner = Owner.decode(value)
            with self._lock:
                self._indexes[partition].note_owner(owner)

    def known(
        self, wanted: Mapping[TopicPartition, Iterable[int]]
    ) -> dict[tuple[TopicPartition, int], Known]:
        """Return what the map knows about source offsets. Offsets of partitions without pages are
        left out.

        Raises `RetriableError` if pages change faster than they can be read. If a page could not be
        read in the previous call either, it is gone, and only its head is used.
        """
        found: dict[_Wanted, Known] = {}
        waiting = {partition: sorted(set(sources)) for partition, sources in wanted.items()}
        for _ in range(_TRIES):
            tasks = self._tasks(waiting, found)
            waiting = self._translate(tasks, found)
            if not waiting:
                return found
        tasks = self._tasks(waiting, found)
        if self._still_absent([task.stretch.page for task in tasks]):
            for partition, stretch, sources in tasks:
                for source in sources:
                    place = place_by_head(stretch, source)
                    found[partition, source] = known_in_stretch(stretch, place)
            return found
        raise RetriableError("The offset map changes faster than it can be read")

    def backward(self, partition: TopicPartition) -> BackwardMap:
        """Return the whole map of one partition from target to source."""
        return BackwardMap(MapPage.decode(*page) for page in self.pages(partition))

    def loss(self, partition: TopicPartition) -> int:
        """Return the session of the partition's newest loss page; 0 if there was none."""
        with self._lock:
            index = self._indexes.get(partition)
            return 0 if index is None else index.loss

    def pages(self, partition: TopicPartition) -> list[tuple[int, bytes]]:
        """Return the first source offset and the contents of all pages of one partition. Only the
        start is known of a page that is gone (see `known`). Raises `RetriableError` if pages change
        faster than they can be read."""
        for _ in range(_TRIES):
            with self._lock:
                index = self._indexes.get(partition)
                pages = [] if index is None else index.pages()
            contents = self._contents([(partition, page) for page in pages])
            if len(contents) == len(pages):
                return [(page.first_source, contents[page.at]) for page in pages]
        if self._still_absent([page for page in pages if page.at not in contents]):
            return [
                (page.first_source, contents.get(page.at) or _beginning(page)) for page in pages
            ]
        raise RetriableError("The offset map changes faster than it can be read")

    def _still_absent(self, pages: Iterable[PageSpan]) -> bool:
        """Whether these pages, which could not be read, could not be read in the previous call
        either.
        """
        absent = {page.at for page in pages}
        known = absent <= self._absent
        self._absent |= absent
        return known

    def _tasks(
        self,
        waiting: Mapping[TopicPartition, Iterable[int]],
        found: dict[_Wanted, Known],
    ) -> list[_Task]:
        tasks: list[_Task] = []
        with self._lock:
            for partition, sources in waiting.items():
                index = self._indexes.get(partition)
                if index is None:
                    continue
                last: PageSpan | None = None
                for source in sources:
                    stretch = index.at(source)
                    if stretch is None:
                        known = before_the_map(index.first(), source, index.loss)
                        if known is not None:
                            found[partition, source] = known
                    elif last is not None and stretch.page is last:
                        tasks[-1].sources.append(source)
                    else:
                        last = stretch.page
                        tasks.append(_Task(partition, stretch, [source]))
        return tasks

    def _translate(
        self, tasks: Collection[_Task], found: dict[_Wanted, Known]
    ) -> dict[TopicPartition, list[int]]:
        """Translate the offsets of these tasks. Returns the tasks to look up again, because their
        page is no longer there."""
        contents = self._contents([(task.partition, task.stretch.page) for task in tasks])
        missing: dict[TopicPartition, list[int]] = defaultdict(list)
        for partition, stretch, sources in tasks:
            value = contents.get(stretch.page.at)
            if value is None:
                missing[partition] += sources
                continue
            places = places_in_stretch(stretch, value, sources)
            found.update(
                ((partition, source), place) for source, place in zip(sources, places, strict=True)
            )
        return missing

    def _contents(self, pages: Collection[_Page]) -> dict[int, bytes]:
        """Return page contents by record offset, without those that are gone."""
        contents: dict[int, bytes] = {}
        with self._lock:
            for _, page in pages:
                value = self._values.get(page.at)
                if value is not None:
                    self._values.move_to_end(page.at)
                    contents[page.at] = value
        absent = {page.at: (key, page) for key, page in pages if page.at not in contents}
        if absent:
            for at, (key, value) in self._fetch(sorted(absent)).items():
                # If the topic was re-created, another page can be at this offset.
                if value is not None and _is_page(absent[at], key, value):
                    contents[at] = value
                    with self._lock:
                        self._keep(at, value)
        return contents

    def _keep(self, at: int, value: bytes) -> None:
        replaced = self._values.pop(at, None)
        self._cached += len(value) - len(replaced or b"")
        self._values[at] = value
        while self._cached > self._cache_bytes and len(self._values) > 1:
            _, dropped = self._values.popitem(last=False)
            self._cached -= len(dropped)


def _is_page(wanted: _Page, key: bytes, value: bytes) -> bool:
    """Whether a record is the page that was at its offset."""
    partition, page = wanted
    if key != page_key(*partition, page.first_source):
        return False
    try:
        return page_span(page.first_source, value, page.at) == page
    except CorruptData:
        return False


def _beginning(page: PageSpan) -> bytes:
    """Return what remains of a page whose record was deleted: its head, as an empty segment."""
    begins = Segment(page.first_source, page.first_target, 0)
    return MapPage(page.session, [begins]).encode()
