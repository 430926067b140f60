"""Simulated internal topics: ordered logs of (key, value), and the clients that use them.

Writes take a seeded time, fail, or are appended although their writer is told that they failed.
What a writer has under way when it dies arrives up to a seeded record, and no further.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

from confluent_kafka import KafkaError

from connect.clients.librdkafka.topic_log import LogRecord
from connectors.mirror.offsets.map_topic_reading import MapTopic, MapTopicReading
from tests.simulation.mirror.session import Session
from tests.simulation.mirror.timeline import Life, Timeline

__all__ = ["MOST_LATE_S", "InternalTopic", "SimulatedMapReader", "SimulatedProducer", "TopicFaults"]

MOST_LATE_S = 0.5
"""So long after its writer's end a record may still arrive."""

_MOST_QUEUED = 200
"""Records of one producer; librdkafka has 100,000. Few, so that a full queue happens."""


class TopicFaults:
    """How the cluster of an internal topic behaves now. Times in seconds."""

    def __init__(self) -> None:
        self.write_s = (0.001, 0.02)
        self.read_s = (0.01, 0.3)
        self.disturbed = 0
        """How many disturbances last now."""
        self.failing = 0.0
        """Probability that a write fails; half of those are appended all the same."""
        self.unreadable = 0.0
        """Probability that a reader gives up."""

    def calm(self) -> None:
        """Everything works from now on."""
        self.__init__()  # type: ignore[misc]


class InternalTopic:
    """One partition. `on_append(record, session)` is told of each record, and who wrote it."""

    def __init__(self, name: str, faults: TopicFaults, now_ms: Callable[[], int]) -> None:
        self.name = name
        self._now_ms = now_ms
        self.faults = faults
        self.end = 0
        self.active_ms = 0
        """The active segment holds what was written in so long a time."""
        self.records: list[LogRecord] = []
        self.on_append: Callable[[LogRecord, Session], None] = lambda *_: None

    def append(self, key: bytes, value: bytes | None, session: Session) -> None:
        record = LogRecord(0, self.end, key, value, self._now_ms())
        self.end += 1
        self.records.append(record)
        self.on_append(record, session)

    def compact(self) -> None:
        """Keep the newest record of each key; deletions go, too. What is in the active segment
        stays as it is."""
        active = self._now_ms() - self.active_ms
        old = [record for record in self.records if record.timestamp_ms <= active]
        newest = {record.key: record.offset for record in old}
        self.records = [
            record
            for record in self.records
            if record.timestamp_ms > active
            or (newest[record.key] == record.offset and record.value is not None)
        ]

    def newest(self, before: int | None = None) -> dict[bytes, LogRecord]:
        """The newest record of each key, of those before this offset, without deleted keys."""
        end = self.end if before is None else before
        found = {record.key or b"": record for record in self.records if record.offset < end}
        return {key: record for key, record in found.items() if record.value is not None}


class SimulatedProducer:
    """A `sync_producer.RecordProducer` for internal topics. Appends in its order."""

    def __init__(
        self,
        timeline: Timeline,
        life: Life,
        session: Session,
        topics: Mapping[str, InternalTopic],
    ) -> None:
        self._timeline = timeline
        self._session = session
        self._life = life
        self._topics = topics
        self._queued = 0
        self._arrives_at = 0.0
        self._under_way: deque[tuple[int, float]] = deque()
        self._next = 0
        self._arrives_until: int | None = None
        self._reports: deque[Callable[[], None]] = deque()

    def produce(
        self,
        topic: str,
        value: bytes | None = None,
        key: bytes | None = None,
        partition: int = -1,
        *,
        on_delivery: Callable[[Any, Any], None] | None = None,
    ) -> None:
        self._life.step()
        if self._queued >= _MOST_QUEUED:
            self._session.whole = False
            raise BufferError("the simulated queue is full")
        timeline, log = self._timeline, self._topics[topic]
        chance, faults = timeline.random, log.faults
        self._queued += 1
        number, self._next = self._next, self._next + 1
        fails = chance.random() < faults.failing
        if fails:
            self._session.whole = False
        arrives = not fails or chance.random() < 0.5
        now = timeline.monotonic()
        self._arrives_at = max(self._arrives_at, now + chance.uniform(*faults.write_s))
        answer_s = chance.uniform(*faults.write_s)
        self._under_way.append((number, self._arrives_at))

        def arrive() -> None:
            self._under_way.popleft()
            if self._arrives_until is not None and number >= self._arrives_until:
                return
            if arrives:
                log.append(key or b"", value, self._session)
            timeline.after(answer_s, answer)

        def answer() -> None:
            error = KafkaError(KafkaError._MSG_TIMED_OUT) if fails else None

            def report() -> None:
                self._queued -= 1
                if on_delivery is not None:
                    on_delivery(error, None)

            self._reports.append(report)

        timeline.after(self._arrives_at - now, arrive)

    def poll(self, timeout: float = 0.0) -> int:
        if timeout > 0 and not self._reports:
            self._timeline.wait(lambda: bool(self._reports), timeout)
        served = len(self._reports)
        for _ in range(served):
            self._reports.popleft()()
        return served

    def purge(self) -> None:
        self._session.whole = False
        self.die()

    def die(self) -> None:
        """Whoever writes is gone: what is under way arrives up to a seeded record."""
        if self._under_way and self._arrives_until is None:
            soon = self._timeline.monotonic() + MOST_LATE_S
            sent = [number for number, arrives_at in self._under_way if arrives_at < soon]
            first = self._under_way[0][0]
            self._arrives_until = self._timeline.random.randint(first, first + len(sent))


class SimulatedMapReader:
    """An `internal_topics.MapReader` that reads the map's topic in a seeded time, or gives up."""

    def __init__(
        self,
        timeline: Timeline,
        session: Session,
        topic: InternalTopic,
        on_read: Callable[[MapTopic], None],
        before: MapTopic,
    ) -> None:
        self._session = session
        self._topic = topic
        self._on_read = on_read
        self._scan = MapTopicReading(topic.name, before)
        self._after = (before.reached or {}).get(0, 0)
        self._closed = False
        chance = timeline.random
        self._fails = chance.random() < topic.faults.unreadable
        took = chance.uniform(*topic.faults.read_s)
        listed = chance.uniform(0, took)
        timeline.after(listed, self._list_end)
        timeline.after(took, self._finish)
        self._end = 0

    def _list_end(self) -> None:
        self._end = self._topic.end

    def _finish(self) -> None:
        if self._closed:
            return
        self._closed = True
        if self._fails:
            self._session.whole = False
            self._on_read(self._scan.unread())
            return
        for record in self._topic.records:
            if self._after <= record.offset < self._end:
                self._scan.take(record)
        self._session.read_to = self._end
        self._on_read(self._scan.read({0: max(self._after, self._end)}))

    def wait(self, seconds: float) -> None:
        """Its worker ends before."""

    def close(self) -> None:
        if not self._closed:
            # It cannot know whose pages overrule its own.
            self._session.whole = False
        self._closed = True
