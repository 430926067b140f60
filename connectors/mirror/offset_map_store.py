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
from connectors.mirror.log_facts import is_facts_key
from connectors.mirror.offset_map import MapPage, page_span, page_target, parse_page_key
from connectors.mirror.offset_map_index import PageRef, PartitionIndex, Stretch
from connectors.mirror.translation import (
    BackwardMap,
    Place,
    before_the_map,
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
        self._indexes: dict[TopicPartition, PartitionIndex] = defaultdict(PartitionIndex)
        self._values: OrderedDict[int, bytes] = OrderedDict()
        self._cached = 0

    def take(self, key: bytes | None, value: bytes | None, at: int) -> None:
        """The next record of the topic; `at`: its offset. One that is no page is left out, and
        the log says so."""
        if is_facts_key(key):
            return
        try:
            topic, partition, first = parse_page_key(key or b"")
            page = None
            if value is not None:
                session, _, end = page_span(first, value)
                page = PageRef(session, first, end, page_target(value), at)
        except CorruptData as error:
            _LOG.warning("record %d of the offset map is no page: %s", at, error)
            return
        with self._lock:
            index = self._indexes[topic, partition]
            replaced = index.remove(first) if page is None else index.put(page)
            if replaced is not None:
                self._cached -= len(self._values.pop(replaced.at, b""))
            if value is not None:
                self._keep(at, value)

    def places(
        self, wanted: Mapping[TopicPartition, Iterable[int]]
    ) -> dict[tuple[TopicPartition, int], Place]:
        """Translate source offsets; those are left out of which the map knows nothing.

        Raises `RetriableError` where pages change faster than they can be read.
        """
        found: dict[tuple[TopicPartition, int], Place] = {}
        waiting = {partition: sorted(set(sources)) for partition, sources in wanted.items()}
        for _ in range(_TRIES):
            tasks = self._tasks(waiting, found)
            waiting = self._translate(tasks, found)
            if not waiting:
                return found
        raise RetriableError("The offset map changes while it is read")

    def backward(self, partition: TopicPartition) -> BackwardMap:
        """The map of one partition from target to source, whole."""
        return BackwardMap(MapPage.decode(*page) for page in self.pages(partition))

    def pages(self, partition: TopicPartition) -> list[tuple[int, bytes]]:
        """The first source offset and the contents of all pages of one partition. Raises
        `RetriableError` where they change faster than they can be read."""
        for _ in range(_TRIES):
            with self._lock:
                index = self._indexes.get(partition)
                pages = [] if index is None else index.pages()
            contents = self._contents(pages)
            if len(contents) == len(pages):
                return [(page.first_source, contents[page.at]) for page in pages]
        raise RetriableError("The offset map changes while it is read")

    def _tasks(
        self,
        waiting: Mapping[TopicPartition, Iterable[int]],
        found: dict[tuple[TopicPartition, int], Place],
    ) -> list[_Task]:
        tasks: list[_Task] = []
        with self._lock:
            for partition, sources in waiting.items():
                index = self._indexes.get(partition)
                if index is None:
                    continue
                last: PageRef | None = None
                for source in sources:
                    stretch = index.at(source)
                    if stretch is None:
                        place = before_the_map(index.first())
                        if place is not None:
                            found[partition, source] = place
                    elif last is not None and stretch.page is last:
                        tasks[-1].sources.append(source)
                    else:
                        last = stretch.page
                        tasks.append(_Task(partition, stretch, [source]))
        return tasks

    def _translate(
        self, tasks: Collection[_Task], found: dict[tuple[TopicPartition, int], Place]
    ) -> dict[TopicPartition, list[int]]:
        """Do these; returns what must be looked up anew, as its page is not there any more."""
        contents = self._contents([task.stretch.page for task in tasks])
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

    def _contents(self, pages: Collection[PageRef]) -> dict[int, bytes]:
        """Page contents by the offsets of their records; without those that are gone."""
        contents: dict[int, bytes] = {}
        with self._lock:
            for page in pages:
                value = self._values.get(page.at)
                if value is not None:
                    self._values.move_to_end(page.at)
                    contents[page.at] = value
        absent = sorted({page.at for page in pages if page.at not in contents})
        if absent:
            for at, (_, value) in self._fetch(absent).items():
                if value is not None:
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
