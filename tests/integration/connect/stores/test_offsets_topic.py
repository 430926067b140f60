"""A connector with an offsets topic of its own (`offsets.storage.topic`), on a real broker."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from connect.runtime.rest_entities import OffsetEntry
from connect.runtime.states import State
from deploy.brokers import KafkaCluster
from tests.support.records.reading import read_partition
from tests.support.records.topics import end_offsets, topic_config, unique
from tests.support.waiting import wait_until
from tests.support.workers.bench import KINDS, TIMEOUT_S, Bench, numbers

LANE = {"lane": "a"}
KEY = b'["lanes",{"lane":"a"}]'


@pytest.fixture
def bench(target_cluster: KafkaCluster) -> Iterator[Bench]:
    bench = Bench(target_cluster)
    yield bench
    bench.close()


@pytest.fixture
def own_topic() -> str:
    return unique("own-offsets")


def stored(bench: Bench, topic: str) -> bytes | None:
    """The newest value that the topic has for the lane."""
    values = [record.value for record in read_partition(bench.servers, topic) if record.key == KEY]
    return values[-1] if values else None


def listed(bench: Bench) -> list[OffsetEntry]:
    return bench.herder.connector_offsets("lanes")


def stop(bench: Bench) -> None:
    bench.herder.stop_connector("lanes")
    bench.becomes(State.STOPPED)


def reopen(bench: Bench) -> None:
    assert bench.close()
    bench.open()


@pytest.mark.parametrize("kind", KINDS)
def test_offsets_are_in_the_connectors_topic_and_in_the_workers(
    bench: Bench, own_topic: str, kind: str
) -> None:
    bench.put(kind, count="5", offsets_storage_topic=own_topic)
    bench.arrived("a:4")
    wait_until(lambda: stored(bench, own_topic) == b'{"last":4}', TIMEOUT_S, "offset in own topic")
    wait_until(lambda: stored(bench, bench.offsets_topic) == b'{"last":4}', TIMEOUT_S, "and here")
    assert len(end_offsets(bench.servers, own_topic)) == 1
    assert topic_config(bench.servers, own_topic, "cleanup.policy") == "compact"
    assert listed(bench) == [OffsetEntry(LANE, {"last": 4})]


@pytest.mark.parametrize("kind", KINDS)
def test_a_connector_goes_on_where_it_was_when_it_gets_a_topic_of_its_own(
    bench: Bench, own_topic: str, kind: str
) -> None:
    bench.put(kind, count="5")
    bench.arrived("a:4")
    reopen(bench)
    bench.put(kind, count="8", offsets_storage_topic=own_topic)
    bench.arrived("a:7")
    assert bench.values() == [value.encode() for value in numbers("a", 0, 8)]
    reopen(bench)
    assert stored(bench, own_topic) == b'{"last":7}'
    bench.put(kind, count="9")
    bench.arrived("a:8")
    assert bench.values() == [value.encode() for value in numbers("a", 0, 9)]


def test_changing_offsets_changes_both_topics(bench: Bench, own_topic: str) -> None:
    bench.put("RecordLane", count="5", offsets_storage_topic=own_topic)
    bench.arrived("a:4")
    stop(bench)
    bench.herder.alter_offsets("lanes", [OffsetEntry(LANE, {"last": 1})])
    assert listed(bench) == [OffsetEntry(LANE, {"last": 1})]
    assert stored(bench, own_topic) == b'{"last":1}'
    wait_until(lambda: stored(bench, bench.offsets_topic) == b'{"last":1}', TIMEOUT_S, "the copy")
    bench.herder.reset_offsets("lanes")
    assert listed(bench) == []
    assert stored(bench, own_topic) is None
    assert stored(bench, bench.offsets_topic) is None


def test_a_topic_that_is_not_compacted_fails_the_task(bench: Bench) -> None:
    bench.put("RecordLane", offsets_storage_topic=bench.topic)
    bench.becomes(State.RUNNING, State.FAILED)
    trace = bench.herder.status("lanes").tasks[0].status.trace
    assert trace is not None
    assert f"Topic '{bench.topic}' has cleanup.policy=delete" in trace
