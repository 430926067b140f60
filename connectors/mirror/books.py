"""The books of a flow: offset syncs, offset map pages and source offsets, from what was copied.

Whoever copies tells `copied` where source records are on the target, and `prepare` how far each
partition is; what is written of that is the same, whether threads of a worker, Spark or a backfill
copied. Belongs to one thread.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future
from functools import partial
from typing import NamedTuple, Protocol

from connect.clock import SYSTEM_CLOCK, Clock, Deadline
from connect.plugin import SourceOffset, StoredOffset
from connect.protocol.messages import TopicPartition
from connectors.mirror.client_configs import offset_syncs_consumer, offset_syncs_producer
from connectors.mirror.config_source import SourceConfig
from connectors.mirror.copy.partition import OffsetRun
from connectors.mirror.first_positions import FirstPosition, first_key
from connectors.mirror.formats import OffsetSync
from connectors.mirror.log_facts import LogFacts, facts_key
from connectors.mirror.losses import Loss, LossKind, LossPolicy
from connectors.mirror.offset_map import PageSpan, PartitionPages, page_key
from connectors.mirror.offset_map_trim import MapTopic, PageIndex, PageIndexReader
from connectors.mirror.offset_syncs import OffsetSyncRule
from connectors.mirror.policy import replication_policy
from connectors.mirror.sync_producer import SyncProducer

__all__ = [
    "PAGES_EVERY_S",
    "BookClients",
    "FlowBooks",
    "MapReader",
    "Reached",
    "position_after",
    "source_partition",
]


_CLOSE_SYNCS_S = 2.0

PAGES_EVERY_S = 5.0
"""How often map pages are written under exactly-once, where offsets are stored without them: a page
for every transaction would cost more than it is worth."""


class Reached(NamedTuple):
    """Every record of `source` before `position` is on the target, or needs no copying.
    `log_start`: the source's first offset, as far as known; -1: it is not. `facts`: what is known
    of both logs, to be kept for the next start."""

    source: TopicPartition
    position: int
    log_start: int
    facts: LogFacts | None = None


def source_partition(alias: str, key: TopicPartition) -> dict[str, str | int]:
    """Under what a partition's source offset is stored. `alias`: the source cluster's."""
    # Key order as Java writes it: it is part of the stored key's bytes.
    return {"cluster": alias, "partition": key[1], "topic": key[0]}


def position_after(offset: SourceOffset | None) -> int | None:
    """Where to go on after a stored offset; None where there is none (Java: negative too)."""
    if offset is None:
        return None
    stored = offset.get("offset")
    if not isinstance(stored, int) or stored < 0:
        return None
    return stored + 1


class _PartitionBooks:
    """What is written down for one partition: its sync rule and its map pages."""

    __slots__ = ("pages", "rule")

    def __init__(self, lag_max: int, session: int) -> None:
        self.rule = OffsetSyncRule(lag_max)
        self.pages = PartitionPages(session)


class MapReader(Protocol):
    """Reads the offset map's topic once, in the background."""

    def close(self) -> None:
        """End the reading, also in the middle."""


class BookClients:
    """Clients of the cluster that hosts the topics of syncs and map. Simulations have others."""

    def writer(
        self, properties: Mapping[str, str], syncs_topic: str, map_topic: str
    ) -> SyncProducer:
        """`properties`: a producer's, Java's names. The caller closes it."""
        return SyncProducer(properties, syncs_topic, map_topic)

    def reader(
        self,
        topic: str,
        properties: Mapping[str, str],
        on_read: Callable[[MapTopic], None],
        before: MapTopic,
    ) -> MapReader:
        """Begin to read; see `PageIndexReader`. `on_read` may be called on any thread."""
        return PageIndexReader(topic, properties, on_read, before)


_KAFKA = BookClients()


