"""Topics that a source connector describes, on a real broker."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from connect.runtime.states import State
from deploy.brokers import KafkaCluster
from tests.support.records.topics import admin, create_topic, has_topic, topic_config, unique
from tests.support.workers.bench import Bench

DEFAULT = {
    "topic_creation_default_partitions": "2",
    "topic_creation_default_replication_factor": "1",
}


@pytest.fixture
def bench(target_cluster: KafkaCluster) -> Iterator[Bench]:
    bench = Bench(target_cluster)
    bench.topic = unique("described")
    yield bench
    bench.close()


def partitions_of(bench: Bench) -> int:
    found = admin(bench.servers).list_topics(bench.topic, timeout=30).topics[bench.topic]
    return len(found.partitions)


def test_a_new_topic_is_created_as_its_group_says(bench: Bench) -> None:
    bench.put(
        "RecordLane",
        **DEFAULT,
        topic_creation_groups="others,described",
        topic_creation_others_include="other.*",
        topic_creation_described_include="described-.*",
        topic_creation_described_partitions="3",
        topic_creation_described_compression_type="zstd",
    )
    bench.arrived("a:2")
    assert partitions_of(bench) == 3
    assert topic_config(bench.servers, bench.topic, "compression.type") == "zstd"


def test_what_no_group_matches_is_created_as_the_default_says(bench: Bench) -> None:
    bench.put("RecordLane", **DEFAULT, topic_creation_default_max_message_bytes="12345")
    bench.arrived("a:2")
    assert partitions_of(bench) == 2
    assert topic_config(bench.servers, bench.topic, "max.message.bytes") == "12345"


def test_a_topic_is_created_for_the_first_record_that_a_filter_lets_through(bench: Bench) -> None:
    """With the replication factor of the brokers."""
    config = {
        "topic_creation_default_partitions": "3",
        "topic_creation_default_replication_factor": "-1",
        "transforms": "keep",
        "transforms_keep_type": "Filter",
        "transforms_keep_predicate": "marked",
        "transforms_keep_negate": "true",
        "predicates": "marked",
        "predicates_marked_type": "HasHeaderKey",
    }
    bench.put("RecordLane", **config, predicates_marked_name="absent")
    bench.told("dropped 2")
    assert not has_topic(bench.servers, bench.topic)
    bench.put("RecordLane", "kept", **config, predicates_marked_name="lane")
    bench.arrived("a:0", "a:1", "a:2")
    assert partitions_of(bench) == 3


def test_a_topic_that_exists_stays_as_it_is(bench: Bench) -> None:
    bench.topic = create_topic(bench.servers, "described", partitions=1)
    bench.put("RecordLane", **DEFAULT)
    bench.arrived("a:2")
    assert partitions_of(bench) == 1


def test_a_task_fails_when_its_topic_cannot_be_created(bench: Bench) -> None:
    bench.put("RecordLane", **{**DEFAULT, "topic_creation_default_replication_factor": "2"})
    bench.becomes(State.RUNNING, State.FAILED)
    trace = bench.herder.status("lanes").tasks[0].status.trace
    assert trace is not None
    assert f"Unable to create topic(s) '{bench.topic}'" in trace
    assert not has_topic(bench.servers, bench.topic)


def test_a_connector_fails_when_it_describes_topics_wrongly(bench: Bench) -> None:
    bench.put("RecordLane", topic_creation_default_partitions="1")
    bench.becomes(State.FAILED)
    trace = bench.herder.status("lanes").status.trace
    assert trace is not None
    assert 'configuration "topic.creation.default.replication.factor" which has no' in trace


def test_a_worker_may_leave_new_topics_to_the_brokers(bench: Bench) -> None:
    assert bench.close()
    bench.more["topic.creation.enable"] = "false"
    bench.open()
    bench.put("RecordLane", topic_creation_default_partitions="3")
    bench.arrived("a:2")
    assert partitions_of(bench) == 1
