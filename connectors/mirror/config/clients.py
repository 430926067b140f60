"""Builds the Java client properties of every client that a mirror connector creates.

The sources in a connector's flat properties, lowest precedence first:

1. `source.cluster.*` (or `target.cluster.*`): only bootstrap and security properties;
2. `consumer.*`, `producer.*` or `admin.*`;
3. `source.consumer.*` and similar;
4. for consumers: auto-commit off, and `auto.offset.reset=earliest` unless it is set;
5. `client.id`: `[<given>|]A->B|<connector>[-<task>]|<role>`.

The worker's own producer writes the copied records, as in Connect; its properties are built
elsewhere. The results contain secrets.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from connect.config.security import CLIENT_CONFIG_NAMES

__all__ = [
    "Side",
    "checkpoint_source_admin",
    "checkpoint_target_admin",
    "checkpoints_consumer",
    "client_properties",
    "heartbeats_target_admin",
    "offset_syncs_admin",
    "offset_syncs_consumer",
    "offset_syncs_producer",
    "offset_syncs_side",
    "source_admin",
    "source_consumer",
    "target_admin",
]

Side = Literal["source", "target"]
Client = Literal["consumer", "producer", "admin"]

# Keys of the connector that share a prefix with client properties but do not configure a client.
_NOT_FOR_CLIENTS = {"consumer.poll.timeout.ms", "admin.timeout.ms"}
_TASK_KEYS = ("task.assigned.partitions", "task.assigned.groups")


def client_properties(
    props: Mapping[str, str], side: Side, client: Client, role: str, index: str | None = None
) -> dict[str, str]:
    """Return the Java properties of one client of `side`. `role` is the end of its client ID.

    `index`: the task's number, for clients of a task; `task.index` by default.
    """
    cluster = _with_prefix(props, f"{side}.cluster.")
    result = {name: value for name, value in cluster.items() if name in CLIENT_CONFIG_NAMES}
    result.update(_with_prefix(props, f"{client}."))
    result.update(_with_prefix(props, f"{side}.{client}."))
    if client == "consumer":
        result["enable.auto.commit"] = "false"
        result.setdefault("auto.offset.reset", "earliest")
    label = _entity_label(props, index)
    given = result.get("client.id")
    result["client.id"] = f"{given}|{label}|{role}" if given else f"{label}|{role}"
    return result


def source_consumer(props: Mapping[str, str], index: str | None = None) -> dict[str, str]:
    """Return the properties of the source task's consumer."""
    return client_properties(props, "source", "consumer", "replication-consumer", index)


def source_admin(props: Mapping[str, str]) -> dict[str, str]:
    """Return the properties of the source connector's admin client for the source cluster."""
    return client_properties(props, "source", "admin", "replication-source-admin")


def target_admin(props: Mapping[str, str]) -> dict[str, str]:
    """Return the properties of the source connector's admin client for the target cluster."""
    return client_properties(props, "target", "admin", "replication-target-admin")


def offset_syncs_producer(props: Mapping[str, str], index: str | None = None) -> dict[str, str]:
    """Return the properties of the source task's producer for the offset-syncs topic and the offset
    map, on the cluster that holds them.
    """
    side = offset_syncs_side(props)
    return client_properties(props, side, "producer", f"offset-syncs-{side}-producer", index)


def offset_syncs_admin(props: Mapping[str, str]) -> dict[str, str]:
    """Return the properties of the admin client for the cluster that holds the offset-syncs
    topic.
    """
    side = offset_syncs_side(props)
    return client_properties(props, side, "admin", f"offset-syncs-{side}-admin")


def offset_syncs_consumer(props: Mapping[str, str], index: str | None = None) -> dict[str, str]:
    """Return the properties of the checkpoint task's consumer of the offset-syncs topic."""
    side = offset_syncs_side(props)
    return client_properties(props, side, "consumer", f"offset-syncs-{side}-consumer", index)


def checkpoint_source_admin(props: Mapping[str, str], index: str | None = None) -> dict[str, str]:
    """Return the properties of the checkpoint connector's and task's admin client for the source
    cluster."""
    return client_properties(props, "source", "admin", "checkpoint-source-admin", index)


def checkpoint_target_admin(props: Mapping[str, str], index: str | None = None) -> dict[str, str]:
    """Return the properties of the checkpoint connector's and task's admin client for the target
    cluster."""
    return client_properties(props, "target", "admin", "checkpoint-target-admin", index)


def checkpoints_consumer(props: Mapping[str, str], index: str | None = None) -> dict[str, str]:
    """Return the properties of the consumer of the checkpoints topic on the target."""
    return client_properties(props, "target", "consumer", "checkpoints-target-consumer", index)


def heartbeats_target_admin(props: Mapping[str, str]) -> dict[str, str]:
    """Return the properties of the heartbeat connector's admin client for the target cluster."""
    return client_properties(props, "target", "admin", "heartbeats-target-admin")


def _with_prefix(props: Mapping[str, str], prefix: str) -> dict[str, str]:
    return {
        key[len(prefix) :]: value
        for key, value in props.items()
        if key.startswith(prefix) and len(key) > len(prefix) and key not in _NOT_FOR_CLIENTS
    }


def offset_syncs_side(props: Mapping[str, str]) -> Side:
    """The cluster that hosts the offset-syncs topic, and the offset map beside it."""
    location = props.get("offset-syncs.topic.location", "source").strip()
    return "target" if location == "target" else "source"


def _entity_label(props: Mapping[str, str], index: str | None) -> str:
    source = props.get("source.cluster.alias", "source").strip()
    target = props.get("target.cluster.alias", "target").strip()
    name = props.get("name", "").strip()
    task = index if index is not None else props.get("task.index")
    if task is None and any(key in props for key in _TASK_KEYS):
        task = "?"
    return f"{source}->{target}|{name}" + ("" if task is None else f"-{task}")
