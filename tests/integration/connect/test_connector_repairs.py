"""Connectors that cannot work as they are configured, and go on once their config is mended; and
settings of workers that switch something off. On a real broker."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from connect.runtime.errors import Forbidden
from connect.runtime.states import State
from deploy.brokers import KafkaCluster
from tests.support.records.topics import create_topic, unique
from tests.support.waiting import wait_until
from tests.support.workers.bench import BYTES, TIMEOUT_S, Bench
from tests.support.workers.plugins import Events
from tests.support.workers.telling_sink import TellingSinkConnector

JSON = "org.apache.kafka.connect.json.JsonConverter"
SMT = "org.apache.kafka.connect.transforms."
# The shortest session that brokers allow, and a silence that is longer.
SESSION_MS, SILENT_MS = 6_000, 9_000


@pytest.fixture
def bench(target_cluster: KafkaCluster) -> Iterator[Bench]:
    bench = Bench(target_cluster)
    bench.plugins.register(TellingSinkConnector)
    yield bench
    bench.close()


def put_sink(bench: Bench, **config: str) -> str:
    """Of a group of its own."""
    bench.put("TellingSink", bench.topic, topics=bench.topic, **config)
    return bench.topic


def test_a_sink_whose_converter_does_not_fit_runs_with_one_that_does(bench: Bench) -> None:
    bench.produce(b"no json")
    name = put_sink(bench, value_converter=JSON)
    bench.becomes(State.RUNNING, State.FAILED, name=name)
    assert "JsonConverter" in str(bench.herder.status(name).tasks[0].status.trace)
    put_sink(bench, value_converter=BYTES)
    bench.becomes(State.RUNNING, State.RUNNING, name=name)
    bench.told("put 0 b'no json'")


def test_a_sink_runs_once_a_bad_record_may_be_skipped(bench: Bench) -> None:
    """The record that failed the task is read again, and left out."""
    bench.produce(b"no json", b'"json"')
    json = {"value_converter": JSON, "value_converter_schemas_enable": "false"}
    name = put_sink(bench, **json)
    bench.becomes(State.RUNNING, State.FAILED, name=name)
    put_sink(bench, **json, errors_tolerance="all")
    bench.told("put 1 'json'")
    assert bench.puts() == ["put 1 'json'"]
    bench.becomes(State.RUNNING, State.RUNNING, name=name)


def test_a_source_whose_transformation_fails_goes_on_where_it_stopped(bench: Bench) -> None:
    bench.put(
        "RecordLane",
        transforms="take",
        transforms_take_type=f"{SMT}ExtractField$Value",
        transforms_take_field="id",
    )
    bench.becomes(State.RUNNING, State.FAILED)
    bench.put("RecordLane")
    bench.arrived("a:0", "a:1", "a:2")
    assert len(bench.values()) == 3


def test_a_connector_whose_start_failed_runs_with_another_config(bench: Bench) -> None:
    bench.put("RecordLane", start="fails")
    bench.becomes(State.FAILED)
    bench.put("RecordLane")
    bench.becomes(State.RUNNING, State.RUNNING)
    bench.arrived("a:2")


def test_a_connector_that_fails_at_its_start_or_its_stop_is_stopped_all_the_same(
    bench: Bench,
) -> None:
    bench.put("RecordLane", start="fails")
    bench.becomes(State.FAILED)
    bench.herder.stop_connector("lanes")
    bench.becomes(State.STOPPED)
    bench.put("RecordLane", end="fails")
    for _ in range(2):
        bench.herder.resume_connector("lanes")
        bench.becomes(State.RUNNING, State.RUNNING)
        bench.herder.stop_connector("lanes")
        bench.becomes(State.STOPPED)
        assert bench.herder.task_infos("lanes") == []
    bench.herder.delete_connector("lanes")
    assert bench.herder.connectors() == []


def test_tasks_come_and_go_with_the_config_and_so_do_their_statuses(bench: Bench) -> None:
    for groups in ("a", "a;b;c", "a;b"):
        bench.put("RecordLane", groups=groups)
        count = len(groups.split(";"))
        bench.becomes(*[State.RUNNING] * (1 + count))
        assert len(bench.herder.task_infos("lanes")) == count


def test_a_source_that_can_write_nothing_is_deleted_in_time_and_is_told_to_stop(
    bench: Bench,
) -> None:
    """Its topic wants more replicas in sync than there are, so that the producer tries for ever."""
    good = bench.topic
    bench.topic = create_topic(bench.servers, "shut", configs={"min.insync.replicas": "2"})
    bench.put("RecordLane")
    bench.told("start a at [0]")
    bench.becomes(State.RUNNING, State.RUNNING)
    bench.herder.delete_connector("lanes")
    assert bench.herder.connectors() == []
    wait_until(lambda: "stop a" in Events.of(bench.topic), TIMEOUT_S, "stop of the task")
    bench.topic = good
    bench.put("RecordLane", "others")
    bench.arrived("a:2")


@pytest.mark.slow
def test_a_sink_that_is_silent_for_too_long_joins_its_group_again(bench: Bench) -> None:
    """The group gives its partitions away meanwhile; what it had not committed comes again."""
    bench.produce(b"one")
    name = put_sink(
        bench,
        mode="slow",
        silent_ms=str(SILENT_MS),
        consumer_override_max_poll_interval_ms=str(SESSION_MS),
        consumer_override_session_timeout_ms=str(SESSION_MS),
    )
    bench.told("put 0 b'one'")
    wait_until(lambda: bench.puts().count("put 0 b'one'") == 2, 60.0, "the record once more")
    bench.told("commit [1]")
    bench.becomes(State.RUNNING, State.RUNNING, name=name)


@pytest.mark.parametrize(
    ("key", "readable"), [("topic.tracking.enable", False), ("topic.tracking.allow.reset", True)]
)
def test_active_topics_may_be_switched_off(
    target_cluster: KafkaCluster, key: str, readable: bool
) -> None:
    bench = Bench(target_cluster, {key: "false"})
    try:
        bench.put("RecordLane")
        bench.arrived("a:2")
        if readable:
            wait_until(
                lambda: bench.herder.active_topics("lanes") == [bench.topic],
                TIMEOUT_S,
                "the active topic",
            )
        else:
            with pytest.raises(Forbidden, match="Topic tracking is disabled"):
                bench.herder.active_topics("lanes")
        with pytest.raises(Forbidden, match="is disabled"):
            bench.herder.reset_active_topics("lanes")
    finally:
        bench.close()


def test_a_paused_sink_stays_in_its_group_and_is_given_nothing(bench: Bench) -> None:
    name = put_sink(bench)
    bench.produce(b"one")
    bench.told("put 0 b'one'")
    bench.herder.pause_connector(name)
    bench.becomes(State.PAUSED, State.PAUSED, name=name)
    bench.produce(b"two")
    other = unique("other")
    bench.put("TellingSink", other, topics=bench.topic)  # It proves that "two" can be read.
    wait_until(lambda: bench.puts().count("put 1 b'two'") == 1, TIMEOUT_S, "two at the other")
    assert "close [0]" not in Events.of(bench.topic)
    bench.herder.resume_connector(name)
    wait_until(lambda: bench.puts().count("put 1 b'two'") == 2, TIMEOUT_S, "two at both")
