"""The offsets of sinks over REST (KIP-875), on a real consumer group."""

from __future__ import annotations

from collections.abc import Iterator

import confluent_kafka
import pytest

from connect.errors import ConnectError
from connect.plugin import OffsetValue
from connect.runtime.errors import BadRequest, NotFound
from connect.runtime.rest_entities import OffsetEntry
from connect.runtime.states import State
from deploy.brokers import KafkaCluster
from tests.support.records.topics import unique
from tests.support.waiting import wait_until
from tests.support.workers.bench import TIMEOUT_S, Bench
from tests.support.workers.plugins import Events
from tests.support.workers.telling_sink import TellingSinkConnector

RECORDS = (b"zero", b"one", b"two")


@pytest.fixture
def bench(target_cluster: KafkaCluster) -> Iterator[Bench]:
    bench = Bench(target_cluster)
    bench.plugins.register(TellingSinkConnector)
    yield bench
    bench.close()


@pytest.fixture(params=["connect-<name>", "its own"])
def sink(bench: Bench, request: pytest.FixtureRequest) -> str:
    """A sink that has committed all records. With the usual group, or one that its config names."""
    name = unique("sink")
    group = {} if request.param != "its own" else {"consumer_override_group_id": unique("group")}
    bench.produce(*RECORDS)
    bench.put("TellingSink", name, topics=bench.topic, **group)
    wait_until(lambda: offsets(bench, name) == [entry(bench, 3)], TIMEOUT_S, "a commit")
    return name


def entry(bench: Bench, offset: int | None) -> OffsetEntry:
    where: dict[str, OffsetValue] = {"kafka_topic": bench.topic, "kafka_partition": 0}
    return OffsetEntry(where, None if offset is None else {"kafka_offset": offset})


def offsets(bench: Bench, name: str) -> list[OffsetEntry]:
    return bench.herder.connector_offsets(name)


def stop(bench: Bench, name: str) -> None:
    bench.herder.stop_connector(name)
    bench.becomes(State.STOPPED, name=name)


def puts_after(bench: Bench, name: str) -> list[str]:
    """What the sink is given once it runs again."""
    before = len(bench.puts())
    bench.herder.resume_connector(name)
    wait_until(lambda: offsets(bench, name) == [entry(bench, 3)], TIMEOUT_S, "a commit")
    return bench.puts()[before:]


def test_a_sink_goes_on_where_its_offsets_were_set_to(bench: Bench, sink: str) -> None:
    with pytest.raises(BadRequest, match="must be in the STOPPED state"):
        bench.herder.alter_offsets(sink, [entry(bench, 1)])
    stop(bench, sink)
    assert "altered successfully" in bench.herder.alter_offsets(sink, [entry(bench, 1)])
    assert offsets(bench, sink) == [entry(bench, 1)]
    assert puts_after(bench, sink) == ["put 1 b'one'", "put 2 b'two'"]


def test_an_offset_that_was_deleted_is_read_from_the_beginning(bench: Bench, sink: str) -> None:
    stop(bench, sink)
    bench.herder.alter_offsets(sink, [entry(bench, None)])
    assert offsets(bench, sink) == []
    assert len(puts_after(bench, sink)) == 3


def test_a_reset_deletes_all_offsets_and_may_be_repeated(bench: Bench, sink: str) -> None:
    with pytest.raises(BadRequest, match="must be in the STOPPED state"):
        bench.herder.reset_offsets(sink)
    stop(bench, sink)
    for _ in range(2):
        assert "reset successfully" in bench.herder.reset_offsets(sink)
        assert offsets(bench, sink) == []
    assert len(puts_after(bench, sink)) == 3


def test_an_offset_of_a_topic_that_does_not_exist_is_refused(bench: Bench) -> None:
    name = unique("sink")
    bench.put("TellingSink", name, topics=bench.topic)
    stop(bench, name)
    nowhere: dict[str, OffsetValue] = {"kafka_topic": unique("none"), "kafka_partition": 0}
    with pytest.raises(ConnectError, match="UNKNOWN_TOPIC_OR_PARTITION"):
        bench.herder.alter_offsets(name, [OffsetEntry(nowhere, {"kafka_offset": 1})])
    known = entry(bench, 0).partition
    with pytest.raises(BadRequest, match="Offset values for sink connectors need to be integers"):
        bench.herder.alter_offsets(name, [OffsetEntry(known, {"kafka_offset": "x"})])
    with pytest.raises(NotFound):
        bench.herder.connector_offsets(unique("none"))


def test_while_a_task_left_behind_is_in_the_group_its_offsets_stay(bench: Bench) -> None:
    name, group = unique("sink"), unique("group")
    bench.produce(*RECORDS)
    bench.put("TellingSink", name, topics=bench.topic, consumer_override_group_id=group)
    wait_until(lambda: offsets(bench, name) == [entry(bench, 3)], TIMEOUT_S, "a commit")
    stop(bench, name)
    zombie = confluent_kafka.Consumer({"bootstrap.servers": bench.servers, "group.id": group})
    zombie.subscribe([bench.topic])
    try:
        wait_until(lambda: zombie.poll(0.1) or zombie.assignment(), TIMEOUT_S, "a member")
        for offset in (1, None):
            with pytest.raises(ConnectError, match="still has members"):
                bench.herder.alter_offsets(name, [entry(bench, offset)])
        with pytest.raises(ConnectError, match=r"safely retried.* zombie sink tasks"):
            bench.herder.reset_offsets(name)
        assert offsets(bench, name) == [entry(bench, 3)]
    finally:
        zombie.close()
    bench.herder.reset_offsets(name)
    assert offsets(bench, name) == []
    assert "put 0 b'zero'" in Events.of(bench.topic)
