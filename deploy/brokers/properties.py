"""The `server.properties` of a node: small and fast to start, otherwise Kafka's defaults."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from deploy.brokers.ports import LOOPBACK

__all__ = [
    "CONTROLLER",
    "INTERNAL",
    "controller_ids",
    "render",
    "server_properties",
    "zookeeper_broker_properties",
]

INTERNAL = "PLAINTEXT"
"""Listener for clients without security and for connections between brokers. Every node has it."""
CONTROLLER = "CONTROLLER"
_REPLICATION_FACTOR = 3
# Offsets and transactions are hashed over these partitions: enough to spread the load, few enough
# to load at once.
_INTERNAL_PARTITIONS = 5
# A dead broker's partitions move when its session ends (Kafka's default is 9 s). It still takes six
# missed heartbeats, which is enough for two busy cores.
_HEARTBEAT_MS = 1_000
_SESSION_MS = 6_000
# How often an idle controller writes an empty record. Kafka's default of half a second is a third
# of what an idle node does.
_IDLE_RECORD_MS = 5_000
# Kafka's default is 128 MiB, a quarter of these nodes' small heap.
_CLEANER_BUFFER_BYTES = 16 * 1024 * 1024


def controller_ids(nodes: int) -> range:
    """Return the nodes that are also controllers: all of an odd number, otherwise all but the last,
    because an even quorum survives no more failures than the next smaller odd one."""
    return range(1, nodes + 1 if nodes % 2 else nodes)


def server_properties(
    node_id: int,
    listeners: Mapping[str, str],
    ports: Mapping[int, Mapping[str, int]],
    directory: Path,
    extra: Mapping[str, str],
    advertised: Mapping[str, int] | None = None,
    hosts: Mapping[int, str] | None = None,
    controllers_alone: Sequence[int] = (),
) -> dict[str, str]:
    """Return the properties of one node.

    `listeners`: security protocol by listener name, without the controllers' own listener. `ports`:
    by node and listener name. `advertised`: by listener name, the advertised port if it differs
    from the bound one. `hosts`: by node, if not on loopback. `controllers_alone`: nodes that are
    only controllers; all others are then only brokers. `extra` overrides everything.
    """
    brokers = len(ports) - len(controllers_alone)
    controllers = controllers_alone or controller_ids(brokers)
    roles = {"broker": node_id not in controllers_alone, "controller": node_id in controllers}
    own = ports[node_id]
    host = (hosts or {}).get(node_id, LOOPBACK)
    told = {**own, **(advertised or {})}
    protocols = {CONTROLLER: "PLAINTEXT", **listeners}
    bound = [name for name in own if roles["controller" if name == CONTROLLER else "broker"]]
    replication = str(min(brokers, _REPLICATION_FACTOR))
    of_brokers = {
        "inter.broker.listener.name": INTERNAL,
        "advertised.listeners": ",".join(
            f"{name}://{host}:{told[name]}" for name in bound if name != CONTROLLER
        ),
    }
    return {
        "process.roles": ",".join(role for role, has in roles.items() if has),
        "node.id": str(node_id),
        "controller.quorum.voters": ",".join(
            f"{node}@{(hosts or {}).get(node, LOOPBACK)}:{ports[node][CONTROLLER]}"
            for node in controllers
        ),
        "controller.listener.names": CONTROLLER,
        "listeners": ",".join(f"{name}://{host}:{own[name]}" for name in bound),
        **(of_brokers if roles["broker"] else {}),
        "listener.security.protocol.map": ",".join(
            f"{name}:{protocol}" for name, protocol in protocols.items()
        ),
        "share.coordinator.state.topic.replication.factor": replication,
        "share.coordinator.state.topic.min.isr": _in_sync(brokers),
        "share.coordinator.state.topic.num.partitions": str(_INTERNAL_PARTITIONS),
        "broker.heartbeat.interval.ms": str(_HEARTBEAT_MS),
        "broker.session.timeout.ms": str(_SESSION_MS),
        "metadata.max.idle.interval.ms": str(_IDLE_RECORD_MS),
        **_common(brokers, directory),
        **extra,
    }


def zookeeper_broker_properties(
    node_id: int,
    zookeeper: str,
    listeners: Mapping[str, str],
    ports: Mapping[int, Mapping[str, int]],
    directory: Path,
    extra: Mapping[str, str],
    advertised: Mapping[str, int] | None = None,
) -> dict[str, str]:
    """Return the properties of one broker of a version before KRaft, on loopback. `zookeeper`:
    `host:port`. Other arguments are as in `server_properties`."""
    own = ports[node_id]
    told = {**own, **(advertised or {})}
    return {
        "broker.id": str(node_id),
        "zookeeper.connect": zookeeper,
        "zookeeper.session.timeout.ms": str(_SESSION_MS),
        "inter.broker.listener.name": INTERNAL,
        "listeners": ",".join(f"{name}://{LOOPBACK}:{port}" for name, port in own.items()),
        "advertised.listeners": ",".join(f"{name}://{LOOPBACK}:{told[name]}" for name in own),
        "listener.security.protocol.map": ",".join(
            f"{name}:{protocol}" for name, protocol in listeners.items()
        ),
        **_common(len(ports), directory),
        **extra,
    }


def _in_sync(nodes: int) -> str:
    return str(min(nodes, 2))


def _common(nodes: int, directory: Path) -> dict[str, str]:
    """Return properties that every version knows."""
    replication = str(min(nodes, _REPLICATION_FACTOR))
    return {
        "log.dirs": str(directory),
        "offsets.topic.replication.factor": replication,
        "offsets.topic.num.partitions": str(_INTERNAL_PARTITIONS),
        "transaction.state.log.replication.factor": replication,
        "transaction.state.log.min.isr": _in_sync(nodes),
        "transaction.state.log.num.partitions": str(_INTERNAL_PARTITIONS),
        "group.initial.rebalance.delay.ms": "0",
        "log.cleaner.dedupe.buffer.size": str(_CLEANER_BUFFER_BYTES),
        "log.cleaner.backoff.ms": "1000",
    }


def render(properties: Mapping[str, str]) -> str:
    """Format a Java properties file in ASCII. Values may contain any text, including PEM."""
    return "".join(f"{key}={_escaped(value)}\n" for key, value in properties.items())


def _escaped(value: str) -> str:
    text = value.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r")
    # A blank at the start would be parsed as part of the separator.
    if text.startswith((" ", "\t", "\f")):
        text = "\\" + text
    units = text.encode("utf-16-be")
    pairs = (int.from_bytes(units[i : i + 2], "big") for i in range(0, len(units), 2))
    return "".join(chr(unit) if unit < 128 else f"\\u{unit:04x}" for unit in pairs)
