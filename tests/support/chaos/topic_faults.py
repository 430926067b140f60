"""What is done to topics of the source: deleted records, topics created again, new partitions."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from confluent_kafka import KafkaException, TopicPartition
from confluent_kafka.admin import NewPartitions
from kafka.errors import KafkaError

from connect.errors import DeadlineExceeded
from tests.support.chaos.schedule import Action
from tests.support.chaos.writing import Writer
from tests.support.flows.mirrored import MirroredFlow
from tests.support.records.topics import admin, create_topic, end_offsets, topic_names
from tests.support.waiting import wait_until

__all__ = ["Subject", "TopicFaults", "persist"]

_READY_S = 120.0
_TIMEOUT_S = 60.0
_REQUEST_S = 10.0
_MOST_PARTITIONS = 5


@dataclass(frozen=True)
class Subject:
    """Source topics to which something is done. `trimmed` has the partitions that are counted by
    `Action.which`; `again` is deleted and created again while its writer waits; `growing` gets more
    partitions, to which its writer writes, too."""

    trimmed: str
    again: str
    writer: Writer
    growing: str
    growing_writer: Writer
    replication: int
    led: Sequence[str] = ()
    """Topics of the source whose leaders move; on the target their copies' do."""


def persist(attempt: Callable[[], None], what: str) -> None:
    """Until it succeeds: brokers and controllers may be away."""

    def succeeded() -> bool:
        try:
            attempt()
        except (KafkaException, KafkaError, TimeoutError, DeadlineExceeded):
            return False
        return True

    wait_until(succeeded, _READY_S, what)


class TopicFaults:
    """`partitions`: how many the growing topic has by now.

    Nothing is deleted of a partition before the mirror has begun to copy it: what was deleted
    earlier was never its business (docs/reference/losses.md).
    """

    def __init__(self, flow: MirroredFlow, subject: Subject) -> None:
        self.partitions = 1
        self._flow = flow
        self._servers = flow.source_servers
        self._subject = subject

    def do(self, action: Action) -> str:
        if action.track == "partitions":
            self._grow()
        elif action.kind == "trim":
            self._await_begun(self._subject.trimmed, action.which - 1)
            persist(lambda: self._trim(action), "trimmed")
        else:
            self._await_begun(self._subject.again, 0)
            with self._subject.writer.held():
                self._create_again(action.hold_s)
                self._subject.writer.life += 1
        return action.kind

    def _await_begun(self, topic: str, partition: int) -> None:
        servers, copy = self._flow.target_servers, self._flow.remote(topic)

        def begun() -> None:
            _expect(copy in topic_names(servers))
            _expect(end_offsets(servers, copy).get(partition, 0) > 0)

        persist(begun, f"{topic}-{partition} is begun")

    def _create_again(self, hold_s: float) -> None:
        servers, topic = self._servers, self._subject.again
        client = admin(servers)

        def delete() -> None:
            if topic in topic_names(servers):
                client.delete_topics([topic])[topic].result(_TIMEOUT_S)

        def create() -> None:
            if topic not in topic_names(servers):
                create_topic(servers, name=topic, replication=self._subject.replication)

        persist(delete, f"{topic} is deleted")
        persist(lambda: _expect(topic not in topic_names(servers)), f"{topic} is gone everywhere")
        if hold_s > 0:
            threading.Event().wait(hold_s)
        persist(create, f"{topic} is created again")

    def _trim(self, action: Action) -> None:
        """As retention that won the race: records are deleted up to nearly the end."""
        topic, partition = self._subject.trimmed, action.which - 1
        before = max(0, end_offsets(self._servers, topic)[partition] - action.amount)
        wanted = TopicPartition(topic, partition, before)
        client = admin(self._servers)
        client.delete_records([wanted], request_timeout=_REQUEST_S)[wanted].result(_TIMEOUT_S)

    def _grow(self) -> None:
        if self.partitions == _MOST_PARTITIONS:
            return
        topic, wanted = self._subject.growing, self.partitions + 1
        client = admin(self._servers)

        def add() -> None:
            known = client.list_topics(topic, timeout=_REQUEST_S).topics[topic].partitions
            if len(known) < wanted:
                client.create_partitions([NewPartitions(topic, wanted)])[topic].result(_TIMEOUT_S)
                known = client.list_topics(topic, timeout=_REQUEST_S).topics[topic].partitions
            _expect(len(known) == wanted)

        persist(add, f"{topic} has {wanted} partitions")
        self.partitions = wanted
        self._subject.growing_writer.add(topic, wanted - 1)


def _expect(condition: bool) -> None:
    if not condition:
        raise TimeoutError
