"""The series that people's dashboards query are there while a flow copies and translates groups.

Names and labels are those of public dashboards of MirrorMaker 2: A of Strimzi's rules, B of the
AWS samples and Redpanda's image, C of Confluent's rules and Strimzi's reporter. Of Strimzi's own
dashboard each panel's query is asked; docs/reference/metrics.md lists those that find nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from urllib.parse import quote

import pytest
from prometheus_client.parser import text_string_to_metric_families

from connect.errors import DeadlineExceeded
from deploy.brokers import KafkaCluster
from tests.support.deployment.dashboards import Panel, empty_panels, listed_panels
from tests.support.flows.mirrored import MirroredFlow, running, stop_cleanly
from tests.support.records.groups import commit
from tests.support.records.producing import numbered, produce
from tests.support.records.topics import unique
from tests.support.served import page
from tests.support.waiting import wait_until
from tests.support.workers.distributed import worker_group
from tests.support.workers.java_connect import worker_properties

SOON_S = 90.0
TIMES = ("", "_min", "_max", "_avg")
PARTITION = {"source", "target", "topic", "partition"}
TASK = {"connector", "task"}
Queries = Mapping[str, set[str]]


def of_partitions(prefix: str, labels: set[str]) -> dict[str, set[str]]:
    counted = ("record_count", "record_rate", "byte_count", "byte_rate")
    timed = [
        f"{name}{part}" for name in ("record_age_ms", "replication_latency_ms") for part in TIMES
    ]
    return {f"{prefix}_{name}": labels for name in (*counted, *timed)}


def of_groups(prefix: str) -> dict[str, set[str]]:
    return {f"{prefix}_checkpoint_latency_ms{part}": {*PARTITION, "group"} for part in TIMES}


QUERIES: Mapping[str, Queries] = {
    "A": {
        **of_partitions("kafka_connect_mirror_mirrorsourceconnector", PARTITION),
        **of_groups("kafka_connect_mirror_mirrorcheckpointconnector"),
        "kafka_connect_worker_connector_count": set(),
        "kafka_connect_worker_task_count": set(),
        "kafka_connect_worker_rebalance_rebalancing": set(),
        "kafka_connect_coordinator_assigned_connectors": set(),
        "kafka_connect_coordinator_assigned_tasks": set(),
        "kafka_connect_connector_task_offset_commit_avg_time_ms": TASK,
        "kafka_connect_source_task_source_record_active_count": TASK,
        "kafka_connect_connector_status": {*TASK, "status"},
        **{
            f"kafka_connect_worker_connector_{state}_task_count": {"connector"}
            for state in ("failed", "paused", "running", "unassigned", "destroyed")
        },
        "kafka_connect_task_error_total_record_errors": TASK,
        "kafka_connect_task_error_total_record_failures": TASK,
        "kafka_consumer_fetch_manager_records_lag": {"clientid", "topic", "partition"},
    },
    "B": {
        **of_partitions(
            "kafka_connect_mirror_source_connector", {"destination", "topic", "partition"}
        ),
        **of_groups("kafka_connect_mirror_checkpoint_connector"),
        "kafka_connect_worker_task_count": set(),
        "kafka_connect_worker_rebalance_rebalancing": set(),
        "kafka_connect_coordinator_assigned_tasks": {"clientId"},
        "kafka_connect_source_task_source_record_active_count": TASK,
        "kafka_consumer_fetch_manager_records_lag": {"clientId", "topic", "partition"},
        "kafka_consumer_incoming_byte_total": {"clientId"},
    },
    "C": {
        "kafka_connect_connect_worker_metrics_task_count": set(),
        "kafka_connect_connect_worker_rebalance_metrics_rebalancing": set(),
        "kafka_connect_connect_coordinator_metrics_assigned_tasks": set(),
        "kafka_connect_connector_task_metrics_offset_commit_avg_time_ms": TASK,
        "kafka_connect_source_task_metrics_source_record_active_count": TASK,
        "kafka_connect_task_error_metrics_total_record_errors": TASK,
        "kafka_connect_connector_metrics": {"connector", "status"},
        "kafka_consumer_consumer_fetch_manager_metrics_records_lag": {
            "client_id",
            "topic",
            "partition",
        },
    },
}


_SOURCE = "kafka_connect_mirror_mirrorsourceconnector"
# As in JMX, a name with a special character, as Strimzi's connectors have, is in quotation marks.
_CONNECTOR = {"connector": r'".*SourceConnector"'}
# Strimzi's dashboard for MirrorMaker 2 (for the JMX exporter, of August 2026), without the labels
# of pods (`OPERATOR_LABELS`).
PANELS = [
    Panel("Total Number of Running Connectors", ["kafka_connect_worker_connector_count"]),
    Panel("Total record rate", [f"{_SOURCE}_record_rate"]),
    Panel(
        "Record Age",
        [f"{_SOURCE}_record_age_ms{part}" for part in TIMES],
        grouped=["partition", "topic"],
    ),
    Panel("Total Number of Running Tasks", ["kafka_connect_worker_task_count"]),
    Panel("Total byte rate", [f"{_SOURCE}_byte_rate"]),
    Panel(
        "Consumer Lag",
        ["kafka_consumer_fetch_manager_records_lag"],
        {"clientid": r'.*replication-consumer"'},
        ["topic", "partition"],
    ),
    Panel("Incoming Bytes per Second", ["kafka_consumer_incoming_byte_total"]),
    Panel("Outgoing Bytes per Second", ["kafka_producer_outgoing_byte_total"]),
    Panel(
        "Replication Latency",
        [f"{_SOURCE}_replication_latency_ms{part}" for part in TIMES],
        grouped=["partition", "topic"],
    ),
    Panel(
        "Consumer Group Offset Sync Latency",
        ["kafka_connect_mirror_mirrorcheckpointconnector_checkpoint_latency_ms"],
        grouped=["source", "target", "topic", "partition", "group"],
    ),
    Panel(
        "Source Connector - Producer Available Buffer",
        ["kafka_producer_buffer_available_bytes"],
        {"clientid": r'".*SourceConnector-[0-9]+"'},
    ),
    Panel(
        "Source Connector - Average Offset Commit Time",
        ["kafka_connect_connector_task_offset_commit_avg_time_ms"],
        {**_CONNECTOR, "task": "[0-9]+"},
    ),
    Panel(
        "Source Connector - Connect Outstanding Messages Queue",
        ["kafka_connect_source_task_source_record_active_count"],
        _CONNECTOR,
    ),
    Panel("Assigned Connectors per Worker", ["kafka_connect_coordinator_assigned_connectors"]),
    Panel("Rebalancing", ["kafka_connect_worker_rebalance_rebalancing"]),
    Panel("Assigned Tasks per Worker", ["kafka_connect_coordinator_assigned_tasks"]),
    Panel("CPU Usage", ["container_cpu_usage_seconds_total"]),
    Panel("JVM Memory", ["jvm_memory_used_bytes"]),
    Panel("Time Spent in GC", ["jvm_gc_collection_seconds_sum"]),
    Panel("JVM Thread Count", ["jvm_threads_current"]),
]
# Kubernetes has the first, and there is no JVM.
OF_OTHERS = {"CPU Usage", "JVM Memory", "Time Spent in GC", "JVM Thread Count"}
# A dedicated mirror's connectors have the plain names of their classes.
OF_WORKERS = {panel.title for panel in PANELS if panel.title.startswith("Source Connector - ")}


def missing(listener: str, family: str) -> Sequence[str]:
    """The queries that no series of the page answers."""
    shown: dict[str, list[set[str]]] = {}
    for each in text_string_to_metric_families(page(listener, f"/metrics?family={family}")):
        for sample in each.samples:
            shown.setdefault(sample.name, []).append(set(sample.labels))
    return [
        f"{name}{{{', '.join(sorted(labels))}}}"
        for name, labels in QUERIES[family].items()
        if not any(labels <= found for found in shown.get(name, ()))
    ]


def of_all(listener: str) -> dict[str, Sequence[str]]:
    return {family: missing(listener, family) for family in QUERIES}


@pytest.mark.slow
def test_the_queries_of_dashboards_find_series(
    source_cluster: KafkaCluster,
    target_cluster: KafkaCluster,
    tmp_path: Path,
    logs: Path,
    listener: str,
) -> None:
    flow, log = MirroredFlow(source_cluster, target_cluster), logs / "mirror.log"
    topic = flow.topic()
    produce(flow.source_servers, topic, numbered(100))
    commit(flow.source_servers, f"{flow.prefix}-group", {(topic, 0): 50})
    properties = flow.properties({"metrics.listener": listener, "groups": f"{flow.prefix}.*"})
    with running(properties, tmp_path, log) as mirror:
        flow.wait_records(topic, [100])
        with suppress(DeadlineExceeded):  # The names are told below.
            wait_until(lambda: not any(of_all(listener).values()), SOON_S, "all series")
        assert of_all(listener) == {family: [] for family in QUERIES}
        assert empty_panels(listener, PANELS) == OF_OTHERS | OF_WORKERS
        stop_cleanly(mirror, log)


@pytest.mark.slow
def test_strimzis_dashboard_has_data_of_workers(
    source_cluster: KafkaCluster, target_cluster: KafkaCluster, tmp_path: Path, logs: Path
) -> None:
    flow = MirroredFlow(source_cluster, target_cluster)
    topic = flow.topic()
    produce(flow.source_servers, topic, numbered(100))
    commit(flow.source_servers, f"{flow.prefix}-group", {(topic, 0): 50})
    properties = worker_properties(flow.target_servers, unique("strimzi"))
    with worker_group(1, properties, tmp_path, logs) as group:
        for kind in ("Source", "Checkpoint"):
            # Strimzi's operator names connectors so.
            name = f"{flow.a}->{flow.b}.Mirror{kind}Connector"
            config = {**connector(flow), "connector.class": f"Mirror{kind}Connector"}
            group.accepted("PUT", f"/connectors/{quote(name)}/config", config)
        flow.wait_records(topic, [100])
        url = group.first.url
        with suppress(DeadlineExceeded):  # The titles are told below.
            wait_until(lambda: empty_panels(url, PANELS) == OF_OTHERS, SOON_S, "data in all panels")
        assert empty_panels(url, PANELS) == OF_OTHERS


def connector(flow: MirroredFlow) -> dict[str, str]:
    """The config of both connectors but for the class."""
    return {
        "source.cluster.alias": flow.a,
        "target.cluster.alias": flow.b,
        "source.cluster.bootstrap.servers": flow.source_servers,
        "target.cluster.bootstrap.servers": flow.target_servers,
        "topics": f"{flow.prefix}.*",
        "groups": f"{flow.prefix}.*",
        "replication.factor": "1",
        "offset-syncs.topic.replication.factor": "1",
        "checkpoints.topic.replication.factor": "1",
        "emit.checkpoints.interval.seconds": "1",
        "refresh.groups.interval.seconds": "1",
        "sync.topic.acls.enabled": "false",
        "heartbeats.replication.enabled": "false",
        "mirror.history.url": "none",
    }


def test_the_docs_list_the_panels_without_data() -> None:
    assert listed_panels("Strimzi's dashboard") == OF_OTHERS | OF_WORKERS
