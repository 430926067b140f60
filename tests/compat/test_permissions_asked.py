"""`--check` asks the clusters for each permission that a flow, or a worker of Connect and its
connectors need, and changes nothing."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from api.cli import distributed, standalone
from api.cli.worker_start.plugins import plugin_registry
from connect.clients.permissions import Operation
from connect.config.worker import WorkerConfig
from connect.runtime.distributed.group_config import DistributedConfig
from connectors.mirror.topics.provenance_topic import PROVENANCE_TOPIC
from connectors.mirrormaker.check.check import check as checked
from connectors.mirrormaker.config.mm2_properties import MirrorMakerConfig
from connectors.mirrormaker.flow_plans import plan_flows
from connectors.mirrormaker.permissions import flow_features
from connectors.mirrormaker.required_permissions import (
    ON_REQUEST,
    OTHERS,
    Feature,
    RequiredPermission,
    required_permissions,
)
from connectors.mirrormaker.worker_permissions import (
    WorkerConnector,
    connector_features,
    connector_names,
    worker_permissions,
)
from deploy.brokers import KafkaCluster, KafkaRuntime
from tests.support.properties_files import properties_text
from tests.support.records.topics import topic_names, unique
from tests.support.security.guarded_flow import (
    JAVA_HAS,
    ONCE,
    SOON_S,
    Guarded,
    granted,
)
from tests.support.security.permissions import authorizing_cluster, grant, login, revoke
from tests.support.waiting import wait_until
from tests.support.workers.java_connect import worker_properties

USERS = ("checked", "asked", "worker")


@pytest.fixture(scope="module")
def clusters(
    kafka: KafkaRuntime, session_logs: Path
) -> Iterator[tuple[KafkaCluster, KafkaCluster]]:
    made = [
        authorizing_cluster(f"asked-{side}", USERS, kafka, session_logs)
        for side in ("source", "target")
    ]
    with made[0] as source, made[1] as target:
        yield source, target


def check(guarded: Guarded, directory: Path, **logins: str) -> subprocess.CompletedProcess[str]:
    """What `--check` says of the flow; `logins` in place of its own."""
    path = directory / "mm2.properties"
    lines = {**guarded.properties(""), **logins}
    path.write_text(properties_text(lines))
    command = [sys.executable, "-m", "api.cli.mirror_maker", "--check", str(path)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


def test_check_names_what_is_missing(
    clusters: tuple[KafkaCluster, KafkaCluster], tmp_path: Path
) -> None:
    guarded = Guarded(clusters, "checked")
    flow = guarded.flow
    found = check(guarded, tmp_path)
    assert found.returncode == 1, found.stdout
    text = " ".join(found.stdout.split())
    assert f"grant Read on group {flow.a}-mm2" in text
    assert f"grant Create, Read and Write on topic {flow.syncs_topic}" in text
    for name in (flow.offsets_topic, f"mm2-configs.{flow.a}.internal"):
        assert f"grant Create, Read, Write and DescribeConfigs on topic {name}" in text
    guarded.grant(JAVA_HAS)
    allowed = check(guarded, tmp_path)
    assert allowed.returncode == 0, allowed.stdout
    for name in (flow.map_topic, PROVENANCE_TOPIC):
        assert f"on topic {name}; without it" in " ".join(allowed.stdout.split())


def assert_each_is_named(
    user: str,
    needed: Sequence[tuple[KafkaCluster, RequiredPermission]],
    ask: Callable[[], list[str]],
) -> None:
    """With all, a check says nothing about grants; without any one of them, it is named, and only
    it. Afterwards there are no more topics."""
    clusters = list(dict.fromkeys(cluster for cluster, _ in needed))
    for cluster in clusters:
        grant(cluster, user, [granted(each) for on, each in needed if on is cluster])
    before = {cluster.name: topic_names(cluster.bootstrap_servers) for cluster in clusters}
    wait_until(lambda: not ask(), SOON_S, "the brokers to know all permissions")
    for cluster, permission in needed:
        exists = permission.pattern.name in before[cluster.name]
        if exists and permission.operation is Operation.CREATE:
            continue  # another test made it: Create is not needed then
        revoke(cluster, user, [granted(permission)])
        wanted = f"grant {permission.operation} on "

        def named(wanted: str = wanted) -> bool:
            found = ask()
            return len(found) == 1 and wanted in found[0]

        wait_until(named, SOON_S, f"{permission} is missing")
        grant(cluster, user, [granted(permission)])
    assert before == {each.name: topic_names(each.bootstrap_servers) for each in clusters}


def test_check_asks_for_each_permission_and_changes_nothing(
    clusters: tuple[KafkaCluster, KafkaCluster],
) -> None:
    """No topic of the flow but its source exists."""
    guarded = Guarded(clusters, "asked")
    extra = {
        **ONCE,
        "topics": guarded.topic,
        "heartbeats.replication.enabled": "true",
        "sync.topic.configs.enabled": "true",
        "sync.topic.acls.enabled": "true",
        "mirror.quarantine.topic": unique("quarantine"),
    }
    config = MirrorMakerConfig.from_properties(guarded.properties("", extra))
    (plan,) = plan_flows(config)
    features = flow_features(config, plan)
    assert features | ON_REQUEST | OTHERS == set(Feature)
    assert_each_is_named(
        guarded.user,
        [(guarded.cluster(each), each) for each in guarded.needed(features, extra)],
        lambda: [f.text for f in checked(config).findings if "grant " in f.text],
    )


def worker_logins(cluster: KafkaCluster) -> dict[str, str]:
    """The properties with which a worker and its connectors log in as `worker`."""
    mine = login(cluster, "worker")
    prefixes = ("", "producer.", "consumer.", "admin.")
    return {f"{prefix}{key}": value for prefix in prefixes for key, value in mine.items()}


def grants_of(document: str) -> list[str]:
    """What `--check` of a worker says about grants."""
    return [each["text"] for each in json.loads(document)["findings"] if "grant " in each["text"]]


def test_check_of_a_distributed_worker_asks_for_each_of_its_permissions(
    clusters: tuple[KafkaCluster, KafkaCluster],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    _, target = clusters
    once = {"exactly.once.source.support": "enabled"}
    servers = target.bootstrap("SASL")
    properties = worker_properties(servers, unique("g"), {**worker_logins(target), **once})
    path = tmp_path / "worker.properties"
    path.write_text(properties_text(properties))
    group_config = DistributedConfig.from_properties(properties)
    needed = worker_permissions(group_config, properties["offset.storage.topic"])

    def ask() -> list[str]:
        distributed.main(["--check", "-o", "json", str(path)])
        return grants_of(capsys.readouterr().out)

    assert_each_is_named("worker", [(target, each) for each in needed], ask)


def test_check_of_a_standalone_worker_asks_for_each_permission_of_its_connectors(
    clusters: tuple[KafkaCluster, KafkaCluster],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    source, target = clusters
    guarded = Guarded(clusters, "worker")
    flow, json_values = guarded.flow, "org.apache.kafka.connect.json.JsonConverter"
    logins = {
        f"{side}.cluster.{key}": value
        for side, cluster in (("source", source), ("target", target))
        for key, value in login(cluster, "worker").items()
    }
    aside = {"errors.tolerance": "all", "errors.deadletterqueue.topic.name": unique("aside")}
    file = {"file": str(tmp_path / "lines")}
    connectors = [
        {"connector.class": "FileStreamSource", "topic": unique("lines"), **file},
        {"connector.class": "FileStreamSink", "topics": unique("read"), **file, **aside},
        {
            "connector.class": "MirrorSourceConnector",
            "source.cluster.alias": flow.a,
            "target.cluster.alias": flow.b,
            "topics": guarded.topic,
            **logins,
        },
    ]
    properties = {
        **worker_logins(target),
        "key.converter": json_values,
        "value.converter": json_values,
        "offset.storage.file.filename": str(tmp_path / "offsets"),
        "file.connectors.root": "/",
    }
    path = tmp_path / "worker.properties"
    path.write_text(properties_text(properties))
    config, plugins = WorkerConfig.for_standalone(properties), plugin_registry({})
    files: list[str] = []
    needed: list[tuple[KafkaCluster, RequiredPermission]] = []
    for number, each in enumerate(connectors):
        files.append(str(tmp_path / f"connector-{number}.properties"))
        written = {"name": f"{flow.prefix}-{number}", **each}
        Path(files[-1]).write_text(properties_text(written))
        made = WorkerConnector.from_config(written, plugins)
        wanted = required_permissions(connector_names(config, made), connector_features(made))
        needed += [(source if one.cluster == flow.a else target, one) for one in wanted]

    def ask() -> list[str]:
        standalone.main(["--check", "-o", "json", str(path), *files])
        return grants_of(capsys.readouterr().out)

    assert_each_is_named("worker", needed, ask)


def test_check_says_that_a_password_is_wrong(
    clusters: tuple[KafkaCluster, KafkaCluster], tmp_path: Path
) -> None:
    guarded = Guarded(clusters, "checked")
    a, b = guarded.flow.a, guarded.flow.b
    wrong = login(guarded.flow.source, "checked", password="wrong")
    found = check(
        guarded,
        tmp_path,
        **{
            f"{a}.sasl.jaas.config": wrong["sasl.jaas.config"],
            f"{b}.security.protocol": "PLAINTEXT",
        },
    )
    assert found.returncode == 1, found.stdout
    assert f"Cannot reach cluster {a}" in found.stdout
    assert "SASL PLAIN" in found.stdout
    assert "check that security.protocol matches the listener" in found.stdout
