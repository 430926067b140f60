"""Making a log lose what it had, and what the history tells of that."""

from __future__ import annotations

from confluent_kafka import KafkaError, KafkaException, TopicPartition
from sqlalchemy import create_engine, select

from connectors.mirror.history.tables import TABLES
from connectors.mirror.offsets.map_notes import Note, parse_note_key
from connectors.mirror.offsets.start_positions import FORGET_ALL, FirstPosition
from tests.support.flows.mirrored import MirroredFlow
from tests.support.records.producing import numbered, produce
from tests.support.records.reading import read_partition
from tests.support.records.topics import admin, create_topic, has_topic
from tests.support.waiting import wait_until

__all__ = [
    "assert_copied_ranges",
    "create_again",
    "delete_records",
    "delete_topic",
    "first_positions",
    "history_losses",
    "history_rows",
    "renew",
]

_TIMEOUT_S = 60.0
_OF_FLOWS = ("task.started", "task.stopped", "task.failed", "connector.failed")
_NO_LOSSES = ("stuck", "moving", "changed", "moved", *_OF_FLOWS)
_LOSS = ("topic", "kind", "action", "first", "last", "resume")


def delete_topic(servers: str, topic: str) -> None:
    """It may be there for a moment still."""
    client = admin(servers)
    client.delete_topics([topic])[topic].result(_TIMEOUT_S)


def delete_records(servers: str, topic: str, before: int) -> None:
    """Those of partition 0 before this offset."""
    client = admin(servers)
    partition = TopicPartition(topic, 0, before)
    client.delete_records([partition])[partition].result(_TIMEOUT_S)


def create_again(servers: str, topic: str) -> None:
    """Another topic of the name of one that was deleted, once that is gone. ZooKeeper still has the
    name for a moment after brokers have forgotten it."""
    wait_until(lambda: not has_topic(servers, topic), _TIMEOUT_S, "it is gone")

    def created() -> bool:
        try:
            create_topic(servers, name=topic)
        except KafkaException as error:
            if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise
            return False
        return True

    wait_until(created, _TIMEOUT_S, "it is there again")


def renew(servers: str, topic: str, count: int = 150) -> None:
    """Another topic of this name, with so many records, from number 1000 on: where the first one
    had fewer, the offset that was next exists again, and only the topic's id tells."""
    delete_topic(servers, topic)
    create_again(servers, topic)
    produce(servers, topic, numbered(count, start=1_000))


def history_rows(url: str, table: str) -> list[dict[str, object]]:
    """All rows of a table of the history."""
    engine = create_engine(url)
    try:
        with engine.connect() as connection:
            found = connection.execute(select(TABLES.tables[table]))
            return [dict(row._mapping) for row in found]
    finally:
        engine.dispose()


def history_losses(url: str) -> set[tuple[object, ...]]:
    """(topic, kind, action, first, last, resume) of each loss in the history."""
    return {
        tuple(row[name] for name in _LOSS)
        for row in history_rows(url, "mirror_events")
        if row["kind"] not in _NO_LOSSES
    }


def assert_copied_ranges(url: str, topic: str, start: int, end: int, records: int) -> None:
    """The history's ranges of a topic begin and end there, and have so many records in all."""
    copied = [row for row in history_rows(url, "mirror_ranges") if row["topic"] == topic]
    assert (copied[0]["source_start"], copied[-1]["source_end"]) == (start, end)
    assert sum(int(str(row["records"])) for row in copied) == records


def first_positions(flow: MirroredFlow) -> dict[str, FirstPosition]:
    """Where partitions 0 were begun without a stored offset, by topic, as is kept now."""
    found: dict[str, FirstPosition] = {}
    if not has_topic(flow.source_servers, flow.map_topic):
        return found
    for record in read_partition(flow.source_servers, flow.map_topic):
        key = parse_note_key(Note.START, record.key)
        if record.key == FORGET_ALL:
            found.clear()
        elif key is not None and record.value is None:
            found.pop(key[0], None)
        elif key is not None:
            found[key[0]] = FirstPosition.decode(record.value or b"")
    return found
