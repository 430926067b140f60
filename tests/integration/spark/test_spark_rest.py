"""A connector on the Spark engine, steered through REST as any other: its status says what is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaException

from deploy.brokers import KafkaCluster
from tests.support.records.groups import commit
from tests.support.records.losing import delete_topic, history_losses
from tests.support.records.producing import Record, numbered, produce
from tests.support.records.reading import ReadRecord, contents, read_partition
from tests.support.records.topics import alter_topic, create_topic, end_offset, has_topic, unique
from tests.support.rest import Answer
from tests.support.served import metric
from tests.support.waiting import wait_until
from tests.support.workers.distributed import Group, worker_group
from tests.support.workers.java_connect import worker_properties

# A session of Spark for each.
pytestmark = pytest.mark.timeout(600)

WAIT_S = 240.0
NOTICE_S = 60.0
"""A deleted topic is made again, and then noticed, within a minute."""
NAME = "on-spark"
WITHOUT, ONCE = "disabled", "enabled"
STARTS = "kafka_connect_spark_session_start_count"


class Steered:
    """The connector, its records and their copies."""

    def __init__(
        self, group: Group, source: KafkaCluster, target: KafkaCluster, *, once: bool
    ) -> None:
        self.group, self.once = group, once
        self.source, self.target = source.bootstrap_servers, target.bootstrap_servers
        self.prefix = unique("rest")
        self._written: dict[str, int] = {}

    def config(self, **changed: str) -> dict[str, str]:
        return {
            "connector.class": "org.apache.kafka.connect.mirror.MirrorSourceConnector",
            "source.cluster.alias": "A",
            "target.cluster.alias": "B",
            "source.cluster.bootstrap.servers": self.source,
            "target.cluster.bootstrap.servers": self.target,
            "source.consumer.isolation.level": "read_committed",
            "topics": f"{self.prefix}.*",
            "replication.factor": "1",
            "offset-syncs.topic.replication.factor": "1",
            "heartbeats.replication.enabled": "false",
            "refresh.topics.interval.seconds": "1",
            "sync.topic.configs.enabled": "false",
            "sync.topic.acls.enabled": "false",
            "mirror.engine": "spark",
            "mirror.spark.batch.ms": "500",
            **{key.replace("_", "."): value for key, value in changed.items()},
        }

    # Records.

    def topic(self, name: str) -> str:
        return create_topic(self.source, name=f"{self.prefix}.{name}")

    def write(self, topic: str, count: int) -> None:
        start = self._written.setdefault(topic, 0)
        produce(self.source, topic, numbered(count, start=start))
        self._written[topic] += count

    def write_large(self, topic: str) -> None:
        produce(self.source, topic, [Record(b"x" * 50_000)])
        self._written[topic] += 1

    def arrived(self, *topics: str) -> None:
        for topic in topics or self._written:
            count = self._written[topic]
            wait_until(partial(self._has, topic, count), WAIT_S, f"{count} records of {topic}")

    def _has(self, topic: str, count: int) -> bool:
        try:
            return len(self.copies(topic)) >= count
        except KafkaException:
            return False  # a partition that was just created has no leader yet

    def copies(self, topic: str) -> list[ReadRecord]:
        if not has_topic(self.target, f"A.{topic}"):
            return []
        return read_partition(self.target, f"A.{topic}", 0, isolation="read_committed")

    def each_once(self) -> None:
        for topic in self._written:
            before = read_partition(self.source, topic, 0)
            assert contents(self.copies(topic)) == contents(before), topic

    # REST.

    def ask(self, method: str, path: str, body: object = None) -> Answer:
        return self.group.accepted(method, f"/connectors/{NAME}/{path}", body)

    def shows(self, connector: str, *tasks: str) -> None:
        def shown() -> bool:
            status: Mapping[str, Any] | None = self.group.status(NAME)
            if status is None:
                return False
            found = [task["state"] for task in status["tasks"]]
            return (status["connector"]["state"], found) == (connector, list(tasks))

        wait_until(shown, WAIT_S, f"{connector} {tasks}")

    def trouble(self) -> str:
        """What the task's status says of partitions that do not move."""
        status: Mapping[str, Any] = self.group.status(NAME)
        return str(status["tasks"][0].get("trace") or "")

    def lag(self, topic: str) -> float | None:
        name = "kafka_connect_mirror_mirrorsourceconnector_record_lag"
        found = metric(self.group.first.url, name, topic=f"A.{topic}")
        return found[0][1] if found else None

    def lags(self, topic: str, records: int) -> None:
        wait_until(lambda: self.lag(topic) == records, WAIT_S, f"a lag of {records} of {topic}")

    def losses(self, topic: str) -> float | None:
        name = "kafka_connect_mirror_mirrorsourceconnector_loss_count"
        found = metric(self.group.first.url, name, topic=f"A.{topic}")
        return found[0][1] if found else None

    def flow_lag(self, topic: str) -> dict[str, Any]:
        """Of the topic's partition, as `/mirrors/{flow}/lag` answers."""
        found = self.group.call("GET", "/mirrors/A-%3EB/lag").json()
        assert found["incomplete"] == []
        (shown,) = [each for each in found["partitions"] if each["topic"] == topic]
        return dict(shown)

    def transaction_records(self) -> float:
        """Of the largest transaction lately."""
        name = "kafka_connect_source_task_transaction_size_max"
        ((_, value),) = metric(self.group.first.url, name, connector=NAME)
        return value

    def starts(self) -> float:
        """How often a session of Spark was started."""
        return max((value for _, value in metric(self.group.first.url, STARTS)), default=0)

    def offsets(self) -> dict[str, int]:
        found = self.ask("GET", "offsets").json()["offsets"]
        return {each["partition"]["topic"]: each["offset"]["offset"] for each in found}


