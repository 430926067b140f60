"""Two groups of a trial: one that commits ever higher offsets on the source, and one that reads,
fails over to the copy in the middle, and reads on there."""

from __future__ import annotations

import threading
from collections.abc import Collection, Sequence

from confluent_kafka import Consumer, KafkaException, TopicPartition

from tests.support.chaos.journal import identity
from tests.support.flows.mirrored import MirroredFlow
from tests.support.records.topics import unique

__all__ = ["Committer", "Reader"]

_COMMIT_EVERY_S = 1.0
_END_S = 60.0
_REQUEST_S = 5.0
_BATCH = 500
_POLL_S = 0.3


class Committer:
    """Commits offsets on the source, as far as records were written. `last`: by partition.
    `commits`: all of them, ascending, each once."""

    def __init__(self, servers: str, partitions: Sequence[tuple[str, int]]) -> None:
        self.group = unique("group")
        self.commits: dict[tuple[str, int], list[int]] = {where: [] for where in partitions}
        self._tried: dict[tuple[str, int], int] = {}
        self._partitions = partitions
        self._consumer = Consumer(
            {"bootstrap.servers": servers, "group.id": self.group, "log_level": 0}
        )
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"committer-{self.group}")
        self._thread.start()

    @property
    def last(self) -> dict[tuple[str, int], int]:
        return {where: done[-1] for where, done in self.commits.items() if done}

    def _run(self) -> None:
        while not self._stop.wait(_COMMIT_EVERY_S):
            self.succeeds()

    def succeeds(self, back: int = 0) -> bool:
        """Whether it could commit: brokers may be away, or just back."""
        try:
            self.commit(back)
        except KafkaException:
            return False
        return True

    def commit(self, back: int = 0) -> None:
        """Everything that is there, but for `back` records before the end."""
        offsets = []
        for topic, number in self._partitions:
            where = TopicPartition(topic, number)
            _, end = self._consumer.get_watermark_offsets(where, timeout=_REQUEST_S)
            # One that failed may have been committed nevertheless.
            at = max(self._tried.get((topic, number), 0), end - back)
            self._tried[topic, number] = at
            offsets.append(TopicPartition(topic, number, at))
        self._consumer.commit(offsets=offsets, asynchronous=False)
        for each in offsets:
            done = self.commits[each.topic, each.partition]
            if each.offset not in done[-1:]:
                done.append(each.offset)

    def stop(self) -> None:
        self._stop.set()
        self._thread.join(_END_S)

    def close(self) -> None:
        self.stop()
        self._consumer.close()


class Reader:
    """A member of a group that reads topics of the source, commits what it has read, and after
    `fail_over` reads their copies from where the mirror put the group. `read`: the identities of
    the records of both.

    `commits_last`: whether it commits once more before it fails over, as one that is moved does
    and one that dies does not.
    """

    def __init__(self, flow: MirroredFlow, topics: Sequence[str], *, commits_last: bool) -> None:
        self.group = unique("reader")
        self.read: set[bytes] = set()
        self.counts = {"source": 0, "target": 0}
        self._flow = flow
        self._topics = list(topics)
        self._commits_last = commits_last
        self._over = threading.Event()
        self._stop = threading.Event()
        self._failure: Exception | None = None
        self._thread = threading.Thread(target=self._run, name=self.group)
        self._thread.start()

    def fail_over(self) -> None:
        self._over.set()

    def has_read(self, wanted: Collection[bytes]) -> bool:
        assert self._failure is None, self._failure
        return self.read.issuperset(wanted)

    def close(self) -> None:
        self._over.set()
        self._stop.set()
        self._thread.join(_END_S)
        assert not self._thread.is_alive(), self.group

    def _run(self) -> None:
        try:
            self._follow("source", self._flow.source_servers, self._topics, self._over)
            copies = [self._flow.remote(topic) for topic in self._topics]
            self._follow("target", self._flow.target_servers, copies, self._stop)
        except Exception as error:  # noqa: BLE001 - raised again by the trial's thread
            self._failure = error

    def _follow(self, side: str, servers: str, topics: list[str], end: threading.Event) -> None:
        consumer = Consumer(
            {
                "bootstrap.servers": servers,
                "group.id": self.group,
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "isolation.level": "read_committed",
                "topic.metadata.refresh.interval.ms": 2_000,
                "reconnect.backoff.max.ms": 500,
                "session.timeout.ms": 10_000,
                "log_level": 0,
            }
        )
        try:
            consumer.subscribe(topics)
            while not end.is_set():
                self._some(side, consumer)
            if self._commits_last:
                self._commit(consumer)
        finally:
            consumer.close()

    def _some(self, side: str, consumer: Consumer) -> None:
        for message in consumer.consume(_BATCH, _POLL_S):
            if message.error() is None:
                self.read.add(identity(message.value() or b""))
                self.counts[side] += 1
        if not self._over.is_set() or side == "target":
            self._commit(consumer)

    @staticmethod
    def _commit(consumer: Consumer) -> None:
        """What was read; brokers that are away, and a rebalance, leave it to the next time."""
        try:
            consumer.commit(asynchronous=False)
        except KafkaException:
            return
