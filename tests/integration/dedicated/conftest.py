"""Topologies of the session's clusters, and of a third one that tests of several files share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from deploy.brokers import KafkaCluster, KafkaRuntime
from tests.support.flows.topologies import Topology


@pytest.fixture(scope="session")
def third_cluster(kafka: KafkaRuntime, session_logs: Path) -> Iterator[KafkaCluster]:
    with KafkaCluster(name="topologies", kafka=kafka, logs=session_logs) as cluster:
        yield cluster


@pytest.fixture
def two(source_cluster: KafkaCluster, target_cluster: KafkaCluster) -> Topology:
    return Topology({"A": source_cluster, "B": target_cluster})


@pytest.fixture
def three(
    source_cluster: KafkaCluster, target_cluster: KafkaCluster, third_cluster: KafkaCluster
) -> Topology:
    return Topology({"A": source_cluster, "B": target_cluster, "C": third_cluster})
