"""Turns mm2.properties into the configs of workers and connectors, with MirrorMaker 2's precedence.

Pure functions over settings that keep their key in the file. The rules match Kafka 4.3.1;
`tests/golden/mirror_maker_config` holds its results for several files.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from connect.config.properties import without_prefix
from connect.config.security import CLIENT_CONFIG_NAMES
from connectors.mirror.config.base import JAVA_PACKAGE
from connectors.mirror.config.checkpoint import CHECKPOINT_CONFIG_DEF
from connectors.mirror.config.heartbeat import HEARTBEAT_CONFIG_DEF
from connectors.mirror.config.rate_limits import RATE_NAMES
from connectors.mirror.config.source import SOURCE_CONFIG_DEF

__all__ = [
    "CONNECTOR_KEY_NAMES",
    "MIRROR_CONNECTORS",
    "SPARK_PREFIX",
    "WORKER_FAMILIES",
    "Flow",
    "Setting",
    "Settings",
    "client_settings",
    "cluster_settings",
    "connector_settings",
    "values",
    "worker_settings",
]

# The order in which a group's leader submits them.
MIRROR_CONNECTORS = (
    "MirrorSourceConnector",
    "MirrorHeartbeatConnector",
    "MirrorCheckpointConnector",
)

CONNECTOR_KEY_NAMES: frozenset[str] = frozenset(
    {*SOURCE_CONFIG_DEF.names, *CHECKPOINT_CONFIG_DEF.names, *HEARTBEAT_CONFIG_DEF.names}
)

# Top-level keys with these prefixes apply to every worker and override the cluster's own. The
# prefix need not end at a dot.
WORKER_FAMILIES = (
    "offset.storage",
    "config.storage",
    "status.storage",
    "key.converter",
    "value.converter",
    "header.converter",
    "task",
    "worker",
    "replication.policy",
)

# Top-level keys with these prefixes apply to every connector. Not in MirrorMaker 2.
SPARK_PREFIX = "spark."

# With Java's default of 60 s, up to a minute is copied again after a crash.
DEFAULT_OFFSET_FLUSH_INTERVAL_MS = 5000

_CLIENT_PREFIXES = ("producer.", "consumer.", "admin.")
_FOR_CLIENTS = re.compile(r"(?:consumer|producer|admin)")
_BYTE_ARRAY_CONVERTER = "org.apache.kafka.connect.converters.ByteArrayConverter"


@dataclass(frozen=True, slots=True)
class Setting:
    """A value and its origin. `key`: the key in the file, or "" for a value that is not from the
    file. `line`: its line number, from 1. The value may be a secret or a reference to one."""

    value: str
    key: str = ""
    line: int | None = None


Settings = Mapping[str, Setting]


class Flow(NamedTuple):
    """A pair of clusters, by alias. Prints as `A->B`."""

    source: str
    target: str

    def __str__(self) -> str:
        return f"{self.source}->{self.target}"


def values(settings: Settings) -> dict[str, str]:
    """Return the settings without their origins."""
    return {key: setting.value for key, setting in settings.items()}


def cluster_settings(props: Settings, alias: str) -> dict[str, Setting]:
    """Return the settings of one cluster: `alias.*`, its security settings applied to each of its
    clients, and top-level values for all other keys."""
    result = without_prefix(props, f"{alias}.")
    for name in sorted(CLIENT_CONFIG_NAMES):
        if name in result:
            _fill(result, (prefix + name for prefix in _CLIENT_PREFIXES), result[name])
    for name in sorted(CLIENT_CONFIG_NAMES):
        if name in props:
            _fill(result, (prefix + name for prefix in (*_CLIENT_PREFIXES, "")), props[name])
    return result


def worker_settings(props: Settings, flow: Flow) -> dict[str, Setting]:
    """Return the worker's settings for a flow, with config providers not yet resolved. The worker
    runs against the flow's target."""
    result = cluster_settings(props, flow.target)
    result.update({key: one for key, one in props.items() if key.startswith(WORKER_FAMILIES)})
    result.update(_providers(props))
    defaults = {
        "client.id": str(flow),
        "group.id": f"{flow.source}-mm2",
        "offset.storage.topic": f"mm2-offsets.{flow.source}.internal",
        "status.storage.topic": f"mm2-status.{flow.source}.internal",
        "config.storage.topic": f"mm2-configs.{flow.source}.internal",
        "key.converter": _BYTE_ARRAY_CONVERTER,
        "value.converter": _BYTE_ARRAY_CONVERTER,
        "header.converter": _BYTE_ARRAY_CONVERTER,
        "offset.flush.interval.ms": str(DEFAULT_OFFSET_FLUSH_INTERVAL_MS),
    }
    for key, value in defaults.items():
        result.setdefault(key, Setting(value))
    return result


def connector_settings(props: Settings, flow: Flow, connector: str) -> dict[str, Setting]:
    """Return the settings of one connector (its simple class name) of a flow, unresolved."""
    result = {key: one for key, one in props.items() if key in CONNECTOR_KEY_NAMES}
    result.update(_providers(props))
    families = ("replication.policy", SPARK_PREFIX)
    result.update({key: one for key, one in props.items() if key.startswith(families)})
    for side, alias in (("source", flow.source), ("target", flow.target)):
        for key, one in cluster_settings(props, alias).items():
            prefix = side if _FOR_CLIENTS.match(key) else f"{side}.cluster"
            result[f"{prefix}.{key}"] = one
    defaults = {
        "name": connector,
        "source.cluster.alias": flow.source,
        "target.cluster.alias": flow.target,
    }
    for key, value in defaults.items():
        result.setdefault(key, Setting(value))
    result.update(without_prefix(props, f"{flow}."))
    result.setdefault("enabled", Setting("false"))
    # Java takes the class from the file. As it is then that of all three connectors, each of them
    # copies every record.
    result["connector.class"] = Setting(JAVA_PACKAGE + connector)
    if connector != MIRROR_CONNECTORS[0]:
        # Only the connector that uses it gets it, so that a change does not restart the others.
        return {key: one for key, one in result.items() if key not in RATE_NAMES}
    return result


def client_settings(props: Settings, alias: str) -> dict[str, Setting]:
    """Return the settings of a program that only reads from a cluster: all top-level settings,
    overridden by the cluster's own."""
    return {**props, **cluster_settings(props, alias)}


def _providers(props: Settings) -> dict[str, Setting]:
    return {key: one for key, one in props.items() if key.startswith("config.providers")}


def _fill(result: dict[str, Setting], keys: Iterable[str], setting: Setting) -> None:
    for key in keys:
        result.setdefault(key, setting)
