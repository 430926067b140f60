"""Names of the mirror's classes in configs: Java's, ours, and those of earlier releases."""

from __future__ import annotations

import pytest

from connect.plugin import Connector
from connect.runtime.plugins.registry import PluginRegistry
from connectors.mirror import plugins as mirror_plugins
from connectors.mirror.checkpoints.connector import MirrorCheckpointConnector
from connectors.mirror.checkpoints.task import MirrorCheckpointTask
from connectors.mirror.heartbeat import MirrorHeartbeatTask
from connectors.mirror.replication_policy import IdentityReplicationPolicy, replication_policy
from connectors.mirror.source.connector import MirrorSourceConnector
from connectors.mirror.source.task import MirrorSourceTask
from connectors.mirror.spark.copy.task import SparkSourceTask

JAVA = "org.apache.kafka.connect.mirror."


@pytest.fixture
def registry() -> PluginRegistry:
    registry = PluginRegistry(discover=False)
    mirror_plugins.register(registry)
    return registry


@pytest.mark.parametrize(
    ("name", "connector"),
    [
        ("connectors.mirror.source_connector.MirrorSourceConnector", MirrorSourceConnector),
        (
            "connectors.mirror.checkpoint_connector.MirrorCheckpointConnector",
            MirrorCheckpointConnector,
        ),
        (f"{JAVA}MirrorSourceConnector", MirrorSourceConnector),
        ("connectors.mirror.source.connector.MirrorSourceConnector", MirrorSourceConnector),
    ],
)
def test_a_stored_config_may_name_a_connector_as_earlier_releases_did(
    registry: PluginRegistry, name: str, connector: type[Connector]
) -> None:
    assert registry.connector(name) is connector


@pytest.mark.parametrize(
    ("task", "java", "former"),
    [
        (
            MirrorSourceTask,
            "MirrorSourceTask",
            "connectors.mirror.source_task.MirrorSourceTask",
        ),
        (
            SparkSourceTask,
            "MirrorSourceTask",
            "connectors.spark.engine.task.SparkSourceTask",
        ),
        (
            MirrorCheckpointTask,
            "MirrorCheckpointTask",
            "connectors.mirror.checkpoint_task.MirrorCheckpointTask",
        ),
        (
            MirrorHeartbeatTask,
            "MirrorHeartbeatTask",
            "connectors.mirror.heartbeat.MirrorHeartbeatTask",
        ),
    ],
)
def test_a_task_is_stored_under_javas_name_and_found_by_every_former_one(
    registry: PluginRegistry, task: type, java: str, former: str
) -> None:
    assert registry.name_of(task) == JAVA + java
    own = f"{task.__module__}.{task.__qualname__}"
    assert registry.names_of_task(task) == {JAVA + java, own, former}


def test_a_policy_is_found_by_its_former_module() -> None:
    props = {
        "replication.policy.class": "connectors.mirror.policy.IdentityReplicationPolicy",
        "source.cluster.alias": "A",
    }
    assert isinstance(replication_policy(props), IdentityReplicationPolicy)
