"""Addresses of brokers that are missing or wrong fail connectors and tasks, as in Java."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from connect.runtime.states import State
from connectors.mirror.plugins import register
from deploy.brokers import KafkaCluster
from tests.support.records.topics import unique
from tests.support.waiting import wait_until
from tests.support.workers.bench import TIMEOUT_S, Bench
from tests.support.workers.telling_sink import TellingSinkConnector

WRONG = [
    ("localhost", "Invalid value localhost for configuration bootstrap.servers"),
    ("kafka.invalid:9092", "No resolvable bootstrap urls given in bootstrap.servers"),
]


@pytest.fixture
def bench(target_cluster: KafkaCluster) -> Iterator[Bench]:
    bench = Bench(target_cluster)
    bench.plugins.register(TellingSinkConnector)
    register(bench.plugins)
    yield bench
    bench.close()


@pytest.mark.parametrize(("servers", "reason"), WRONG, ids=["no port", "unknown host"])
def test_a_source_task_whose_own_brokers_cannot_be_had_fails_and_names_them(
    bench: Bench, servers: str, reason: str
) -> None:
    bench.put("RecordLane", producer_override_bootstrap_servers=servers)
    bench.becomes(State.RUNNING, State.FAILED)
    trace = str(bench.herder.status("lanes").tasks[0].status.trace)
    assert reason in trace
    assert servers in trace


@pytest.mark.parametrize(("servers", "reason"), WRONG, ids=["no port", "unknown host"])
def test_a_sink_task_whose_own_brokers_cannot_be_had_fails_and_names_them(
    bench: Bench, servers: str, reason: str
) -> None:
    override = {"consumer_override_bootstrap_servers": servers}
    bench.put("TellingSink", topics=bench.topic, **override)
    bench.becomes(State.RUNNING, State.FAILED)
    assert reason in str(bench.herder.status("lanes").tasks[0].status.trace)


@pytest.mark.parametrize(
    ("kind", "side"),
    [
        ("Source", "source"),
        ("Source", "target"),
        ("Checkpoint", "source"),
        ("Checkpoint", "target"),
        ("Heartbeat", "target"),
    ],
)
def test_a_mirror_connector_without_servers_fails(bench: Bench, kind: str, side: str) -> None:
    name, other = unique("mirror"), {"source": "target", "target": "source"}[side]
    bench.herder.put_connector(
        name,
        {
            "connector.class": f"Mirror{kind}Connector",
            "source.cluster.alias": "a",
            "target.cluster.alias": "b",
            f"{other}.cluster.bootstrap.servers": bench.servers,
            "offset-syncs.topic.replication.factor": "1",
            "checkpoints.topic.replication.factor": "1",
            "heartbeats.topic.replication.factor": "1",
        },
    )
    wait_until(lambda: bench.states(name) == [State.FAILED], TIMEOUT_S, "FAILED")
    trace = str(bench.herder.status(name).status.trace)
    assert 'Missing required configuration "bootstrap.servers"' in trace
