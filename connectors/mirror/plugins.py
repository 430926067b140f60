"""The mirror's connectors under the names that configs give them."""

from __future__ import annotations

from connect.runtime.plugins.registry import PluginRegistry
from connectors.mirror.checkpoints.connector import MirrorCheckpointConnector
from connectors.mirror.config.base import JAVA_PACKAGE
from connectors.mirror.heartbeat import MirrorHeartbeatConnector
from connectors.mirror.source.connector import MirrorSourceConnector

__all__ = ["register"]

_TASKS = {
    "connectors.mirror.source.task.MirrorSourceTask": "MirrorSourceTask",
    # The same name: a task goes on as one of the other engine.
    "connectors.mirror.spark.copy.task.SparkSourceTask": "MirrorSourceTask",
    "connectors.mirror.heartbeat.MirrorHeartbeatTask": "MirrorHeartbeatTask",
}


def register(registry: PluginRegistry) -> None:
    """Make the mirror's connectors known by their Java names and ours."""
    for connector in (MirrorSourceConnector, MirrorHeartbeatConnector, MirrorCheckpointConnector):
        registry.register(connector, f"{JAVA_PACKAGE}{connector.__name__}")
    for python_name, java_name in _TASKS.items():
        registry.name_task(python_name, f"{JAVA_PACKAGE}{java_name}")
