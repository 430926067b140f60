"""The permissions that a worker of Connect and its connectors need.

Called by the command line, for `--check` and `acls`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from connect.config.types import ConfigType, parse_value
from connect.config.worker import WorkerConfig
from connect.runtime.distributed.group_config import DistributedConfig
from connect.runtime.plugins.registry import PluginRegistry
from connectors.mirror.checkpoints.connector import MirrorCheckpointConnector
from connectors.mirror.heartbeat import MirrorHeartbeatConnector
from connectors.mirror.plugins import flow_aliases
from connectors.mirror.source.connector import MirrorSourceConnector
from connectors.mirrormaker.permissions import (
    checkpoint_features,
    heartbeat_features,
    mirror_names,
    name_pattern,
    source_features,
)
from connectors.mirrormaker.required_permissions import (
    Feature,
    FlowNames,
    Pattern,
    RequiredPermission,
    required_permissions,
)

__all__ = [
    "WORKER",
    "WorkerConnector",
    "connector_features",
    "connector_names",
    "worker_permissions",
]

WORKER = "worker"
"""Stands for the alias of the worker's cluster, which has none."""

_MIRROR: Mapping[type, Callable[[Mapping[str, str]], set[Feature]]] = {
    MirrorSourceConnector: source_features,
    MirrorCheckpointConnector: checkpoint_features,
    MirrorHeartbeatConnector: heartbeat_features,
}


@dataclass(frozen=True, slots=True)
class WorkerConnector:
    """A connector that a worker is to run. `props`: its config, resolved; it may hold secrets."""

    name: str
    type: type
    kind: Literal["source", "sink"]
    props: Mapping[str, str] = field(repr=False)

    @classmethod
    def from_config(cls, config: Mapping[str, str], plugins: PluginRegistry) -> WorkerConnector:
        """Raises `ConfigError` if no plugin is its class."""
        made = plugins.connector(config.get("connector.class", ""))
        return cls(config.get("name", ""), made, made.connector_type(), config)

    @property
    def writes_unknown_topics(self) -> bool:
        """Whether its config does not say to which topics it writes."""
        return self.kind == "source" and self.type not in _MIRROR and "topic" not in self.props


def worker_permissions(group: DistributedConfig, offsets_topic: str) -> list[RequiredPermission]:
    """Return what a worker of this group needs for itself on its cluster."""
    names = FlowNames(
        source=WORKER,
        target=WORKER,
        worker_group=group.group_id,
        worker_topics=(offsets_topic, group.status_topic.name, group.config_topic.name),
    )
    features = {Feature.WORKER}
    if group.exactly_once.fences_leaders:
        features.add(Feature.EXACTLY_ONCE)
    return required_permissions(names, features)


def connector_features(connector: WorkerConnector) -> set[Feature]:
    """Return the features that the connector's config switches on. Raises `ConfigError`."""
    of_mirror = _MIRROR.get(connector.type)
    if of_mirror is not None:
        return of_mirror(connector.props)
    if connector.kind == "source":
        return {Feature.SOURCE}
    dead_letters = connector.props.get("errors.deadletterqueue.topic.name", "").strip()
    return {Feature.SINK, Feature.DEAD_LETTERS} if dead_letters else {Feature.SINK}


def connector_names(config: WorkerConfig, connector: WorkerConnector) -> FlowNames:
    """Return the names of what the connector uses. Those of a mirror's connector are on the
    clusters of its flow, all others on the worker's. Raises `ConfigError`."""
    props = connector.props
    aliases = flow_aliases(props) if connector.type in _MIRROR else None
    if aliases is not None:
        return mirror_names(props, *aliases)
    group = config.task_consumer_properties(connector.name, "")["group.id"]
    written = props.get("topic", "").strip()
    return FlowNames(
        source=WORKER,
        target=WORKER,
        topics=_sink_topics(props),
        copies=(Pattern(written),) if written else (),
        sink_group=props.get("consumer.override.group.id", group),
        dead_letters=props.get("errors.deadletterqueue.topic.name", "").strip(),
    )


def _sink_topics(props: Mapping[str, str]) -> tuple[Pattern, ...]:
    expression = props.get("topics.regex", "").strip()
    if expression:
        return (name_pattern(expression),)
    listed = parse_value("topics", props.get("topics"), ConfigType.LIST)
    return tuple(Pattern(str(name)) for name in listed) if isinstance(listed, tuple) else ()
