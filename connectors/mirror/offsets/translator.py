"""Translates committed group offsets: the interface that the checkpoint task uses, and the
in-process implementation.

`InProcessTranslator` follows the flow's offset syncs and offset map in their topics and applies
`translation.py`. It has one owner, on whose thread everything but its logs runs.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple, Protocol

from connect.clients.errors import not_authorized
from connect.clients.librdkafka.topic_log import LogRecord
from connect.clock import Deadline
from connect.errors import ConnectError, CorruptData
from connect.protocol.messages import TopicPartition
from connectors.mirror.config import clients as client_configs
from connectors.mirror.formats import OffsetSync
from connectors.mirror.offsets.map_notes import NEWEST_LOSS, encode_loss
from connectors.mirror.offsets.offset_map_store import OffsetMapStore
from connectors.mirror.offsets.offset_sync_store import OffsetSyncStore
from connectors.mirror.offsets.translation import Known, Place, best_place, by_sync, nearer
from connectors.mirror.offsets.translation_logs import (
    FollowedLog,
    KafkaTranslationLogs,
    TranslationLogs,
)
from connectors.mirror.replication_policy import offset_topics

__all__ = [
    "GroupOffset",
    "InProcessTranslator",
    "PageRow",
    "SyncRow",
    "TopicPartition",
    "TranslationTopics",
    "Translator",
    "translation_topics",
]

_LOG = logging.getLogger(__name__)

_CLOSE_S = 2.0


class GroupOffset(NamedTuple):
    """A consumer group's committed offset on the source cluster."""

    group: str
    topic: str
    partition: int
    offset: int
    metadata: str = ""


class PageRow(NamedTuple):
    """A page of the offset map: its key, and its record's value.

    With `NEWEST_LOSS` as the first source offset it is a note of the newest loss (`map_notes.py`).
    """

    topic: str
    partition: int
    first_source: int
    value: bytes


class SyncRow(NamedTuple):
    """An offset sync. The newest sync of a partition has the highest `order`."""

    topic: str
    partition: int
    upstream: int
    downstream: int
    order: int


class Translator(Protocol):
    """Translates group offsets to offsets on the target. All calls come from one thread at a
    time."""

    def translate(
        self, offsets: Sequence[GroupOffset], deadline: Deadline
    ) -> Sequence[Place | None]:
        """Translate the offsets, in order; None if a translation is not known. Includes records
        written to the topics before the call. Raises `ConnectError`."""

    def close(self, deadline: Deadline) -> None: ...


@dataclass(frozen=True, slots=True)
class TranslationTopics:
    """The topics that translation needs. `properties`: Java consumer properties for the cluster
    that hosts both topics."""

    properties: Mapping[str, str] = field(repr=False)
    syncs: str
    map: str


def translation_topics(props: Mapping[str, str], index: str | None = None) -> TranslationTopics:
    """Return where the flow with these connector properties keeps its offset syncs and offset
    map."""
    topics = offset_topics(props)
    client = client_configs.offset_syncs_consumer(props, index)
    return TranslationTopics(client, topics.syncs, topics.map)


