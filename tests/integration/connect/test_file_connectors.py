"""The file connectors on a real broker."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import confluent_kafka
import pytest

from connect.runtime.states import State
from connectors.files.plugins import register
from deploy.brokers import KafkaCluster
from tests.support.waiting import wait_until
from tests.support.workers.bench import Bench

JAVA_NAMES = "org.apache.kafka.connect.file."
STRINGS = "org.apache.kafka.connect.storage.StringConverter"


@pytest.fixture
def bench(target_cluster: KafkaCluster) -> Iterator[Bench]:
    bench = Bench(target_cluster)
    register(bench.plugins)
    yield bench
    bench.close()


def reopen(bench: Bench) -> None:
    assert bench.close()
    bench.open()
    register(bench.plugins)


def put_source(bench: Bench, file: Path) -> None:
    bench.put(
        f"{JAVA_NAMES}FileStreamSourceConnector", "source", file=str(file), value_converter=STRINGS
    )


def add(file: Path, text: str) -> None:
    with file.open("a") as out:
        out.write(text)


def test_lines_become_records_and_none_comes_twice_after_a_restart(
    bench: Bench, tmp_path: Path
) -> None:
    file = tmp_path / "lines"
    add(file, "one\ntwo\nthr")
    put_source(bench, file)
    bench.arrived("one", "two")
    bench.becomes(State.RUNNING, State.RUNNING, name="source")
    reopen(bench)
    add(file, "ee\nfour\n")
    put_source(bench, file)
    bench.arrived("three", "four")
    assert bench.values() == [b"one", b"two", b"three", b"four"]


def put_sink(bench: Bench, file: Path, **config: str) -> None:
    """It has the topic's name, so that its group is no other test's."""
    bench.put(
        f"{JAVA_NAMES}FileStreamSinkConnector",
        bench.topic,
        file=str(file),
        tasks_max="1",
        value_converter=STRINGS,
        **config,
    )


def produce(bench: Bench, *values: str) -> None:
    producer = confluent_kafka.Producer({"bootstrap.servers": bench.servers})
    for value in values:
        producer.produce(bench.topic, value.encode(), partition=0)
    assert producer.flush(30) == 0


def becomes_text(file: Path, text: str) -> None:
    wait_until(lambda: file.exists() and file.read_text() == text, 30.0, f"{file} to hold {text!r}")


def committed(bench: Bench) -> int:
    """What the sink's consumer group committed for the topic's one partition."""
    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": bench.servers, "group.id": f"connect-{bench.topic}"}
    )
    try:
        (found,) = consumer.committed([confluent_kafka.TopicPartition(bench.topic, 0)], 10)
        return int(found.offset)
    finally:
        consumer.close()


def test_records_become_lines_and_their_offsets_are_committed(bench: Bench, tmp_path: Path) -> None:
    file = tmp_path / "out"
    produce(bench, "one", "two")
    put_sink(bench, file, topics=bench.topic)
    becomes_text(file, "one\ntwo\n")
    wait_until(lambda: committed(bench) == 2, 30.0, "the commit of both records")
    bench.becomes(State.RUNNING, State.RUNNING, name=bench.topic)
    produce(bench, "three")
    becomes_text(file, "one\ntwo\nthree\n")
    reopen(bench)
    assert committed(bench) == 3
    produce(bench, "four")
    put_sink(bench, file, topics=bench.topic)
    becomes_text(file, "one\ntwo\nthree\nfour\n")


def test_topics_are_found_by_regex_and_records_transformed(bench: Bench, tmp_path: Path) -> None:
    file = tmp_path / "out"
    produce(bench, "one")
    put_sink(
        bench,
        file,
        topics_regex=f"(?:none|{bench.topic})",
        transforms="wrap",
        transforms_wrap_type="org.apache.kafka.connect.transforms.HoistField$Value",
        transforms_wrap_field="line",
    )
    wait_until(lambda: file.exists() and "one" in file.read_text(), 30.0, "the line")
    assert "line" in file.read_text()


def test_a_sink_that_cannot_write_fails_and_says_why(bench: Bench, tmp_path: Path) -> None:
    put_sink(bench, tmp_path / "missing" / "out", topics=bench.topic)
    bench.becomes(State.RUNNING, State.FAILED, name=bench.topic)
    assert "Cannot write to file" in str(bench.herder.status(bench.topic).tasks[0].status.trace)