def history_url(folder: Path) -> str:
    return f"sqlite:///{folder / 'history.db'}"


@pytest.fixture(params=[WITHOUT, ONCE])
def steered(
    source_cluster: KafkaCluster,
    target_cluster: KafkaCluster,
    logs: Path,
    tmp_path: Path,
    request: pytest.FixtureRequest,
) -> Iterator[Steered]:
    properties = {
        **worker_properties(target_cluster.bootstrap_servers, unique("spark")),
        "spark.master": "local[2]",
        "mirror.history.allowed.urls": history_url(tmp_path),
        "exactly.once.source.support": request.param,
        "task.shutdown.graceful.timeout.ms": "20000",
        "session.timeout.ms": "6000",
        "heartbeat.interval.ms": "500",
    }
    with worker_group(1, properties, tmp_path, logs) as group:
        yield Steered(group, source_cluster, target_cluster, once=request.param == ONCE)


@pytest.mark.parametrize("steered", [WITHOUT], indirect=True)
def test_it_runs_pauses_resumes_copies_a_deleted_target_anew_and_stops(
    steered: Steered, tmp_path: Path
) -> None:
    topic = steered.topic("t")
    steered.write(topic, 100)
    history = history_url(tmp_path)
    policy = {"mirror_history_url": history, "mirror_loss_policy_target_recreated": "copy"}
    steered.group.create(NAME, steered.config(**policy))
    steered.shows("RUNNING", "RUNNING")
    steered.arrived()
    steered.lags(topic, 0)

    steered.ask("PUT", "pause")
    steered.shows("PAUSED", "PAUSED")
    end = end_offset(steered.target, f"A.{topic}")
    steered.write(topic, 50)
    steered.lags(topic, 50)
    shown = steered.flow_lag(topic)
    assert (shown["records"], shown["time_to_loss_seconds"], shown["error"]) == (50, None, None)
    assert shown["seconds"] >= 0
    assert shown["bytes"] > 50
    assert end_offset(steered.target, f"A.{topic}") == end

    steered.ask("PUT", "resume")
    steered.shows("RUNNING", "RUNNING")
    steered.arrived()
    # Nothing is written: only the new topic's ID tells. The connector makes it again.
    assert steered.losses(topic) == 0
    delete_topic(steered.target, f"A.{topic}")
    wait_until(lambda: steered.losses(topic) == 1, NOTICE_S, "it is noticed")
    steered.arrived()

    steered.ask("PUT", "stop")
    steered.shows("STOPPED")
    # That of the last record.
    assert steered.offsets() == {topic: 149}
    steered.each_once()
    assert history_losses(history) == {(topic, "target.recreated", "copy", 0, 149, 0)}


