"""The series that people's dashboards query are there while a flow copies and translates groups.

Names and labels are those of public dashboards of MirrorMaker 2: A of Strimzi's rules, B of the
AWS samples and Redpanda's image, C of Confluent's rules and Strimzi's reporter.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from connect.errors import DeadlineExceeded
from deploy.brokers import KafkaCluster
from tests.support.groups import commit
from tests.support.mirrored import MirroredFlow, running, stop_cleanly
from tests.support.producing import numbered, produce
from tests.support.served import page
from tests.support.waiting import wait_until

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
    },
    "B": {
        **of_partitions(
            "kafka_connect_mirror_source_connector", {"destination", "topic", "partition"}
        ),
        **of_groups("kafka_connect_mirror_checkpoint_connector"),
    },
    "C": {
        "kafka_connect_connect_worker_metrics_task_count": set(),
        "kafka_connect_connect_worker_rebalance_metrics_rebalancing": set(),
        "kafka_connect_connect_coordinator_metrics_assigned_tasks": set(),
        "kafka_connect_connector_task_metrics_offset_commit_avg_time_ms": TASK,
        "kafka_connect_source_task_metrics_source_record_active_count": TASK,
        "kafka_connect_task_error_metrics_total_record_errors": TASK,
        "kafka_connect_connector_metrics": {"connector", "status"},
    },
}


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
        stop_cleanly(mirror, log)
