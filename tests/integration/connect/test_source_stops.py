"""The end of source tasks whose records could not be delivered, in Java's order: the last commit,
then the plugin's `stop`, once, and nothing after it. On a real broker."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from connect.clock import Deadline
from connect.runtime.states import State
from connectors.mirror.plugins import register
from deploy.brokers import KafkaCluster, KafkaRuntime
from tests.support.records.topics import create_topic, end_offsets, has_topic, unique
from tests.support.waiting import wait_until
from tests.support.workers.bench import TIMEOUT_S, Bench
from tests.support.workers.plugins import Events

# The bench's topic has partition 0 only.
NOWHERE = {"to_partition": "7"}
HEARTBEATS = {
    "source_cluster_alias": "a",
    "target_cluster_alias": "b",
    "emit_heartbeats_interval_seconds": "1",
    "heartbeats_topic_replication_factor": "1",
}
# Longer than the 30 s after which librdkafka gives a topic up by default.
PATIENCE_S = 45.0


@pytest.fixture
def bench(target_cluster: KafkaCluster) -> Iterator[Bench]:
    bench = Bench(target_cluster)
    yield bench
    bench.close()


@pytest.fixture(scope="module")
def strict_cluster(kafka: KafkaRuntime, session_logs: Path) -> Iterator[KafkaCluster]:
    """Brokers that create no topic by themselves."""
    properties = {"auto.create.topics.enable": "false"}
    with KafkaCluster(name="strict", properties=properties, kafka=kafka, logs=session_logs) as own:
        yield own


@pytest.fixture
def strict(strict_cluster: KafkaCluster) -> Iterator[Bench]:
    bench = Bench(strict_cluster)
    yield bench
    bench.close()


def servers_of(cluster: KafkaCluster) -> dict[str, str]:
    """Both sides of a flow on one cluster."""
    servers = cluster.bootstrap_servers
    return {f"{side}_cluster_bootstrap_servers": servers for side in ("source", "target")}


def ended(bench: Bench) -> list[str]:
    """All that the plugin was told, once it was told to stop and its connector is gone."""
    bench.herder.delete_connector("lanes")
    wait_until(lambda: "stop a" in Events.of(bench.topic), TIMEOUT_S, "stop of the task")
    assert bench.close()
    return [event for event in Events.of(bench.topic) if event != "connector stopped"]


def test_a_task_that_failed_by_its_records_commits_and_then_stops(bench: Bench) -> None:
    bench.put("RecordLane", **NOWHERE)
    bench.becomes(State.RUNNING, State.FAILED)
    bench.told("stop a")
    told = ended(bench)
    assert told[0] == "start a at [0]"
    assert told[-2:] == ["commit a", "stop a"]
    assert told.count("stop a") == 1


def test_a_task_hears_of_all_skipped_records_before_it_stops(bench: Bench) -> None:
    bench.put("RecordLane", errors_tolerance="all", **NOWHERE)
    bench.told("dropped 2")
    told = ended(bench)
    assert [event for event in told if event.startswith("dropped")] == [
        "dropped 0",
        "dropped 1",
        "dropped 2",
    ]
    assert told[-2:] == ["commit a", "stop a"]
    assert told.count("stop a") == 1


def test_a_task_that_was_never_initialized_is_not_stopped(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    """Its producer cannot be made, so that its plugin has nothing that it could close."""
    bench.put("RecordLane", producer_override_bootstrap_servers="localhost")
    bench.becomes(State.RUNNING, State.FAILED)
    bench.herder.delete_connector("lanes")
    assert bench.close()
    assert Events.of(bench.topic) == ["connector stopped"]
    assert "Closing task" not in caplog.text


def test_a_task_waits_for_a_topic_that_nobody_creates(strict: Bench) -> None:
    strict.topic = unique("later")
    strict.put("RecordLane")
    strict.told("start a at [0]")
    create_topic(strict.servers, name=strict.topic)
    strict.arrived("a:0", "a:1", "a:2")
    assert ended(strict)[-2:] == ["commit a", "stop a"]


def test_a_topic_that_nobody_creates_is_created_once_the_worker_may(strict: Bench) -> None:
    strict.topic = unique("switched")

    def run(creates_topics: str) -> None:
        strict.close()
        strict.more["topic.creation.enable"] = creates_topics
        strict.open()
        strict.put(
            "RecordLane",
            topic_creation_default_partitions="3",
            topic_creation_default_replication_factor="1",
        )

    run("false")
    strict.told("start a at [0]")
    ended(strict)
    assert not has_topic(strict.servers, strict.topic)
    run("true")
    strict.arrived("a:0", "a:1", "a:2")
    assert len(end_offsets(strict.servers, strict.topic)) == 3


def test_a_task_whose_cluster_died_ends_in_time(
    kafka: KafkaRuntime, session_logs: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Its records are not acknowledged and its offsets not stored until the time is up. That is
    one warning; only a task that hangs is abandoned, with its stack."""
    with KafkaCluster(name="dying", kafka=kafka, logs=session_logs) as own:
        bench = Bench(own)
        register(bench.plugins)
        bench.put("MirrorHeartbeatConnector", "beats", **HEARTBEATS, **servers_of(own))
        bench.becomes(State.RUNNING, State.RUNNING, name="beats")
        wait_until(lambda: has_topic(own.bootstrap_servers, "heartbeats"), TIMEOUT_S, "a heartbeat")
        for node in own.nodes:
            node.kill()
        unanswered = "Kafka has not acknowledged any of the sent records"

        def trouble() -> bool:
            return unanswered in str(bench.herder.status("beats").tasks[0].status.trace)

        wait_until(trouble, 2 * TIMEOUT_S, "records that are not acknowledged")
        bench.close()
    assert "abandoned" not in caplog.text
    assert "final offsets" in caplog.text


@pytest.mark.slow
def test_a_task_waits_long_for_a_topic_that_nobody_creates(strict: Bench) -> None:
    """As in Java it doesn't fail; its status says what it waits for, and it can be deleted."""
    strict.topic = unique("never")
    strict.put("RecordLane")
    strict.told("start a at [0]")
    patience = Deadline(PATIENCE_S)

    def gave_up() -> bool:
        return patience.expired() or State.FAILED in strict.states()

    wait_until(gave_up, 2 * PATIENCE_S, "the end of the task's patience")
    assert strict.states() == [State.RUNNING, State.RUNNING]
    trace = str(strict.herder.status("lanes").tasks[0].status.trace)
    assert "Kafka has not acknowledged any of the sent records" in trace
    assert ended(strict)[-2:] == ["commit a", "stop a"]
