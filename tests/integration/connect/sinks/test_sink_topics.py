"""The topics of sinks that are created after the sink, and the topics that connectors use."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from connect.runtime.states import State
from deploy.brokers import KafkaCluster
from tests.support.records.topics import create_topic, unique
from tests.support.waiting import wait_until
from tests.support.workers.bench import TIMEOUT_S, Bench, numbers
from tests.support.workers.telling_sink import TellingSinkConnector


@pytest.fixture
def bench(target_cluster: KafkaCluster) -> Iterator[Bench]:
    bench = Bench(target_cluster)
    bench.plugins.register(TellingSinkConnector)
    yield bench
    bench.close()


def put_sink(bench: Bench, topics: str) -> str:
    name = unique("sink")
    bench.put("TellingSink", name, topics=topics)
    bench.becomes(State.RUNNING, State.RUNNING, name=name)
    return name


def has_topics(bench: Bench, name: str, *topics: str) -> None:
    wait_until(
        lambda: bench.herder.active_topics(name) == sorted(topics), TIMEOUT_S, f"topics {topics}"
    )


def test_a_listed_topic_that_is_created_later_is_read(bench: Bench) -> None:
    """With the default of `metadata.max.age.ms`, 5 minutes."""
    late = unique("late")
    put_sink(bench, f"{bench.topic},{late}")
    bench.produce(b"one")
    bench.told("put 0 b'one'")
    create_topic(bench.servers, name=late)
    bench.produce(b"two", topic=late)
    bench.told("put 0 b'two'")
    bench.produce(b"three")
    bench.told("put 1 b'three'")


def test_a_sink_none_of_whose_topics_exists_waits_for_them(bench: Bench) -> None:
    first, second = unique("first"), unique("second")
    name = put_sink(bench, f"{first},{second}")
    for topic in (second, first):
        create_topic(bench.servers, name=topic)
        bench.produce(topic.encode(), topic=topic)
        bench.told(f"put 0 {topic.encode()!r}")
    bench.becomes(State.RUNNING, State.RUNNING, name=name)


def test_topics_that_a_sink_still_reads_are_active_again_after_a_reset(bench: Bench) -> None:
    old = create_topic(bench.servers, "old")
    name = put_sink(bench, f"{bench.topic},{old}")
    bench.produce(b"one")
    bench.produce(b"two", topic=old)
    has_topics(bench, name, bench.topic, old)
    bench.herder.reset_active_topics(name)
    assert bench.herder.active_topics(name) == []
    bench.produce(b"three")
    has_topics(bench, name, bench.topic)


def test_topics_that_a_source_still_writes_are_active_again_after_a_reset(bench: Bench) -> None:
    bench.put("RecordLane", count="1")
    bench.arrived("a:0")
    has_topics(bench, "lanes", bench.topic)
    bench.herder.reset_active_topics("lanes")
    bench.put("RecordLane", count="2")
    bench.arrived(*numbers("a", 0, 2))
    has_topics(bench, "lanes", bench.topic)
