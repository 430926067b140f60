"""A task is RUNNING while a partition of it stands still: all that tells of it says so."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AclOperation

from deploy.brokers import KafkaCluster, KafkaRuntime
from tests.support.copier.proxy import TcpProxy
from tests.support.flows.mirrored import (
    MirroredFlow,
    assert_equal_logs,
    read_all,
    running,
    stop_cleanly,
)
from tests.support.records.producing import Record, numbered, produce
from tests.support.records.topics import alter_topic, has_topic
from tests.support.security.denying import denied
from tests.support.served import health_of, metric
from tests.support.waiting import wait_until

# "Within seconds"; generous, as machines that run tests are busy.
SOON_S = 30.0
CONNECTOR, TASK = "status-connector-MirrorSourceConnector", "status-task-MirrorSourceConnector-0"


def newest_status(flow: MirroredFlow, instance: str = TASK) -> dict[str, object]:
    """As any worker of the group reads it."""
    topic = f"mm2-status.{flow.a}.internal"
    if not has_topic(flow.target_servers, topic):
        return {}  # To read it now would create it, with a policy that the worker refuses.
    statuses = [
        json.loads(record.value)
        for record in read_all(flow.target_servers, topic)
        if record.key == instance.encode() and record.value is not None
    ]
    return dict(statuses[-1]) if statuses else {}


def test_a_stuck_partition_is_seen_everywhere_and_only_it(
    source_cluster: KafkaCluster,
    target_cluster: KafkaCluster,
    logs: Path,
    tmp_path: Path,
    listener: str,
) -> None:
    flow, log = MirroredFlow(source_cluster, target_cluster), logs / "mirror.log"
    stuck, well = flow.topic("stuck"), flow.topic("well")
    produce(flow.source_servers, well, numbered(10))
    produce(flow.source_servers, stuck, numbered(10))
    properties = flow.properties({"metrics.listener": listener, "tasks.max": "1"})
    with running(properties, tmp_path, log) as mirror:
        for topic in (stuck, well):
            flow.wait_records(topic, [10])
        wait_until(
            lambda: newest_status(flow).get("trace", "none yet") is None, SOON_S, "a status, clean"
        )
        alter_topic(flow.target_servers, flow.remote(stuck), {"max.message.bytes": "20000"})
        produce(flow.source_servers, stuck, [Record(b"x" * 50_000), *numbered(5, start=10)])
        produce(flow.source_servers, well, numbered(10, start=10))

        def trouble() -> str:
            return str(newest_status(flow).get("trace") or "")

        # That it stands still may be told before the reason is known.
        wait_until(lambda: "max.message.bytes" in trouble(), SOON_S, "the status says why")
        assert newest_status(flow)["state"] == "RUNNING"
        assert "1 of 2 partitions make no progress" in trouble()
        assert f"{stuck}-0: " in trouble()
        health = json.dumps(health_of(listener))
        assert '"healthy": false' in health
        assert "max.message.bytes" in health
        name = "kafka_connect_mirror_mirrorsourceconnector_stuck"
        for topic, figure in ((stuck, 1.0), (well, 0.0)):
            ((_, value),) = metric(listener, name, topic=flow.remote(topic))
            assert value == figure, topic
        flow.wait_records(well, [20])

        alter_topic(flow.target_servers, flow.remote(stuck), {"max.message.bytes": "1000000"})
        flow.wait_records(stuck, [16])
        wait_until(lambda: not trouble(), SOON_S, "the status is clean again")
        stop_cleanly(mirror, log)


def test_a_flow_whose_target_is_down_says_why_and_is_well_once_it_is_back(
    source_cluster: KafkaCluster,
    kafka: KafkaRuntime,
    logs: Path,
    tmp_path: Path,
    listener: str,
) -> None:
    with KafkaCluster(name="down", kafka=kafka, logs=logs) as target:
        flow, log = MirroredFlow(source_cluster, target), logs / "mirror.log"
        topic = flow.topic()
        produce(flow.source_servers, topic, numbered(10))
        properties = flow.properties({"metrics.listener": listener})

        def traces() -> dict[str, str]:
            return {
                each["name"]: f"{each['state']} {each.get('trace')}"
                for each in health_of(listener)["connectors"]
            }

        def unexplained() -> dict[str, str]:
            """Connectors that are not well, or said not to be, without the reason."""
            return {name: text for name, text in traces().items() if "127.0.0.1" not in text}

        with running(properties, tmp_path, log) as mirror:
            flow.wait_records(topic, [10])
            wait_until(lambda: health_of(listener)["status"] == "healthy", SOON_S, "all is well")
            (node,) = target.nodes
            node.stop()
            wait_until(lambda: not unexplained(), 2 * SOON_S, "why nothing runs")
            assert health_of(listener)["status"] == "unhealthy"
            node.start()
            produce(flow.source_servers, topic, numbered(10, start=10))
            flow.wait_records(topic, [20])
            wait_until(
                lambda: health_of(listener)["status"] == "healthy", 2 * SOON_S, "all is well again"
            )
            stop_cleanly(mirror, log)
        node.stop()
        with running(properties, tmp_path, log):
            wait_until(lambda: _answers(listener), SOON_S, "the page")
            assert all("None" not in text for text in traces().values()), traces()


def _answers(listener: str) -> bool:
    try:
        return bool(health_of(listener)["connectors"])
    except OSError:
        return False


@pytest.mark.slow
def test_a_connector_that_does_not_reach_its_source_says_so(
    source_cluster: KafkaCluster,
    target_cluster: KafkaCluster,
    logs: Path,
    tmp_path: Path,
    listener: str,
) -> None:
    flow, log = MirroredFlow(source_cluster, target_cluster), logs / "mirror.log"
    topic = flow.topic()
    produce(flow.source_servers, topic, numbered(10))
    (port,) = source_cluster.node(1).ports.values()
    with TcpProxy(port) as proxy:
        properties = flow.properties(
            {"metrics.listener": listener, "A.bootstrap.servers": proxy.address}
        )
        proxy.cut()
        with running(properties, tmp_path, log) as mirror:

            def trouble() -> str:
                try:
                    return str(newest_status(flow, CONNECTOR).get("trace") or "")
                except (KeyError, KafkaException):
                    return ""  # the status topic is not there yet, or has no leaders

            why = f"Cannot reach cluster {flow.a} at {proxy.address}"
            wait_until(lambda: why in trouble(), 2 * SOON_S, "the connector says what it waits for")
            assert newest_status(flow, CONNECTOR)["state"] == "RUNNING"
            assert health_of(listener)["status"] == "unhealthy"
            proxy.heal()
            flow.wait_records(topic, [10])
            wait_until(lambda: not trouble(), SOON_S, "the status is clean again")
            stop_cleanly(mirror, log)


@pytest.mark.slow
def test_a_topic_that_may_not_be_described_any_more_is_not_taken_for_gone(
    permitting_cluster: KafkaCluster,
    target_cluster: KafkaCluster,
    logs: Path,
    tmp_path: Path,
    listener: str,
) -> None:
    flow, log = MirroredFlow(permitting_cluster, target_cluster), logs / "mirror.log"
    hidden, well = flow.topic("hidden"), flow.topic("well")
    for topic in (hidden, well):
        produce(flow.source_servers, topic, numbered(10))
    properties = flow.properties({"metrics.listener": listener, "tasks.max": "1"})
    with running(properties, tmp_path, log) as mirror:

        def told(instance: str) -> str:
            return str(newest_status(flow, instance).get("trace") or "")

        for topic in (hidden, well):
            flow.wait_records(topic, [10])
        with denied(flow.source_servers, hidden, AclOperation.ALL):
            grant, still = f"grant Read on topic {hidden}", "1 of 2 partitions make no progress"
            wait_until(lambda: grant in told(CONNECTOR), SOON_S, "the connector names the topic")
            wait_until(lambda: hidden in told(TASK), SOON_S, "and the task its partition")
            assert still in told(TASK)
            assert health_of(listener)["status"] == "unhealthy"
        wait_until(lambda: not told(CONNECTOR) + told(TASK), SOON_S, "all is well again")
        with denied(flow.source_servers, flow.syncs_topic, AclOperation.WRITE):
            produce(flow.source_servers, hidden, numbered(10, start=10))
            flow.wait_records(hidden, [20])
            wait_until(lambda: "Cannot write offset syncs" in told(TASK), SOON_S, "it is told")
        produce(flow.source_servers, hidden, numbered(10, start=20))
        wait_until(lambda: not told(TASK), SOON_S, "syncs are written again")
        assert_equal_logs(flow, hidden)
        stop_cleanly(mirror, log)
