"""Internal topics in memory, and the clients that the real classes use on them.

Delivery takes as long as the world lets it: a producer's records wait until they are delivered, and
a reading of the map until it is finished.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Mapping
from random import Random
from typing import TYPE_CHECKING

from confluent_kafka import KafkaError

from connect.clients.librdkafka.topic_log import LogRecord
from connect.clock import Clock, Deadline
from connectors.mirror.formats import OffsetSync
from connectors.mirror.offsets.map_notes import (
    NO_OWNER,
    Note,
    Owner,
    in_force,
    is_note_key,
    parse_note_key,
)
from connectors.mirror.offsets.map_topic_reading import MapTopic, MapTopicReading
from connectors.mirror.offsets.offset_map_pages import page_span, parse_page_key
from connectors.mirror.offsets.offset_sync_producer import OffsetSyncProducer

if TYPE_CHECKING:
    from confluent_kafka import Message

__all__ = ["MAP", "SYNCS", "Topic", "Topics", "WorkerTopics"]

MAP, SYNCS, CHECKPOINTS = "map", "syncs", "checkpoints"
_TIMED_OUT = KafkaError._MSG_TIMED_OUT

Delivered = Callable[["KafkaError | None", "Message"], None]


class Topic:
    """One compacted partition."""

    def __init__(self) -> None:
        self.lives = 1
        self.records: dict[int, tuple[bytes, bytes | None]] = {}
        self.end = 0

    @property
    def topic_id(self) -> str:
        return f"id{self.lives}"

    def append(self, key: bytes, value: bytes | None) -> int:
        self.records[self.end] = (key, value)
        self.end += 1
        return self.end - 1

    def compact(self, until: int) -> None:
        """Keep the newest record of each key before `until`."""
        newest = {key: at for at, (key, _) in self.records.items()}
        self.records = {
            at: record
            for at, record in self.records.items()
            if at >= until or newest[record[0]] == at
        }

    def late_page(self) -> int:
        """The offset of the first page that an earlier session wrote over; the end without one.
        Workers look for those long before the topic is compacted."""
        newest: dict[bytes, tuple[int, int]] = {}
        for at, (key, value) in self.records.items():
            if is_note_key(key):
                continue
            session = -1 if value is None else page_span(0, value).session
            if value is None or key not in newest or newest[key][0] <= session:
                newest[key] = session, at
        last = {key: at for at, (key, _) in self.records.items()}
        return min((at for key, (_, at) in newest.items() if last[key] != at), default=self.end)

    def late_owner(self) -> int:
        """The offset of the first note of an owner that a later note would replace, which does not
        count; the end without one. Workers look for those, too."""
        owners: dict[bytes, tuple[int, int]] = {}
        late: dict[bytes, int] = {}
        for at, (key, value) in self.records.items():
            if not key.startswith(Note.OWNER.value) or value is None:
                continue
            noted = Owner.decode(value)
            owner, since = owners.get(key, (NO_OWNER, at))
            if in_force(owner, noted) == noted.session:
                owners[key] = noted.session, at
                late.pop(key, None)
            else:
                late[key] = since
        return min(late.values(), default=self.end)

    def delete_before(self, offset: int) -> list[bytes]:
        """Delete the records before this offset. Returns their keys."""
        gone = [key for at, (key, _) in self.records.items() if at < offset]
        self.records = {at: record for at, record in self.records.items() if at >= offset}
        return gone

    def create_again(self) -> None:
        self.lives += 1
        self.records, self.end = {}, 0

    def read(self, start: int, take: Callable[[LogRecord], None]) -> int:
        """Give the records from `start` on to `take`; returns the end."""
        for at, (key, value) in list(self.records.items()):
            if at >= start:
                take(LogRecord(0, at, key, value, 0, ()))
        return self.end


class Topics:
    """All internal topics of the flow, as a translator opens them."""

    def __init__(self) -> None:
        self.map, self.syncs, self.checkpoints = Topic(), Topic(), Topic()

    def counts(self, key: bytes, value: bytes | None) -> bool:
        """Whether this page of the map counts, if it comes now. So does a deletion."""
        if value is None:
            return True
        topic, partition, first = parse_page_key(key)
        owner = NO_OWNER
        for noted, its_value in self.map.records.values():
            if its_value is not None and parse_note_key(Note.OWNER, noted) == (topic, partition):
                owner = in_force(owner, Owner.decode(its_value))
        return page_span(first, value).session >= owner

    def named(self, name: str) -> Topic:
        return {MAP: self.map, SYNCS: self.syncs}[name]

    # `TranslationLogs`.

    def topic_ids(self, topics: Collection[str], _: Deadline) -> Mapping[str, str]:
        return {name: self.named(name).topic_id for name in topics}

    def follow(
        self, topic: str, on_record: Callable[[LogRecord], None], deadline: Deadline
    ) -> _Followed:
        log = _Followed(self.named(topic), on_record)
        log.read_to_end(deadline)
        return log

    def fetch(
        self, topic: str, offsets: Collection[int]
    ) -> Mapping[int, tuple[bytes, bytes | None]]:
        records = self.named(topic).records
        return {at: records[at] for at in offsets if at in records}

    def close(self, _: Deadline) -> None:
        pass


class _Followed:
    def __init__(self, topic: Topic, on_record: Callable[[LogRecord], None]) -> None:
        self._topic, self._on_record, self._at = topic, on_record, 0

    def read_to_end(self, _: Deadline) -> None:
        self._at = self._topic.read(self._at, self._on_record)

    def stop(self, _: Deadline) -> None:
        pass


class Producer:
    """A producer whose records are delivered when the world says, in their order."""

    def __init__(self, topics: Topics, random: Random) -> None:
        self._topics = topics
        self._random = random
        self._queue: deque[tuple[str, bytes, bytes | None, Delivered]] = deque()
        self.produced = self.written = 0
        """How many records were ever queued, and of how many it is certain that they are in."""
        self.failed_at = -1
        """The number of the last record that could not be written."""
        self.failing = False
        self.pages: set[int] = set()
        """Partitions whose pages were written since the world took these."""
        self.counting: set[int] = set()
        """Partitions of which syncs were written since, or pages that count."""

    def produce(
        self,
        topic: str,
        *,
        value: bytes | None,
        key: bytes,
        partition: int,
        on_delivery: Delivered,
    ) -> None:
        self.produced += 1
        self._queue.append((topic, key, value, on_delivery))

    def poll(self, timeout: float) -> int:
        """Nothing: delivery is an event of the world's."""
        return 0

    def deliver(self, most: int) -> None:
        """Deliver up to `most` records, those included that are queued meanwhile."""
        while most > 0 and self._queue:
            most -= 1
            topic, key, value, on_delivery = self._queue.popleft()
            self.written += 1
            error = None
            if self.failing and self._random.random() < 0.5:
                error, self.failed_at = KafkaError(_TIMED_OUT), self.written
            else:
                self._append(topic, key, value)
            on_delivery(error, None)  # type: ignore[arg-type]

    def die(self) -> None:
        """Some of what was queued is in the topics all the same."""
        for _ in range(self._random.randint(0, len(self._queue))):
            topic, key, value, _on_delivery = self._queue.popleft()
            self.written += 1
            self._append(topic, key, value)
        self._queue.clear()

    def _append(self, topic: str, key: bytes, value: bytes | None) -> None:
        self._topics.named(topic).append(key, value)
        if topic == MAP and not is_note_key(key):
            partition = parse_page_key(key)[1]
            self.pages.add(partition)
            if self._topics.counts(key, value):
                self.counting.add(partition)
        if topic == SYNCS:
            self.counting.add(OffsetSync.decode(key, value or b"").partition)

    @property
    def takes_over(self) -> bool:
        """Whether notes of the owner are under way."""
        return any(key.startswith(Note.OWNER.value) for _, key, _, _ in self._queue)

    def purge(self) -> None:
        self._queue.clear()

    @property
    def waiting(self) -> int:
        return len(self._queue)


