"""Sink tasks whose topics or brokers are not there for a while."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from connect.clock import SYSTEM_CLOCK, Deadline
from connect.errors import DeadlineExceeded
from connect.runtime.sink.consumer import SinkConsumer
from connect.runtime.states import State
from deploy.brokers import KafkaCluster, KafkaRuntime
from tests.support.records.topics import admin, create_topic, unique
from tests.support.waiting import wait_until
from tests.support.workers.bench import Bench
from tests.support.workers.plugins import Events
from tests.support.workers.telling_sink import TellingSinkConnector

AGE = "consumer.override.metadata.max.age.ms"
# Nothing listens there.
NOWHERE = "127.0.0.1:1"


@pytest.fixture
def own_cluster(kafka: KafkaRuntime, logs: Path) -> Iterator[KafkaCluster]:
    with KafkaCluster(name="outage", kafka=kafka, logs=logs) as cluster:
        yield cluster


def open_bench(cluster: KafkaCluster) -> Bench:
    bench = Bench(cluster)
    bench.plugins.register(TellingSinkConnector)
    return bench


def put_sink(bench: Bench, regex: str) -> str:
    name = unique("sink")
    config = {"topics.regex": regex, AGE: "300"}
    bench.herder.put_connector(
        name, {"connector.class": "TellingSink", "name": name, "topic": bench.topic, **config}
    )
    return name


def test_a_regex_without_topics_idles_until_there_is_one(target_cluster: KafkaCluster) -> None:
    bench = open_bench(target_cluster)
    prefix = unique("later")
    name = put_sink(bench, f"{prefix}.*")
    bench.becomes(State.RUNNING, State.RUNNING, name=name)
    topic = create_topic(bench.servers, name=f"{prefix}-1")
    bench.produce(b"one", topic=topic)
    bench.told("put 0 b'one'")
    # And again, when the last one has gone.
    client = admin(bench.servers)
    client.delete_topics([topic])[topic].result(30)
    bench.told("close [0]")
    topic = create_topic(bench.servers, name=f"{prefix}-2")
    bench.produce(b"two", topic=topic)
    bench.told("put 0 b'two'")
    bench.becomes(State.RUNNING, State.RUNNING, name=name)
    assert bench.close()


def test_a_topic_of_a_list_is_deleted_and_the_others_go_on(target_cluster: KafkaCluster) -> None:
    bench = open_bench(target_cluster)
    gone, kept = (create_topic(bench.servers, name=unique(name)) for name in ("gone", "kept"))
    name = unique("sink")
    config = {"topics": f"{gone},{kept}", AGE: "300", "topic": bench.topic}
    bench.herder.put_connector(name, {"connector.class": "TellingSink", "name": name, **config})
    bench.produce(b"one", topic=gone)
    bench.produce(b"two", topic=kept)
    bench.told("put 0 b'one'")
    bench.told("put 0 b'two'")
    told = len(Events.of(bench.topic))
    admin(bench.servers).delete_topics([gone])[gone].result(30)
    wait_until(
        lambda: any(event.startswith("close") for event in Events.of(bench.topic)[told:]),
        30.0,
        "the partition of the deleted topic to be closed",
    )
    bench.produce(b"three", topic=kept)
    bench.told("put 1 b'three'")
    assert sorted(bench.puts()) == ["put 0 b'one'", "put 0 b'two'", "put 1 b'three'"], "each once"
    bench.becomes(State.RUNNING, State.RUNNING, name=name)
    assert bench.close()


def test_topics_that_cannot_be_asked_for_now_are_asked_for_again(
    own_cluster: KafkaCluster, caplog: pytest.LogCaptureFixture
) -> None:
    bench = open_bench(own_cluster)
    (node,) = own_cluster.nodes
    name = put_sink(bench, bench.topic)
    bench.produce(b"one")
    bench.told("put 0 b'one'")
    node.pause()
    wait_until(lambda: "Listing topics failed" in caplog.text, 30.0, "a question without answer")
    node.resume()
    bench.produce(b"two")
    bench.told("put 1 b'two'")
    assert bench.states(name) == [State.RUNNING, State.RUNNING]
    # Stopping does not wait for a broker that does not answer.
    bench.produce(b"three")
    bench.told("put 2 b'three'")
    node.pause()
    bench.herder.stop_connector(name)
    wait_until(lambda: not bench.herder.status(name).tasks, 30.0, "the task's end")
    node.resume()
    assert "did not stop in time" not in caplog.text
    bench.close()
    assert bench.puts() == ["put 0 b'one'", "put 1 b'two'", "put 2 b'three'"]


def test_the_last_commit_and_the_closing_keep_to_their_deadlines() -> None:
    consumer = SinkConsumer(
        # The client itself gives up after this; otherwise after 45 s.
        {"bootstrap.servers": NOWHERE, "group.id": "g", "session.timeout.ms": "2000"},
        {"topics": "t"},
        SYSTEM_CLOCK,
        on_assign=lambda _: {},
        on_revoke=lambda _: None,
        on_lost=lambda _: None,
        on_commit=lambda *_: None,
    )
    with pytest.raises(DeadlineExceeded):
        consumer.commit_now({("t", 0): 1}, Deadline(0.3))
    assert not consumer.close(Deadline(0.3))
    # It goes on by itself and comes to its end.
    assert consumer.close(Deadline(20.0))