class FlowBooks:
    """See the module."""

    def __init__(
        self,
        props: Mapping[str, str],
        config: SourceConfig,
        index: str | None,
        clock: Clock = SYSTEM_CLOCK,
        clients: BookClients = _KAFKA,
    ) -> None:
        """Args: props: the connector's properties, for clients; `config`: the same, parsed.
        index: the task's number, for the clients' names."""
        self._config = config
        self._clock = clock
        self._session = clock.now_ms()
        self._partitions: dict[TopicPartition, _PartitionBooks] = {}
        self._syncs: SyncProducer | None = None
        self._index = PageIndex()
        self._index_reader: MapReader | None = None
        self._open_reader: Callable[[MapTopic], MapReader] | None = None
        self._read: deque[MapTopic] = deque()
        self._map: MapTopic | None = None
        self._looks_again = False
        self._facts: dict[TopicPartition, LogFacts] | None = None
        self._firsts: dict[TopicPartition, FirstPosition] = {}
        self._kept: dict[TopicPartition, FirstPosition] = {}
        """Those of them that were written here, which may be under way while others are read."""
        if not (config.emit_offset_syncs_enabled or config.mirror_offset_map_enabled):
            return
        policy = replication_policy(props)
        other = (
            config.target_cluster_alias
            if config.offset_syncs_topic_location == "source"
            else config.source_cluster_alias
        )
        self._syncs = clients.writer(
            offset_syncs_producer(props, index),
            policy.offset_syncs_topic(other),
            policy.offset_map_topic(other),
        )
        if config.mirror_offset_map_enabled:
            self._open_reader = partial(
                clients.reader,
                policy.offset_map_topic(other),
                offset_syncs_consumer(props, index),
                self._read.append,  # on the reader's thread
            )
            self._index_reader = self._open_reader(MapTopic({}, {}))

    @property
    def trouble(self) -> str | None:
        """What cannot be written down for now; None: all is."""
        return None if self._syncs is None else self._syncs.trouble

    def facts(self) -> Mapping[TopicPartition, LogFacts] | None:
        """What was known of the partitions' logs when this began; None while it is being read."""
        if self._open_reader is None:
            return {}
        self._take_read()
        return self._facts

    def _take_read(self) -> None:
        if not self._read:
            return
        self._close_reader()  # it has done its work
        found = self._map = self._read.popleft()
        self._firsts = {**self._kept, **found.firsts}
        if self._facts is None:
            self._facts = dict(found.facts)
            for key, spans in found.pages.items():
                for span in spans:
                    self._index.add(key, span)
        if self._looks_again and self._open_reader is not None:
            self._looks_again = False
            self._index_reader = self._open_reader(found)

    def _close_reader(self) -> None:
        if self._index_reader is not None:
            self._index_reader.close()
            self._index_reader = None

    # Where partitions began, which have no stored offset yet.

    def look_again(self) -> None:
        """Others may have kept first positions since this began: have them read, too."""
        self._take_read()
        if self._index_reader is not None:
            self._looks_again = True
        elif self._open_reader is not None and self._map is not None:
            self._index_reader = self._open_reader(self._map)

    def first_positions(self) -> Mapping[TopicPartition, FirstPosition] | None:
        """What is kept; None while it is being read."""
        self._take_read()
        return self._firsts if self._index_reader is None else None

    @property
    def keeps_first_positions(self) -> bool:
        """Whether any are, as far as is known: not where the map is off, or may not be read."""
        if self._map is None:
            return self._open_reader is not None
        return self._map.reached is not None

    def keep_first(self, firsts: Mapping[TopicPartition, FirstPosition]) -> Future[None]:
        """Done when they are written."""
        assert self._syncs is not None, "nothing is kept without the offset map"
        self._firsts.update(firsts)
        self._kept.update(firsts)
        return self._syncs.write_pages([(first_key(k), v.encode()) for k, v in firsts.items()])

    def forget_first(self, keys: Collection[TopicPartition]) -> None:
        """An offset of these is stored: where they began, if that is kept, is not needed now."""
        gone = [key for key in keys if self._firsts.pop(key, None) is not None]
        for key in gone:
            self._kept.pop(key, None)
        if gone and self._syncs is not None:
            self._syncs.write_pages([(first_key(key), None) for key in gone])

    # What was copied, and what was lost.

    def lost(self, key: TopicPartition, loss: Loss, anchor: tuple[int, int] | None) -> None:
        """One of the partition's logs lost something; the map is not to lead astray. `anchor`: a
        place known to be before what the target lost, on both sides."""
        if not self._config.mirror_offset_map_enabled or self._syncs is None:
            return
        pages = self._of(key).pages
        if loss.kind is LossKind.TARGET_LOSS:
            if loss.resume is not None and loss.policy is LossPolicy.COPY:
                return  # what is copied again overrules
            exact = pages.source_of(loss.first)
            if exact is not None:
                pages.lost_from(exact, loss.first)
            elif anchor is not None:
                pages.lost_from(*anchor)
            else:
                self._begin_map_anew(key, pages)
        elif loss.resume is not None and loss.kind in (
            LossKind.SOURCE_RECREATED,
            LossKind.TARGET_RECREATED,
        ):
            self._begin_map_anew(key, pages)

    def _begin_map_anew(self, key: TopicPartition, pages: PartitionPages) -> None:
        pages.take_unsaved()
        pages.begin_anew()
        self._index.discard(key, pages.session)

    def _of(self, key: TopicPartition) -> _PartitionBooks:
        books = self._partitions.get(key)
        if books is None:
            books = _PartitionBooks(self._config.offset_lag_max, self._session)
            self._partitions[key] = books
        return books

    def copied(self, key: TopicPartition, runs: Sequence[OffsetRun], base_offset: int) -> None:
        """The target has these records from `base_offset` on, without gaps; below 0: it does not
        say where. In each partition's order."""
        if self._syncs is None or base_offset < 0:
            return
        books = self._of(key)
        target = base_offset
        for source, count in runs:
            if self._config.mirror_offset_map_enabled:
                books.pages.copied(source, count, target)
            if self._config.emit_offset_syncs_enabled:
                for upstream, downstream in books.rule.copied(source, count, target):
                    self._syncs.sync(OffsetSync(key[0], key[1], upstream, downstream))
            target += count

    def poll(self) -> None:
        """Take delivery reports and send what waits. Call often; returns at once."""
        if self._syncs is not None:
            self._syncs.poll()

    def prepare(self, reached: Sequence[Reached]) -> Future[list[StoredOffset]]:
        """The source offsets of these partitions, once the map pages that explain them are
        written."""
        for source, position, *_ in reached:
            if (books := self._partitions.get(source)) is not None:
                books.pages.seen(position)
        alias = self._config.source_cluster_alias
        offsets: list[StoredOffset] = [
            (source_partition(alias, source), {"offset": position - 1})
            for source, position, *_ in reached
        ]
        result: Future[list[StoredOffset]] = Future()
        self._write_pages(reached, lambda: result.set_result(offsets))
        return result

    def _write_pages(self, reached: Sequence[Reached], then: Callable[[], None]) -> None:
        """Write the due pages, then call `then`: also after a failure, which costs exactness of
        translation until the pages are written, where storing no offsets would cost more."""
        if self._syncs is None:
            then()
            return
        due = [
            (source, books.pages, books.pages.take_unsaved())
            for source, *_ in reached
            if (books := self._partitions.get(source)) is not None
        ]

        def written(future: Future[None]) -> None:
            error = future.exception(timeout=0)
            if error is not None:
                for _, owner, pages in due:
                    owner.put_back(pages)
            then()

        encoded: list[tuple[bytes, bytes | None]] = []
        for key, _, pages in due:
            for page in pages:
                encoded.append((page_key(*key, page.first_source), page.encode()))
                self._index.add(key, PageSpan(page.session, page.first_source, page.end_source))
        if self.facts() is not None:
            encoded += [
                (facts_key(each.source), each.facts.encode())
                for each in reached
                if each.facts is not None and self._config.mirror_offset_map_enabled
            ]
        encoded += [(useless, None) for useless in self._useless_pages(reached)]
        self._syncs.write_pages(encoded).add_done_callback(written)

    def _useless_pages(self, reached: Sequence[Reached]) -> list[bytes]:
        """Keys of pages to delete, of partitions that moved."""
        self._take_read()
        return [
            useless
            for source, _, log_start, _ in reached
            for useless in self._index.useless(source, log_start)
        ]

    def committed(self) -> None:
        """The offsets of the last `prepare` are stored: partitions that are quiet now get an exact
        sync, too."""
        if self._syncs is None:
            return
        for key, books in self._partitions.items():
            delayed = books.rule.take_delayed()
            if delayed is not None:
                self._syncs.sync(OffsetSync(key[0], key[1], *delayed))
        self._syncs.flush_syncs()

    def forget(self, key: TopicPartition) -> None:
        """A partition left, and all about it is stored."""
        self._partitions.pop(key, None)

    def close(self) -> None:
        """Send what waits, within seconds, and close every client."""
        self._open_reader = None
        self._close_reader()
        if self._syncs is not None:
            self._syncs.close(Deadline(_CLOSE_SYNCS_S, self._clock))
            self._syncs = None