class _Reading:
    def __init__(self, topic: Topic, on_read: Callable[[MapTopic], None], before: MapTopic) -> None:
        self._topic, self._on_read = topic, on_read
        self._reading = MapTopicReading(MAP, before)
        reached = (before.reached or {}).get(0, 0)
        same = before.topic_id in (None, topic.topic_id) and reached <= topic.end
        self._start = reached if same else 0
        self._reading.of_topic(topic.topic_id)
        self.done = False

    def finish(self) -> None:
        """Read to the end that the topic has now."""
        self.done = True
        end = self._topic.read(self._start, self._reading.take)
        self._on_read(self._reading.read({0: end}))

    def fail(self) -> None:
        """The topic cannot be read."""
        self.done = True
        self._on_read(self._reading.unread())

    def wait(self, seconds: float) -> None:
        """It ends when the world says."""

    def close(self) -> None:
        self.done = True


class WorkerTopics:
    """`OffsetTopicClients` of one worker."""

    def __init__(self, topics: Topics, random: Random) -> None:
        self._topics = topics
        self.producer = Producer(topics, random)
        self.reading: _Reading | None = None

    def writer(self, clock: Clock) -> OffsetSyncProducer:
        return OffsetSyncProducer(self.producer, SYNCS, MAP, clock)

    def read_map(self, on_read: Callable[[MapTopic], None], before: MapTopic) -> _Reading:
        self.reading = _Reading(self._topics.map, on_read, before)
        return self.reading

    @property
    def reads(self) -> bool:
        return self.reading is not None and not self.reading.done