@pytest.mark.slow
def test_paused_restarted_stopped_and_on_another_engine_it_copies_each_record_once(
    steered: Steered,
) -> None:
    first = steered.topic("first")
    steered.write(first, 100)
    steered.group.create(NAME, steered.config())
    steered.shows("RUNNING", "RUNNING")
    steered.arrived()

    steered.ask("PUT", "pause")
    steered.shows("PAUSED", "PAUSED")
    steered.write(first, 50)
    # A paused connector looks for no new topics.
    second = steered.topic("second")
    steered.write(second, 30)
    steered.ask("PUT", "resume")
    steered.arrived()

    steered.ask("POST", "tasks/0/restart")
    steered.write(first, 20)
    steered.arrived()
    steered.shows("RUNNING", "RUNNING")

    steered.ask("PUT", "stop")
    steered.shows("STOPPED")
    # Those of the last record.
    assert steered.offsets() == {first: 169, second: 29}
    steered.write(second, 20)
    steered.ask("PUT", "resume")
    steered.arrived()

    for engine in ("worker", "spark"):
        steered.ask("PUT", "config", steered.config(mirror_engine=engine))
        steered.write(first, 10)
        steered.arrived()
        steered.shows("RUNNING", "RUNNING")
    if steered.once:
        assert 1 <= steered.transaction_records() <= 100
    steered.ask("PUT", "stop")
    steered.shows("STOPPED")
    assert steered.offsets() == {first: 189, second: 49}
    steered.each_once()


@pytest.mark.slow
@pytest.mark.parametrize("steered", [WITHOUT], indirect=True)
def test_a_translation_that_needs_more_of_spark_does_not_end_its_shards(
    steered: Steered, logs: Path
) -> None:
    """The session is restarted with Spark's Kafka source between two shards, not during one."""
    topic = steered.topic("t")
    steered.write(topic, 200)
    steered.group.create(NAME, steered.config())
    steered.arrived()
    group = unique("group")
    commit(steered.source, group, {(topic, 0): 150})
    checkpoints = steered.config(groups=group, emit_checkpoints_interval_seconds="1") | {
        "connector.class": "org.apache.kafka.connect.mirror.MirrorCheckpointConnector",
        "mirror.translation.engine": "spark",
        "checkpoints.topic.replication.factor": "1",
    }

    steered.group.create("checkpoints", checkpoints)
    written = 200
    while steered.starts() != 2:
        written += 50
        assert written < 20_000, "no second session"
        steered.write(topic, 50)
        steered.arrived()
    wait_until(lambda: end_offset(steered.target, "A.checkpoints.internal"), WAIT_S, "a checkpoint")
    steered.write(topic, 50)
    steered.arrived()

    steered.each_once()
    (log,) = logs.glob("worker-*.log")
    assert "restarting Spark" in log.read_text()
    assert "a shard failed" not in log.read_text()


@pytest.mark.slow
def test_its_status_names_the_partition_that_does_not_move(steered: Steered) -> None:
    stuck, well = steered.topic("stuck"), steered.topic("well")
    steered.write(stuck, 10)
    steered.write(well, 10)
    steered.group.create(NAME, steered.config())
    steered.arrived()
    wait_until(lambda: not steered.trouble(), WAIT_S, "a status without trouble")

    alter_topic(steered.target, f"A.{stuck}", {"max.message.bytes": "20000"})
    steered.write_large(stuck)
    steered.write(well, 10)
    wait_until(lambda: f"{stuck}-0: " in steered.trouble(), WAIT_S, "the partition's name")
    assert "max.message.bytes" in steered.trouble()
    assert f"{well}-0: " not in steered.trouble()
    steered.shows("RUNNING", "RUNNING")
    steered.arrived(well)

    alter_topic(steered.target, f"A.{stuck}", {"max.message.bytes": "1000000"})
    steered.arrived()
    wait_until(lambda: not steered.trouble(), WAIT_S, "a clean status")
    steered.each_once()