class InProcessTranslator:
    """Translates group offsets in this process. Call `open`, then `translate` or `translate_back`,
    then `close`, which also ends a call on another thread."""

    def __init__(
        self,
        topics: TranslationTopics,
        *,
        keep_all_while_loading: bool = True,
        backwards: bool = False,
        open_logs: Callable[[Mapping[str, str]], TranslationLogs] = KafkaTranslationLogs,
    ) -> None:
        """`keep_all_while_loading`: see `OffsetSyncStore`. `backwards`: allow `translate_back`.
        `open_logs`: opens the cluster's topics, given its properties."""
        self._topics = topics
        self._keep_all = keep_all_while_loading
        self._backwards = backwards
        self._open_logs = open_logs
        self._logs: TranslationLogs | None = None
        self._map = OffsetMapStore(self._fetch)
        self._syncs_log: _Followed | None = None
        self._map_log: _Followed | None = None
        self.map_refused: ConnectError | None = None
        """Why the offset map is not used; None if it is."""
        self._taken = 0
        self._forget_syncs()

    def _forget_syncs(self) -> None:
        self._syncs = OffsetSyncStore(keep_all_while_loading=self._keep_all)
        # The same pairs in the other direction. Java has no rule for failback.
        self._returns = OffsetSyncStore() if self._backwards else None

    @property
    def version(self) -> int:
        """Return a number that changes whenever a record was read that may change a translation."""
        return self._taken

    def open(self, deadline: Deadline, *, need_syncs: bool = True) -> None:
        """Read both topics to their ends and follow them from then on.

        `need_syncs` False: missing syncs are not an error. Raises `ConnectError`.
        """
        self._logs = self._open_logs(self._topics.properties)
        topic = self._topics.syncs
        if need_syncs or topic in self._logs.topic_ids([topic], deadline):
            self._follow_syncs(deadline)
        self._finish_loading()
        self.catch_up(deadline)

    def translate(
        self, offsets: Sequence[GroupOffset], deadline: Deadline
    ) -> Sequence[Place | None]:
        self.catch_up(deadline)
        return self.places(offsets)

    def places(self, offsets: Sequence[GroupOffset]) -> list[Place | None]:
        """Translate the offsets with the records read so far."""
        wanted: dict[TopicPartition, list[int]] = defaultdict(list)
        for each in offsets:
            wanted[each.topic, each.partition].append(each.offset)
        known = self._map.known(wanted)
        return [
            self._best(each, known.get(((each.topic, each.partition), each.offset)))
            for each in offsets
        ]

    def _best(self, group: GroupOffset, known: Known | None) -> Place | None:
        if known is not None and known.place is not None and known.place.exact:
            return known.place
        below = None if known is None else known.syncs_below
        sync = self._syncs.nearest(group.topic, group.partition, group.offset, below)
        return best_place(known, sync, group.offset)

    def pages(self, partitions: Iterable[TopicPartition]) -> Iterator[PageRow]:
        """Return the map's pages of these source partitions, as far as they were read."""
        for topic, partition in partitions:
            for first_source, value in self._map.pages((topic, partition)):
                yield PageRow(topic, partition, first_source, value)
            loss = self._map.loss((topic, partition))
            if loss:
                yield PageRow(topic, partition, NEWEST_LOSS, encode_loss(loss))

    def syncs(self, partitions: Iterable[TopicPartition]) -> Iterator[SyncRow]:
        """Return the syncs that Java would keep of these source partitions."""
        for topic, partition in partitions:
            for slot, sync in self._syncs.syncs(topic, partition):
                yield SyncRow(topic, partition, sync.upstream_offset, sync.downstream_offset, -slot)

    def translate_back(
        self, partition: TopicPartition, offsets: Collection[int]
    ) -> dict[int, Place]:
        """Translate offsets of groups that read a copy to the source. `offsets`: those of one
        source partition's copy.

        Uses the topics as far as they were read by `open`. Offsets that are not known are left out.
        """
        assert self._returns is not None, "open the translator with backwards=True first"
        backward = self._map.backward(partition)
        found = {
            offset: nearer(
                backward.upstream(offset),
                by_sync(self._returns.nearest(*partition, offset), offset),
            )
            for offset in offsets
        }
        return {offset: place for offset, place in found.items() if place is not None}

    def close(self, deadline: Deadline) -> None:
        if self._logs is not None:
            self._logs.close(deadline)

    def catch_up(self, deadline: Deadline) -> None:
        """Read records written meanwhile; of a re-created topic, all of them. Raises
        `ConnectError`."""
        ids = self._topic_ids(deadline)
        syncs, its_map = self._syncs_log, self._map_log
        if syncs is not None and syncs.is_another(ids.get(self._topics.syncs)):
            self._left(syncs, self._topics.syncs)
            self._forget_syncs()
            syncs = self._syncs_log = None
        if syncs is not None:
            syncs.log.read_to_end(deadline)
        elif self._syncs.loading:
            self._follow_syncs(deadline)
            self._finish_loading()
        if its_map is not None and its_map.is_another(ids.get(self._topics.map)):
            self._left(its_map, self._topics.map)
            self._map.forget()
            its_map = self._map_log = None
        if its_map is not None:
            its_map.log.read_to_end(deadline)
        elif self._topics.map in ids:
            # Another mirror's flow, or one without a map, may get a map later.
            self._map_log = self._follow(self._topics.map, self._page, deadline)

    def _left(self, followed: _Followed, topic: str) -> None:
        _LOG.warning(
            "topic %s was re-created; nothing has to be done, it is read from its beginning", topic
        )
        self._taken += 1
        followed.log.stop(Deadline(_CLOSE_S))

    def _follow_syncs(self, deadline: Deadline) -> None:
        self._syncs_log = self._follow(self._topics.syncs, self._sync, deadline)

    def _follow(
        self, topic: str, on_record: Callable[[LogRecord], None], deadline: Deadline
    ) -> _Followed:
        logs = self._opened()
        topic_id = logs.topic_ids([topic], deadline).get(topic)
        return _Followed(logs.follow(topic, on_record, deadline), topic_id)

    def _finish_loading(self) -> None:
        self._syncs.finish_loading()
        if self._returns is not None:
            self._returns.finish_loading()

    def _opened(self) -> TranslationLogs:
        assert self._logs is not None, "call open first"
        return self._logs

    def _topic_ids(self, deadline: Deadline) -> Mapping[str, str]:
        """Return the IDs of both topics. A client without permission for the map translates without
        it, like MirrorMaker 2. Raises `ConnectError`."""
        logs = self._opened()
        try:
            return logs.topic_ids([self._topics.syncs, self._topics.map], deadline)
        except ConnectError as error:
            if not not_authorized(error):
                raise
            found = logs.topic_ids([self._topics.syncs], deadline)
            if self.map_refused is None:
                self.map_refused = error
                _LOG.warning(
                    "Translating offsets with offset syncs only, which is less exact: %s", error
                )
            return found

    def _sync(self, record: LogRecord) -> None:
        self._taken += 1
        if record.value is None:
            return
        try:
            sync = OffsetSync.decode(record.key or b"", record.value)
            self._syncs.apply(sync)
            if self._returns is not None:
                self._returns.apply(
                    replace(
                        sync,
                        upstream_offset=sync.downstream_offset,
                        downstream_offset=sync.upstream_offset,
                    )
                )
        except CorruptData as error:
            _LOG.warning(
                "ignoring record %d of topic %s: %s", record.offset, self._topics.syncs, error
            )

    def _page(self, record: LogRecord) -> None:
        self._taken += 1
        self._map.take(record.key, record.value, record.offset)

    def _fetch(self, offsets: Collection[int]) -> Mapping[int, tuple[bytes, bytes | None]]:
        return self._opened().fetch(self._topics.map, offsets)


class _Followed(NamedTuple):
    """A log, and the ID of its topic; None: it did not exist yet."""

    log: FollowedLog
    topic_id: str | None

    def is_another(self, topic_id: str | None) -> bool:
        """Whether the topic was re-created, given its current ID."""
        return None not in (topic_id, self.topic_id) and topic_id != self.topic_id
