"""The dashboards that Redpanda and Amazon publish for Kafka Connect with MirrorMaker 2 find data on
workers, in the metrics' family B; docs/reference/metrics.md lists the panels that find none."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

import pytest

from connect.errors import DeadlineExceeded
from deploy.brokers import KafkaCluster
from tests.support.deployment.dashboards import Panel, empty_panels, listed_panels
from tests.support.flows.mirrored import MirroredFlow
from tests.support.records.producing import numbered, produce
from tests.support.records.topics import unique
from tests.support.waiting import wait_until
from tests.support.workers.distributed import worker_group
from tests.support.workers.java_connect import worker_properties

SOON_S = 90.0
STRING = "org.apache.kafka.connect.storage.StringConverter"
MIRROR, SOURCE, SINK = "my-mirror", "lines-in", "lines-out"

# Redpanda's "Connectors" dashboard, as of March 2026.
_MIRROR_LATENCY = "kafka_connect_mirror_source_connector_replication_latency_ms_max"
_ERRORS = ("total_record_errors", "total_record_failures", "total_records_skipped")
OF_BROKERS = "Sink connector lag rate"
NOT_COUNTED = {
    "Producer record rate (record_retry_total)",
    "Producer record error rate",
}


def of_every(connector: str) -> list[Panel]:
    task = {"connector": connector, "task": "[0-9]+"}
    return [
        Panel("variables", ["kafka_connect_connector_task_running_ratio"], task),
        Panel(
            "Connector tasks for [[connector]]",
            ["kafka_connect_connector_status"],
            {**task, "status": "running"},
        ),
        Panel("Record error rate", [f"kafka_connect_task_error_{name}" for name in _ERRORS], task),
    ]


def of_sinks(connector: str) -> list[Panel]:
    client = {"clientId": f"connector-consumer-{connector}-[0-9]+"}
    fetches = "kafka_consumer_fetch_manager"
    return [
        Panel("Sink connector lag", [f"{fetches}_records_lag_avg"], client),
        Panel("Redpanda consumer latency", [f"{fetches}_fetch_latency_avg"], client),
        Panel("Bytes in", ["kafka_consumer_node_incoming_byte_total"], client),
        Panel(OF_BROKERS, ["redpanda_kafka_max_offset"]),
    ]


def of_sources(connector: str) -> list[Panel]:
    client = {"clientId": f"connector-producer-{connector}-.*"}
    task = {"connector": connector, "task": "[0-9]+"}
    own = "kafka_connector_producer"
    return [
        Panel(
            "Count of the records sent to target (by topic)",
            ["kafka_producer_topic_record_send_total"],
            client,
            ["topic"],
        ),
        Panel("Redpanda producer latency", [f"{own}_request_latency_avg"], task),
        Panel("Bytes out", ["kafka_producer_node_outgoing_byte_total"], client),
        Panel("Producer record rate", [f"{own}_record_send_total"], task),
        Panel("Producer record rate (record_retry_total)", [f"{own}_record_retry_total"], task),
        Panel("Producer record error rate", ["kafka_producer_record_error_total"]),
    ]


# Amazon's dashboard of its sample for migrations with MirrorMaker 2.
AMAZON = [
    Panel(
        "MM2 Replication Latency Average (ms)",
        ["kafka_connect_mirror_source_connector_replication_latency_ms_avg"],
        grouped=["topic", "partition"],
    ),
    Panel(
        "MM2 Consumer Lag (records)",
        ["kafka_consumer_fetch_manager_records_lag"],
        grouped=["topic", "partition"],
    ),
    Panel(
        "MM2 Source Record Ages (ms)",
        ["kafka_connect_mirror_source_connector_record_age_ms_avg"],
        grouped=["topic", "partition"],
    ),
    Panel(
        "MM2 Source Task Record Counts", ["kafka_connect_source_task_source_record_active_count"]
    ),
    Panel(
        "MM2 Consumer Fetch Latency (ms)",
        ["kafka_consumer_fetch_manager_fetch_latency_avg"],
        {"clientId": ".*replication-consumer.*"},
    ),
]


@pytest.mark.slow
def test_panels_have_data_of_workers(
    source_cluster: KafkaCluster, target_cluster: KafkaCluster, tmp_path: Path, logs: Path
) -> None:
    flow, lines = MirroredFlow(source_cluster, target_cluster), tmp_path / "in.txt"
    topic, written = flow.topic(), unique("lines")
    produce(flow.source_servers, topic, numbered(100))
    lines.write_text("one\ntwo\n")
    configs = {
        MIRROR: mirror(flow),
        SOURCE: {"connector.class": "FileStreamSource", "file": str(lines), "topic": written},
        SINK: {
            "connector.class": "FileStreamSink",
            "file": str(tmp_path / "out.txt"),
            "topics": written,
        },
    }
    panels = [
        (of_every(each), set[str]()) for each in (MIRROR, SOURCE, SINK)
    ] + [
        ([Panel("MM2 replication latency", [_MIRROR_LATENCY])], set()),
        (of_sinks(SINK), {OF_BROKERS}),
        (of_sources(SOURCE), NOT_COUNTED),
        (of_sources(MIRROR), NOT_COUNTED),
        (AMAZON, set()),
    ]  # fmt: skip
    properties = worker_properties(
        flow.target_servers, unique("samples"), {"value.converter": STRING}
    )
    with worker_group(1, properties, tmp_path, logs) as group:
        for name, config in configs.items():
            group.accepted("PUT", f"/connectors/{name}/config", config)
        flow.wait_records(topic, [100])
        url = group.first.url

        def empty() -> list[set[str]]:
            return [empty_panels(url, each, "B") for each, _ in panels]

        with suppress(DeadlineExceeded):  # The titles are told below.
            wait_until(lambda: empty() == [each for _, each in panels], SOON_S, "all panels' data")
        assert empty() == [each for _, each in panels]


def mirror(flow: MirroredFlow) -> dict[str, str]:
    return {
        "connector.class": "MirrorSourceConnector",
        "source.cluster.alias": flow.a,
        "target.cluster.alias": flow.b,
        "source.cluster.bootstrap.servers": flow.source_servers,
        "target.cluster.bootstrap.servers": flow.target_servers,
        "topics": f"{flow.prefix}.*",
        "replication.factor": "1",
        "offset-syncs.topic.replication.factor": "1",
        "sync.topic.acls.enabled": "false",
        "heartbeats.replication.enabled": "false",
        "mirror.history.url": "none",
    }


def test_the_docs_list_the_panels_without_data() -> None:
    def plain(titles: Iterable[str]) -> set[str]:
        return {title.partition(" (record_retry")[0] for title in titles}

    assert listed_panels("Redpanda's and Amazon's dashboards") == plain({OF_BROKERS} | NOT_COUNTED)
