"""A worker's /metrics beside the MBeans of a Java worker (tests/golden/connect_metrics)."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

from connect.metrics.exposition import render
from connect.metrics.naming import Family
from deploy.brokers import KafkaCluster
from tests.support.records.topics import create_topic, end_offset, unique
from tests.support.rest import call
from tests.support.served import metric, page
from tests.support.waiting import wait_until
from tests.support.workers.distributed import file_source, worker_group
from tests.support.workers.java_connect import worker_properties
from tests.support.workers.java_metrics import java_samples
from tests.support.workers.workers import standalone_worker

_WAIT_S = 30.0
_STRING = "org.apache.kafka.connect.storage.StringConverter"
RECORDS = 50
# Of a member of a group: a standalone worker is in none.
OF_GROUPS = {"connect-worker-rebalance-metrics", "connect-coordinator-metrics"}
LEFT_OUT = {
    # Java's network client and the size of Java's own registry.
    "connect-metrics", "connect-node-metrics", "kafka-metrics-count",
    # Java tells which build it is, and the same under two more names.
    "app-info",
    # Its clients' own.
    "consumer-fetch-manager-metrics",
}  # fmt: skip
# The process's, the interpreter's and health are not Java's; only a part of the clients' are ours.
NOT_COMPARED = (
    "metrics_registry", "app_info", "process_", "python_", "kafka_producer_", "kafka_consumer_",
    "kafka_connector_producer_", "kafka_connect_connector_healthy",
)  # fmt: skip

Named = set[tuple[str, frozenset[str]]]


def names(text: str) -> Named:
    """Names of all series, with the names of their labels."""
    return {
        (sample.name, frozenset(sample.labels))
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if not any(part in sample.name for part in NOT_COMPARED)
    }


def java_names(families: Iterable[Family], left_out: set[str]) -> Named:
    samples = [sample for sample in java_samples() if sample.group not in left_out]
    return names("".join(render(samples, tuple(families))))


def source(lines: Path, topic: str) -> dict[str, str]:
    return {
        "connector.class": "FileStreamSource",
        "file": str(lines),
        "topic": topic,
        "transforms": "t",
        "transforms.t.type": "org.apache.kafka.connect.transforms.InsertHeader",
        "transforms.t.header": "h",
        "transforms.t.value.literal": "v",
        "transforms.t.predicate": "p",
        "predicates": "p",
        "predicates.p.type": "org.apache.kafka.connect.transforms.predicates.RecordIsTombstone",
    }


def one(url: str, name: str, **labels: str) -> float | None:
    """The value of the only such series; None where there is none."""
    found = metric(url, name, **labels)
    assert len(found) < 2, found
    return found[0][1] if found else None


def test_names_are_java_s_in_every_family_and_values_follow_the_records(
    target_cluster: KafkaCluster, logs: Path, tmp_path: Path
) -> None:
    lines = tmp_path / "in.txt"
    lines.write_text("".join(f"line {number}\n" for number in range(RECORDS)))
    servers = target_cluster.bootstrap_servers
    topic = create_topic(servers, "metrics")
    props = {
        "bootstrap.servers": servers,
        "key.converter": _STRING,
        "value.converter": _STRING,
        "offset.storage.file.filename": str(tmp_path / "offsets.db"),
        "file.connectors.root": str(tmp_path),
        "offset.flush.interval.ms": "200",
        "consumer.auto.offset.reset": "earliest",
    }
    sink = {
        "connector.class": "FileStreamSink",
        "topics": topic,
        "file": str(tmp_path / "out.txt"),
    }
    short = "kafka_connect"
    numbers = {"connector": "numbers", "task": "0"}
    nothing = {"connector": "nothing", "task": "0"}

    with standalone_worker(props, tmp_path, logs / "worker.log") as url:
        created = call(url, "PUT", "/connectors/numbers/config", source(lines, topic))
        assert created.status == 201
        # The sink gets all in one batch.
        wait_until(lambda: end_offset(servers, topic) == RECORDS, _WAIT_S, "all records")
        assert call(url, "PUT", "/connectors/nothing/config", sink).status == 201

        def settled() -> bool:
            return (
                one(url, f"{short}_sink_task_sink_record_send_total", **nothing) == RECORDS
                and one(url, f"{short}_sink_task_sink_record_active_count", **nothing) == 0
                and one(url, f"{short}_source_task_source_record_active_count", **numbers) == 0
                and one(url, f"{short}_connector_task_offset_commit_success_percentage", **numbers)
                == 1
            )

        wait_until(settled, _WAIT_S, "all records to be taken and committed")
        for family in Family:
            found = names(page(url, f"/metrics?family={family.value}"))
            assert found == java_names([family], LEFT_OUT | OF_GROUPS)
        every = page(url, "/metrics?family=A,B,C")
        assert names(every) == java_names(Family, LEFT_OUT | OF_GROUPS)

        worker = f"{short}_worker"
        assert one(url, f"{worker}_connector_count") == one(url, f"{worker}_task_count") == 2
        assert one(url, f"{worker}_task_startup_success_total") == 2
        assert one(url, f"{worker}_connector_startup_attempts_total") == 2
        assert one(url, f"{worker}_connector_running_task_count", connector="numbers") == 1
        assert one(url, f"{short}_connector_status", **numbers, status="running") == 1
        task = f"{short}_connector_task"
        running = one(url, f"{task}_running_ratio", **numbers)
        assert running is not None
        assert 0 < running <= 1
        assert one(url, f"{task}_offset_commit_success_percentage", **numbers) == 1
        assert one(url, f"{task}_batch_size_max", **nothing) == RECORDS
        for attribute in ("poll_total", "write_total", "active_count_max"):
            full = f"{short}_source_task_source_record_{attribute}"
            assert one(url, full, **numbers) == RECORDS
        assert one(url, f"{short}_sink_task_partition_count", **nothing) == 1
        assert one(url, f"{short}_sink_task_sink_record_read_total", **nothing) == RECORDS
        commits = one(url, f"{short}_sink_task_offset_commit_completion_total", **nothing)
        assert commits
        assert commits > 0

        assert one(url, "process_resident_memory_bytes")
        for name, client in (
            ("kafka_producer_outgoing_byte_total", "connector-producer-numbers-0"),
            ("kafka_producer_buffer_available_bytes", "connector-producer-numbers-0"),
            ("kafka_consumer_incoming_byte_total", "connector-consumer-nothing-0"),
            ("kafka_consumer_connection_count", "connector-consumer-nothing-0"),
        ):
            wait_until(partial(one, url, name, clientid=client), _WAIT_S, name)
        sent = partial(
            one,
            url,
            "kafka_producer_topic_record_send_total",
            clientid="connector-producer-numbers-0",
            topic=topic,
        )
        wait_until(lambda: sent() == RECORDS, _WAIT_S, "the client tells of all records")

        assert call(url, "PUT", "/connectors/numbers/pause").status == 202
        assert call(url, "DELETE", "/connectors/nothing").status == 204
        state = f"{short}_connector_metrics"
        wait_until(lambda: one(url, state, status="paused"), _WAIT_S, "the paused connector")
        wait_until(
            lambda: one(url, f"{short}_connector_status", **numbers, status="paused"),
            _WAIT_S,
            "the paused task",
        )
        assert 'connector="nothing"' not in page(url, "/metrics")


def test_a_failed_task_is_shown_until_its_connector_is_gone(
    target_cluster: KafkaCluster, logs: Path, tmp_path: Path
) -> None:
    topic = create_topic(target_cluster.bootstrap_servers, "metrics")
    props = {
        "bootstrap.servers": target_cluster.bootstrap_servers,
        "key.converter": _STRING,
        "value.converter": _STRING,
        "offset.storage.file.filename": str(tmp_path / "offsets.db"),
        "file.connectors.root": str(tmp_path),
    }
    broken = {
        "connector.class": "FileStreamSink",
        "topics": topic,
        "file": str(tmp_path / "no" / "such" / "directory"),
    }
    with standalone_worker(props, tmp_path, logs / "worker.log") as url:
        assert call(url, "PUT", "/connectors/bad/config", broken).status == 201
        name = "kafka_connect_connector_status"
        wait_until(lambda: one(url, name, status="failed"), _WAIT_S, "the failed task")
        assert one(url, "kafka_connect_worker_task_startup_failure_total") == 1
        assert one(url, "kafka_connect_worker_connector_failed_task_count", connector="bad") == 1
        assert one(url, "kafka_connect_sink_task_partition_count", connector="bad") == 0

        assert call(url, "DELETE", "/connectors/bad").status == 204
        assert 'connector="bad"' not in page(url, "/metrics")


def test_a_worker_of_a_group_shows_its_membership_as_java_s_does(
    target_cluster: KafkaCluster, logs: Path, tmp_path: Path
) -> None:
    servers = target_cluster.bootstrap_servers
    extra = {
        "key.converter": _STRING,
        "value.converter": _STRING,
        "heartbeat.interval.ms": "200",
    }
    props = worker_properties(servers, unique("workers"), extra)
    (tmp_path / "in.txt").write_text("one\n")
    with worker_group(1, props, tmp_path, logs) as group:
        url = group.first.url
        group.create("lines", file_source(create_topic(servers, "metrics"), tmp_path / "in.txt"))
        coordinator, rebalance = "kafka_connect_coordinator", "kafka_connect_worker_rebalance"
        wait_until(
            lambda: (
                one(url, f"{coordinator}_assigned_tasks") == 1
                and one(url, "kafka_connect_worker_connector_running_task_count") == 1
            ),
            _WAIT_S,
            "the task to run",
        )
        expected = {
            (name, labels)
            for name, labels in java_names(Family, LEFT_OUT)
            if "coordinator" in name or "rebalance" in name
        }
        assert expected <= names(page(url, "/metrics?family=A,B,C"))

        assert one(url, f"{coordinator}_assigned_connectors") == 1
        for metric_name in (f"{rebalance}_epoch", f"{rebalance}_completed_rebalances_total"):
            value = one(url, metric_name)
            assert value
            assert value >= 2
        assert one(url, f"{rebalance}_rebalancing") == 0
        joins, syncs = one(url, f"{coordinator}_join_total"), one(url, f"{coordinator}_sync_total")
        assert joins
        assert joins >= 2
        assert joins == syncs == one(url, f"{coordinator}_rebalance_total")
        assert one(url, f"{coordinator}_failed_rebalance_total") == 0
        wait_until(lambda: one(url, f"{coordinator}_heartbeat_total"), _WAIT_S, "a heartbeat")
        since = one(url, f"{coordinator}_last_heartbeat_seconds_ago")
        assert since is not None
        assert 0 <= since <= 10
        texts = "kafka_connect_connect_worker_rebalance_metrics"
        assert one(url, texts, leader_name=f"{url}/") == 1
        assert one(url, texts, connect_protocol="SESSIONED") == 1
