"""Registers the mirror's connectors under the class names that configs use."""

from __future__ import annotations

from collections.abc import Mapping

from connect.runtime.plugins.registry import PluginRegistry
from connectors.mirror.checkpoints.connector import MirrorCheckpointConnector
from connectors.mirror.config.base import JAVA_PACKAGE
from connectors.mirror.heartbeat import MirrorHeartbeatConnector
from connectors.mirror.source.connector import MirrorSourceConnector
from connectors.mirror.topic_routes import use_plugins

__all__ = ["CONNECTORS", "flow_aliases", "register", "source_flow"]

CONNECTORS = (MirrorSourceConnector, MirrorHeartbeatConnector, MirrorCheckpointConnector)

# Class names of earlier releases, which stored configs may contain.
_FORMER_NAMES: dict[type, tuple[str, ...]] = {
    MirrorSourceConnector: ("connectors.mirror.source_connector.MirrorSourceConnector",),
    MirrorCheckpointConnector: (
        "connectors.mirror.checkpoint_connector.MirrorCheckpointConnector",
    ),
}


def register(registry: PluginRegistry) -> None:
    """Register the mirror's connectors under their Java names and ours, and find the classes of
    their transformations there."""
    use_plugins(registry)
    for connector in CONNECTORS:
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
    aliases = flow_aliases(config)
    if aliases is None or _short_name(config) not in _names(MirrorSourceConnector):
        return None
    return "->".join(aliases)


def flow_aliases(config: Mapping[str, str]) -> tuple[str, str] | None:
    """The clusters of the flow that a connector with this config belongs to; None if it is none of
    the mirror's."""
    if not any(_short_name(config) in _names(each) for each in CONNECTORS):
        return None
    source = config.get("source.cluster.alias", "source").strip()
    return source, config.get("target.cluster.alias", "target").strip()


def _short_name(config: Mapping[str, str]) -> str:
    return config.get("connector.class", "").strip().rpartition(".")[2]


def _names(connector: type) -> tuple[str, str]:
    """Return the names of a class: Java accepts each with and without `Connector`."""
    return connector.__name__, connector.__name__.removesuffix("Connector")
