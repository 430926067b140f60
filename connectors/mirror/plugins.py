"""Registers the mirror's connectors under the class names that configs use."""

from __future__ import annotations

from collections.abc import Mapping

from connect.runtime.plugins.registry import PluginRegistry
from connectors.mirror.checkpoints.connector import MirrorCheckpointConnector
from connectors.mirror.config.base import JAVA_PACKAGE
from connectors.mirror.heartbeat import MirrorHeartbeatConnector
from connectors.mirror.source.connector import MirrorSourceConnector

__all__ = ["register", "source_flow"]

# Class names of earlier releases, which stored configs may contain.
_FORMER_NAMES: dict[type, tuple[str, ...]] = {
    MirrorSourceConnector: ("connectors.mirror.source_connector.MirrorSourceConnector",),
    MirrorCheckpointConnector: (
        "connectors.mirror.checkpoint_connector.MirrorCheckpointConnector",
    ),
}


def register(registry: PluginRegistry) -> None:
    """Register the mirror's connectors under their Java names and ours."""
    for connector in (MirrorSourceConnector, MirrorHeartbeatConnector, MirrorCheckpointConnector):
        registry.register(
            connector,
            f"{JAVA_PACKAGE}{connector.__name__}",
            former_names=_FORMER_NAMES.get(connector, ()),
        )
    registry.name_task(
        "connectors.mirror.source.task.MirrorSourceTask",
        f"{JAVA_PACKAGE}MirrorSourceTask",
        former_names=["connectors.mirror.source_task.MirrorSourceTask"],
    )
    # Both engines use the same task class name, so a task can continue with the other engine.
    registry.name_task(
        "connectors.mirror.spark.copy.task.SparkSourceTask",
        f"{JAVA_PACKAGE}MirrorSourceTask",
        former_names=["connectors.spark.engine.task.SparkSourceTask"],
    )
    registry.name_task(
        "connectors.mirror.heartbeat.MirrorHeartbeatTask", f"{JAVA_PACKAGE}MirrorHeartbeatTask"
    )
    registry.name_task(
        "connectors.mirror.checkpoints.task.MirrorCheckpointTask",
        f"{JAVA_PACKAGE}MirrorCheckpointTask",
        former_names=["connectors.mirror.checkpoint_task.MirrorCheckpointTask"],
    )


def source_flow(config: Mapping[str, str]) -> str | None:
    """The flow (`source->target`) that a connector with this config copies; None if it is not a
    MirrorSourceConnector."""
    short_name = config.get("connector.class", "").strip().rpartition(".")[2]
    if short_name not in (MirrorSourceConnector.__name__, "MirrorSource"):
        return None
    source = config.get("source.cluster.alias", "source").strip()
    return f"{source}->{config.get('target.cluster.alias', 'target').strip()}"
