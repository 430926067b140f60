"""The offset map as it is in its topic, with the pages that are needed and little more in memory.

Heads of all pages are kept, a hundred bytes for each thousand breaks; of their contents only as
many bytes as the owner allows, those used last. Others are read again from the topic, which keeps
them. One thread follows the topic (`take`), others translate; safe to use from any thread.
"""

from __future__ import annotations

import logging
import threading
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import NamedTuple

from connect.errors import CorruptData, RetriableError
from connect.protocol.messages import TopicPartition
from connectors.mirror.offsets.map_notes import Note, decode_loss, is_note_key, parse_note_key
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
"""Reads records of the map topic by their offsets: (key, value) of those that are still there."""

CACHE_BYTES = 32 * 1024 * 1024
"""Of page contents: about eight million breaks."""

_TRIES = 3
"""A page that is rewritten while it is looked up is looked up again."""

_Page = tuple[TopicPartition, PageSpan]
_Wanted = tuple[TopicPartition, int]


class _Task(NamedTuple):
    """Source offsets of one partition that one page explains, ascending."""

    partition: TopicPartition
    stretch: Stretch
    sources: list[int]


class OffsetMapStore:
    """See the module."""

    def __init__(self, fetch: FetchPages, cache_bytes: int = CACHE_BYTES) -> None:
        """`fetch` is called on the translating thread, while nothing is locked."""
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
        """Records of pages that could not be read in the call before."""

    def forget(self) -> None:
        """The topic was created again: nothing that was taken holds any more."""
        with self._lock:
            self._forget()

    def take(self, key: bytes | None, value: bytes | None, at: int) -> None:
        """The next record of the topic; `at`: its offset. One that is no page is left out, and
        the log says so. If its offset is not after the last one, the topic is another."""
        with self._lock:
            if at <= self._last:
                _LOG.warning("the offset map begins anew at record %d: it was created again", at)
                self._forget()
            self._last = at
        try:
            noted = parse_note_key(Note.LOSS, key)
            if noted is not None:
                self._note_loss(noted, value)
                return
            if is_note_key(key):
                return
            topic, partition, first = parse_page_key(key or b"")
            page = None
            if value is not None:
                page = page_span(first, value, at)
        except CorruptData as error:
            _LOG.warning("record %d of the offset map is no page: %s", at, error)
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

    def known(
        self, wanted: Mapping[TopicPartition, Iterable[int]]
    ) -> dict[tuple[TopicPartition, int], Known]:
        """What the map says of source offsets; those of partitions without pages are left out.

        Raises `RetriableError` where pages change faster than they can be read. A page that could
        not be read in the call before, either, is gone: then its head has to do.
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
        raise RetriableError("The offset map changes while it is read")

    def backward(self, partition: TopicPartition) -> BackwardMap:
        """The map of one partition from target to source, whole."""
        return BackwardMap(MapPage.decode(*page) for page in self.pages(partition))

    def loss(self, partition: TopicPartition) -> int:
        """The session of the partition's newest loss page; 0: there was none."""
        with self._lock:
            index = self._indexes.get(partition)
            return 0 if index is None else index.loss

    def pages(self, partition: TopicPartition) -> list[tuple[int, bytes]]:
        """The first source offset and the contents of all pages of one partition. Raises
        `RetriableError` where they change faster than they can be read. A page that is gone, as
        `known` says, is only its beginning."""
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
        raise RetriableError("The offset map changes while it is read")

    def _still_absent(self, pages: Iterable[PageSpan]) -> bool:
        """Whether these pages, which could not be read, could not be read before."""
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
        """Do these; returns what must be looked up anew, as its page is not there any more."""
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
        """Page contents by the offsets of their records; without those that are gone."""
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
                # Another page can be there, where the topic was created again.
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
    """What is still known of a page that is gone: where it begins."""
    begins = Segment(page.first_source, page.first_target, 0)
    return MapPage(page.session, [begins]).encode()
