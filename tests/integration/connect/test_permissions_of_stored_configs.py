"""Connectors that were created before their worker had a rule against what their configs choose:
they and their tasks fail at the next start with the key to set, and run again once it is set."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from deploy.brokers import KafkaCluster
from deploy.brokers.ports import LOOPBACK
from tests.support.records.topics import unique
from tests.support.waiting import wait_until
from tests.support.workers.distributed import Group, worker_group
from tests.support.workers.java_connect import worker_properties

WAIT_S = 60.0
JARS = "spark.jars"
# The key that permits it, by connector.
PERMITTED_BY = {
    "file": "file.connectors.root",
    "host": "connector.client.allowed.bootstrap.servers",
    "store": "connector.client.allowed.store.directories",
    "history": "mirror.history.allowed.urls",
    "spark": "mirror.spark.allowed.properties",
    "other": None,
}


def configs(cluster: KafkaCluster, directory: Path) -> dict[str, dict[str, str]]:
    """A connector for each kind of rule, and one that needs no permission."""
    servers = cluster.bootstrap_servers
    file = {"connector.class": "FileStreamSink", "topics": unique("none"), "tasks.max": "1"}
    heartbeat = {
        "connector.class": "MirrorHeartbeatConnector",
        "source.cluster.alias": "a",
        "target.cluster.alias": "b",
        "source.cluster.bootstrap.servers": servers,
        "target.cluster.bootstrap.servers": servers,
        "heartbeats.topic.replication.factor": "1",
    }
    return {
        "file": {**file, "file": str(directory / "out.txt")},
        "host": {
            **heartbeat,
            "producer.override.bootstrap.servers": servers.replace(LOOPBACK, "localhost"),
        },
        "store": {
            **heartbeat,
            "producer.override.ssl.truststore.location": str(directory / "trust.pem"),
            "producer.override.ssl.truststore.type": "PEM",
        },
        "history": {**heartbeat, "mirror.history.url": f"sqlite:///{directory}/history.db"},
        "spark": {**heartbeat, JARS: str(directory / "code.jar")},
        "other": heartbeat,
    }


def permissions(cluster: KafkaCluster, directory: Path) -> dict[str, str]:
    """Worker properties that permit all of them."""
    history = configs(cluster, directory)["history"]["mirror.history.url"]
    return {
        "file.connectors.root": str(directory),
        "connector.client.allowed.bootstrap.servers": "",
        "connector.client.allowed.store.directories": str(directory),
        "mirror.history.allowed.urls": history,
        "mirror.spark.allowed.properties": JARS,
    }


def rules(directory: Path) -> dict[str, str]:
    """Worker properties that permit none of them."""
    elsewhere = directory / "elsewhere"
    elsewhere.mkdir(exist_ok=True)
    return {
        "file.connectors.root": str(elsewhere),
        "connector.client.allowed.bootstrap.servers": LOOPBACK,
        "connector.client.allowed.store.directories": str(elsewhere),
        "mirror.history.allowed.urls": "",
        "mirror.spark.allowed.properties": "",
    }


def states(group: Group) -> dict[str, dict[str, str]]:
    """The state of each connector and of each task, by connector; with the trace of failed ones."""
    shown: dict[str, Any] = group.accepted("GET", "/connectors?expand=status").json()
    return {
        name: {
            "connector": told(each["status"]["connector"]),
            **{f"task {task['id']}": told(task) for task in each["status"]["tasks"]},
        }
        for name, each in shown.items()
    }


def told(part: dict[str, Any]) -> str:
    return f"{part['state']} {part.get('trace') or ''}".strip()


def await_running(group: Group) -> None:
    wanted = {name: {"connector": "RUNNING", "task 0": "RUNNING"} for name in PERMITTED_BY}
    wait_until(lambda: states(group) == wanted, WAIT_S, "all to run")


def unlike_the_rules(group: Group) -> list[str]:
    """What should have failed with the key that permits it, or should run, and does not."""
    return [
        f"{name}, {part}: {state}"
        for name, parts in states(group).items()
        for part, state in parts.items()
        if not is_as_ruled(state, PERMITTED_BY[name])
    ]


def is_as_ruled(state: str, key: str | None) -> bool:
    return state == "RUNNING" if key is None else state.startswith("FAILED") and key in state


def test_a_stored_config_that_needs_a_permission_fails_with_its_name(
    target_cluster: KafkaCluster, tmp_path: Path, logs: Path
) -> None:
    given = {
        **worker_properties(target_cluster.bootstrap_servers, unique("permitted")),
        **permissions(target_cluster, tmp_path),
    }
    with worker_group(1, given, tmp_path, logs) as group:
        for name, config in configs(target_cluster, tmp_path).items():
            group.create(name, config)
        await_running(group)

        worker = group.first
        worker.stop()
        worker.configure(rules(tmp_path))
        worker.start().await_ready()

        wait_until(lambda: not unlike_the_rules(group), WAIT_S, "failures that name their keys")
        for name, config in configs(target_cluster, tmp_path).items():
            answer = group.call("PUT", f"/connectors/{name}/config", config)
            assert answer.status == (400 if PERMITTED_BY[name] else 200), (name, answer.body)

        worker.stop()
        worker.configure(permissions(target_cluster, tmp_path))
        worker.start().await_ready()
        await_running(group)
