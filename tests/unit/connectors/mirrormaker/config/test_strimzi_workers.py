"""Strimzi's KafkaMirrorMaker2 resources for Connect workers."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from connect.config.worker import WorkerConfig
from connect.errors import ConfigError
from connectors.mirrormaker.config.strimzi_workers import ImportedWorkers, translate_for_workers
from tests.support.deployment.strimzi_resources import V1, V1BETA2


def imported(resource: Any) -> ImportedWorkers:
    return translate_for_workers(resource, "/secrets")


def changed(text: str, change: dict[str, Any]) -> Any:
    resource = yaml.safe_load(text)
    resource["spec"] |= change
    return resource


def test_a_worker_has_the_group_and_topics_of_strimzis_workers() -> None:
    worker = imported(yaml.safe_load(V1BETA2)).worker
    names = ("group.id", "config.storage.topic", "offset.storage.topic", "status.storage.topic")
    assert [worker[name] for name in names] == [
        "mirrormaker2-cluster",
        "mirrormaker2-cluster-configs",
        "mirrormaker2-cluster-offsets",
        "mirrormaker2-cluster-status",
    ]
    named = imported(yaml.safe_load(V1)).worker
    assert [named[name] for name in names] == [
        "my-group",
        "my-configs",
        "mirrormaker2-cluster-offsets",
        "mirrormaker2-cluster-status",
    ]


def test_a_worker_writes_to_the_target_with_its_security() -> None:
    worker = imported(yaml.safe_load(V1BETA2)).worker
    WorkerConfig.from_properties(worker)
    for client in ("", "producer."):
        assert worker[f"{client}bootstrap.servers"] == "dr-kafka-bootstrap:9093"
        assert worker[f"{client}ssl.keystore.key"] == "${dir:/secrets/dr-user:user.key}"
    assert worker["config.storage.replication.factor"] == "-1"
    # References of connectors are resolved, and their key stores are allowed.
    assert worker["config.providers"] == "file, dir"
    assert worker["connector.client.allowed.store.directories"] == "/secrets"
    assert "client.id" not in worker


def test_connectors_are_those_of_the_operator_each_with_its_own_config() -> None:
    source, checkpoint = imported(yaml.safe_load(V1BETA2)).connectors
    assert source.name == "main->dr.MirrorSourceConnector"
    assert checkpoint.name == "main->dr.MirrorCheckpointConnector"
    assert source.config["tasks.max"] == "4"
    assert source.config["sync.topic.acls.enabled"] == "false"
    assert checkpoint.config["sync.group.offsets.enabled"] == "true"
    assert not {"tasks.max", "sync.topic.acls.enabled"} & checkpoint.config.keys()
    assert "sync.group.offsets.enabled" not in source.config
    for each in (source, checkpoint):
        config = each.config
        assert config["name"] == each.name
        assert config["connector.class"].endswith(each.name.removeprefix("main->dr."))
        assert config["topics"] == "orders.*"
        assert config["groups"] == ".*"
        assert config["source.cluster.security.protocol"] == "SASL_SSL"
        assert "${dir:/secrets/main-user:password}" in config["source.cluster.sasl.jaas.config"]
        assert config["target.cluster.alias"] == "dr"
        # The cluster's settings are those of all its clients.
        assert not any(key.startswith("source.consumer.") for key in config)


def test_a_connector_that_is_paused_is_created_so() -> None:
    mirror = {"source": {"alias": "main", "bootstrapServers": "main:9092"}}
    paused = {**mirror, "sourceConnector": {"state": "paused"}, "heartbeatConnector": {}}
    source, heartbeat = imported(changed(V1, {"mirrors": [paused]})).connectors
    assert source.body()["initial_state"] == "PAUSED"
    assert "initial_state" not in heartbeat.body()


def test_several_sources_share_the_workers() -> None:
    mirrors = [
        {"source": {"alias": alias, "bootstrapServers": f"{alias}:9092"}, "sourceConnector": {}}
        for alias in ("main", "more")
    ]
    found = imported(changed(V1, {"mirrors": mirrors}))
    assert [each.name for each in found.connectors] == [
        "main->dr.MirrorSourceConnector",
        "more->dr.MirrorSourceConnector",
    ]
    assert found.connectors[1].config["source.cluster.bootstrap.servers"] == "more:9092"


def test_mirrors_to_several_clusters_are_refused() -> None:
    both = [
        {"sourceCluster": source, "targetCluster": target, "sourceConnector": {}}
        for source, target in (("main", "dr"), ("dr", "main"))
    ]
    with pytest.raises(ConfigError, match=r"go to dr, main, but .* write to one cluster"):
        imported(changed(V1BETA2, {"mirrors": both}))


def test_everything_without_a_counterpart_is_named() -> None:
    told = "\n".join(imported(yaml.safe_load(V1BETA2)).left_out)
    for words in ("spec.replicas", "spec.version", "spec.resources", "autoRestart"):
        assert words in told
    # They are the workers' own.
    assert "offsets" not in told
