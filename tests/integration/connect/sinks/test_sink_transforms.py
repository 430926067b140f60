"""Transformations of sinks that a predicate chooses records for, on a real broker."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import confluent_kafka
import pytest

from connect.plugin import SinkRecord, SinkTask
from deploy.brokers import KafkaCluster
from tests.support.records.producing import Record, produce
from tests.support.records.topics import create_topic, unique
from tests.support.workers.bench import Bench
from tests.support.workers.telling_sink import TellingSinkConnector, TellingSinkTask

SMT = "org.apache.kafka.connect.transforms."


class NamingSinkTask(TellingSinkTask):
    """Tells the topics that its records name."""

    def put(self, records: Sequence[SinkRecord]) -> None:
        for record in records:
            self._tell(f"put to {record.topic} from {record.original_topic}")


class NamingSinkConnector(TellingSinkConnector):
    def task_class(self) -> type[SinkTask]:
        return NamingSinkTask


@pytest.fixture
def bench(target_cluster: KafkaCluster) -> Iterator[Bench]:
    bench = Bench(target_cluster)
    for connector in (TellingSinkConnector, NamingSinkConnector):
        bench.plugins.register(connector)
    yield bench
    bench.close()


def put_sink(bench: Bench, topics: str, predicate: str, **options: str) -> str:
    """A sink that drops the records that the predicate is true of."""
    name = unique("sink")
    chosen = {f"predicates_chosen_{key}": value for key, value in options.items()}
    bench.put(
        "TellingSink",
        name,
        topics=topics,
        transforms="drop",
        transforms_drop_type=f"{SMT}Filter",
        transforms_drop_predicate="chosen",
        predicates="chosen",
        predicates_chosen_type=f"{SMT}predicates.{predicate}",
        **chosen,
    )
    return name


def test_records_of_some_topics_are_dropped_and_their_offsets_committed(bench: Bench) -> None:
    dropped = create_topic(bench.servers, "dropped")
    bench.produce(b"no", b"nor this", topic=dropped)
    bench.produce(b"yes")
    put_sink(bench, f"{bench.topic},{dropped}", "TopicNameMatches", pattern="dropped.*")
    bench.told("commit [1, 2]")
    assert bench.puts() == ["put 0 b'yes'"]


def test_tombstones_are_dropped(bench: Bench) -> None:
    producer = confluent_kafka.Producer({"bootstrap.servers": bench.servers})
    for value in (b"one", None, b"three", None):
        producer.produce(bench.topic, value, b"key", partition=0)
    assert producer.flush(30) == 0
    put_sink(bench, bench.topic, "RecordIsTombstone")
    bench.told("commit [4]")
    assert bench.puts() == ["put 0 b'one'", "put 2 b'three'"]


def test_records_with_a_header_are_dropped(bench: Bench) -> None:
    producer = confluent_kafka.Producer({"bootstrap.servers": bench.servers})
    for number, header in enumerate(("none", "secret", "other")):
        headers: dict[str, str | bytes | None] = {header: b"x"}
        producer.produce(bench.topic, str(number).encode(), partition=0, headers=headers)
    assert producer.flush(30) == 0
    put_sink(bench, bench.topic, "HasHeaderKey", name="secret")
    bench.told("commit [3]")
    assert bench.puts() == ["put 0 b'0'", "put 2 b'2'"]


def test_a_router_by_date_names_where_records_go_and_offsets_stay_the_topic_s_own(
    bench: Bench,
) -> None:
    midnight = 1_767_225_600_000
    sent = [Record(b"v", timestamp_ms=time) for time in (midnight - 1, midnight)]
    produce(bench.servers, bench.topic, sent)
    bench.put(
        "NamingSink",
        unique("sink"),
        topics=bench.topic,
        transforms="daily",
        transforms_daily_type=f"{SMT}TimestampRouter",
    )
    bench.told("commit [2]")
    assert bench.puts() == [
        f"put to {bench.topic}-{day} from {bench.topic}" for day in ("20251231", "20260101")
    ]
