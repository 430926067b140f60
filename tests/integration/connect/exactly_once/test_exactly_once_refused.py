"""A target that does not let us write exactly once: what people see, and that it heals."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from confluent_kafka.admin import AclOperation, ResourcePatternType, ResourceType

from deploy.brokers import KafkaCluster, KafkaRuntime
from tests.support.flows.mirrored import MirroredFlow, assert_equal_logs, running, stop_cleanly
from tests.support.records.producing import numbered, produce
from tests.support.security.denying import denied
from tests.support.served import health_of
from tests.support.waiting import wait_until

SOON_S = 60.0
STOP_S = 30.0
ONCE = {
    "B.exactly.once.source.support": "enabled",
    "A.consumer.isolation.level": "read_committed",
    "tasks.max": "1",
}


def wait_told(listener: str, remedy: str) -> None:
    """Until `/health` says what is to be done."""

    def told() -> bool:
        try:
            return remedy in json.dumps(health_of(listener))
        except OSError:
            return False  # it does not listen yet

    wait_until(told, SOON_S, "/health says what is to be done")


@pytest.mark.parametrize(
    "whose",
    [
        "connect-cluster-{a}-mm2",
        pytest.param("{a}-mm2-MirrorSourceConnector-0", marks=pytest.mark.slow),
    ],
)
def test_missing_permissions_are_named_with_the_id_and_the_remedy(
    source_cluster: KafkaCluster,
    permitting_cluster: KafkaCluster,
    logs: Path,
    tmp_path: Path,
    listener: str,
    whose: str,
) -> None:
    flow, log = MirroredFlow(source_cluster, permitting_cluster), logs / "mirror.log"
    topic = flow.topic()
    produce(flow.source_servers, topic, numbered(10))
    name = whose.format(a=flow.a)
    remedy = f"grant Write and Describe on the transactional id {name}"
    with denied(
        flow.target_servers,
        name,
        AclOperation.ALL,
        ResourceType.TRANSACTIONAL_ID,
        ResourcePatternType.LITERAL,
    ):
        properties = flow.properties({"metrics.listener": listener, **ONCE})
        with running(properties, tmp_path, logs / "refused.log") as mirror:
            wait_told(listener, remedy)
            assert mirror.stop(STOP_S) == 0
    with running(properties, tmp_path, log) as mirror:
        flow.wait_records(topic, [10], SOON_S)
        stop_cleanly(mirror, log)
    assert_equal_logs(flow, topic)


@pytest.mark.slow
def test_a_target_with_short_transactions_is_told_and_takes_ours_once_they_are_shorter(
    source_cluster: KafkaCluster,
    kafka: KafkaRuntime,
    logs: Path,
    tmp_path: Path,
    listener: str,
) -> None:
    short = {"transaction.max.timeout.ms": "10000"}
    with KafkaCluster(name="short", properties=short, kafka=kafka, logs=logs) as target:
        flow, log = MirroredFlow(source_cluster, target), logs / "mirror.log"
        topic = flow.topic()
        produce(flow.source_servers, topic, numbered(10))
        properties = flow.properties({"metrics.listener": listener, **ONCE})
        with running(properties, tmp_path, logs / "refused.log") as mirror:
            wait_told(listener, "raise the brokers' transaction.max")
            assert mirror.stop(STOP_S) == 0
        shorter = {f"{flow.b}.producer.transaction.timeout.ms": "8000"}
        with running({**properties, **shorter}, tmp_path, log) as mirror:
            flow.wait_records(topic, [10], SOON_S)
            stop_cleanly(mirror, log)
        assert_equal_logs(flow, topic)
