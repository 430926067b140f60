"""Connectors whose clients are overridden to work on another cluster than the worker's: records and
offsets are there, and offsets are changed there. On two real clusters."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from connect.plugin import OffsetValue
from connect.runtime.rest_entities import OffsetEntry
from connect.runtime.states import State
from deploy.brokers import KafkaCluster
from tests.support.records.groups import committed
from tests.support.records.producing import numbered, produce
from tests.support.records.reading import read_partition
from tests.support.records.topics import create_topic, has_topic, unique
from tests.support.waiting import wait_until
from tests.support.workers.bench import TIMEOUT_S, Bench, numbers
from tests.support.workers.telling_sink import TellingSinkConnector

LANE: dict[str, OffsetValue] = {"lane": "a"}


@pytest.fixture
def bench(target_cluster: KafkaCluster) -> Iterator[Bench]:
    bench = Bench(target_cluster)
    bench.plugins.register(TellingSinkConnector)
    yield bench
    bench.close()


def overrides(other: KafkaCluster) -> dict[str, str]:
    """In the form that `Bench.put` takes."""
    return {
        f"{kind}_override_bootstrap_servers": other.bootstrap_servers
        for kind in ("producer", "consumer", "admin")
    }


def listed(bench: Bench, name: str, *expected: OffsetEntry) -> None:
    wait_until(
        lambda: bench.herder.connector_offsets(name) == list(expected), TIMEOUT_S, str(expected)
    )


def stop(bench: Bench, name: str) -> None:
    bench.herder.stop_connector(name)
    bench.becomes(State.STOPPED, name=name)


def test_a_sink_reads_on_another_cluster_and_its_group_is_there(
    bench: Bench, source_cluster: KafkaCluster
) -> None:
    other, name = source_cluster.bootstrap_servers, unique("sink")
    topic = create_topic(other, "elsewhere")
    produce(other, topic, numbered(3))
    bench.put("TellingSink", name, topics=topic, **overrides(source_cluster))
    where: dict[str, OffsetValue] = {"kafka_topic": topic, "kafka_partition": 0}
    listed(bench, name, OffsetEntry(where, {"kafka_offset": 3}))
    stop(bench, name)
    bench.herder.alter_offsets(name, [OffsetEntry(where, {"kafka_offset": 2})])
    assert committed(other, f"connect-{name}") == {(topic, 0): 2}
    assert committed(bench.servers, f"connect-{name}") == {}
    bench.herder.resume_connector(name)
    listed(bench, name, OffsetEntry(where, {"kafka_offset": 3}))
    assert bench.puts().count("put 2 b'v2'") == 2
    stop(bench, name)
    bench.herder.reset_offsets(name)
    assert committed(other, f"connect-{name}") == {}


def test_a_source_writes_records_and_offsets_to_another_cluster(
    bench: Bench, source_cluster: KafkaCluster
) -> None:
    other, offsets = source_cluster.bootstrap_servers, unique("own-offsets")
    create_topic(other, name=bench.topic)

    def values() -> list[bytes | None]:
        return [record.value for record in read_partition(other, bench.topic)]

    bench.put("RecordLane", offsets_storage_topic=offsets, **overrides(source_cluster))
    listed(bench, "lanes", OffsetEntry(LANE, {"last": 2}))
    assert has_topic(other, offsets)
    assert not has_topic(bench.servers, offsets)
    stop(bench, "lanes")
    bench.herder.alter_offsets("lanes", [OffsetEntry(LANE, {"last": 1})])
    bench.herder.resume_connector("lanes")
    again = [value.encode() for value in [*numbers("a", 0, 3), *numbers("a", 2, 3)]]
    wait_until(lambda: values() == again, TIMEOUT_S, "the last record once more")
    listed(bench, "lanes", OffsetEntry(LANE, {"last": 2}))
    stop(bench, "lanes")
    bench.herder.reset_offsets("lanes")
    assert bench.herder.connector_offsets("lanes") == []
    assert bench.values() == []
