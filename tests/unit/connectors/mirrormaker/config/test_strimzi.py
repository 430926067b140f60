"""Strimzi's KafkaMirrorMaker2 resources as mm2.properties."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from connect.errors import ConfigError
from connectors.mirrormaker.config.mm2_properties import MirrorMakerConfig
from connectors.mirrormaker.config.strimzi import ImportedMirror, translate_strimzi
from tests.support.deployment.strimzi_resources import V1, V1BETA2


def imported(text: str) -> ImportedMirror:
    return translate_strimzi(yaml.safe_load(text), "/secrets")


def test_a_v1beta2_resource_becomes_clusters_security_and_a_flow() -> None:
    found = imported(V1BETA2)
    assert found.properties == {
        "clusters": "main, dr",
        "main.bootstrap.servers": "main-kafka-bootstrap:9093",
        "main.security.protocol": "SASL_SSL",
        "main.ssl.truststore.type": "PEM",
        "main.ssl.truststore.location": "/secrets/main-ca/ca.crt",
        "main.sasl.mechanism": "SCRAM-SHA-512",
        "main.sasl.jaas.config": "org.apache.kafka.common.security.scram.ScramLoginModule required "
        'username="mirror" password="${dir:/secrets/main-user:password}";',
        "dr.bootstrap.servers": "dr-kafka-bootstrap:9093",
        "dr.security.protocol": "SSL",
        "dr.ssl.truststore.type": "PEM",
        "dr.ssl.truststore.location": "/secrets/dr-ca/ca.crt",
        "dr.ssl.keystore.type": "PEM",
        "dr.ssl.keystore.certificate.chain": "${dir:/secrets/dr-user:user.crt}",
        "dr.ssl.keystore.key": "${dir:/secrets/dr-user:user.key}",
        "dr.config.storage.replication.factor": "-1",
        "main->dr.enabled": "true",
        "main->dr.topics": "orders.*",
        "main->dr.groups": ".*",
        "main->dr.tasks.max": "4",
        "main->dr.replication.factor": "3",
        "main->dr.sync.topic.acls.enabled": "false",
        "main->dr.sync.group.offsets.enabled": "true",
        "main->dr.emit.heartbeats.enabled": "false",
        "config.providers": "dir",
        "config.providers.dir.class": "org.apache.kafka.common.config.provider."
        "DirectoryConfigProvider",
    }


def test_everything_without_a_counterpart_is_named() -> None:
    told = "\n".join(imported(V1BETA2).left_out)
    for words in ("spec.replicas", "spec.version", "spec.resources", "autoRestart", "offsets"):
        assert words in told
    assert "'main->dr.MirrorSourceConnector'" in told
    assert "--offsets-topic mirrormaker2-cluster-offsets" in told


def test_a_v1_resource_has_its_clusters_in_other_places() -> None:
    found = imported(V1)
    assert found.properties["clusters"] == "main, dr"
    assert found.properties["dr.bootstrap.servers"] == "dr:9092"
    assert found.properties["main->dr.refresh.topics.interval.seconds"] == "60"
    assert found.properties["main->dr.emit.checkpoints.enabled"] == "false"
    told = "\n".join(found.left_out)
    assert "groupId" in told
    assert "configStorageTopic" in told
    MirrorMakerConfig.from_properties(found.properties).validate()


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"kind": "KafkaConnect"}, "KafkaConnect"),
        ({"apiVersion": "kafka.strimzi.io/v1alpha1"}, "v1alpha1"),
        ({"spec": {}}, "spec.mirrors"),
    ],
)
def test_other_resources_are_refused(change: dict[str, Any], word: str) -> None:
    with pytest.raises(ConfigError, match=word):
        translate_strimzi({**yaml.safe_load(V1), **change})


def test_authentication_that_is_not_known_is_named() -> None:
    resource = yaml.safe_load(V1)
    resource["spec"]["target"]["authentication"] = {"type": "oauth"}
    found = translate_strimzi(resource)
    assert any("oauth" in sentence for sentence in found.left_out)
